// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"testing"
	"unsafe"
)

// Copies a piece of a matrix that is in the cache, with rows of 2 KiB, to memory that is in the
// cache ("same": the same memory each time) or is not ("other": other memory each time).
func BenchmarkRows(b *testing.B) {
	const size, stride = 2048, 16400
	src := make([]byte, stride*256)
	far := make([]byte, 256<<20)
	for _, total := range []int{Least, 256 << 10, 512 << 10} {
		for _, room := range []int{total, len(far)} {
			target := map[bool]string{true: "same", false: "other"}[room == total]
			rows := total / size
			next := 0
			bench := func(name string, copyAll func(dst []byte)) {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", target, total>>10, name), func(b *testing.B) {
					b.SetBytes(int64(total))
					for b.Loop() {
						copyAll(far[next:][:total])
						if next += total; next+total > room {
							next = 0
						}
					}
				})
			}
			bench("ordinary", func(dst []byte) {
				for r := range rows {
					copy(dst[r*size:][:size], src[r*stride:])
				}
			})
			bench("stream", func(dst []byte) { Rows(dst, unsafe.Pointer(&src[0]), rows, size, stride) })
		}
	}
}
