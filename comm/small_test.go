// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// Messages of sizes around smallLen, which come before their receives, one at a time or all: the
// receive gets the contents of the memory at the call, though the memory is used again after it.
func TestMessagesAboutTheSizeOfAMessage(t *testing.T) {
	sizes := []int{0, 1, smallLen - 1, smallLen, smallLen + 1, smallLen + 2, 2 * smallLen}
	want := func(size int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(size + i)
		}
		return b
	}
	send := func(c *Comm, size int, strided bool) error {
		b := want(size)
		buf := Of(b)
		if strided {
			b = make([]byte, 2*size)
			for i, x := range want(size) {
				b[2*i] = x
			}
			buf = Vector(b, size, 1, 2)
		}
		defer clear(b)
		return c.Send(buf, 1, size)
	}
	recv := func(c *Comm, size, room int) error {
		b := make([]byte, room)
		st, err := c.Recv(Of(b), 0, size)
		if (room < size) != errors.Is(err, ErrTruncated) || room >= size && err != nil || st.Bytes != size {
			return fmt.Errorf("%d bytes into %d: %+v, %w", size, room, st, err)
		}
		if n := min(size, room); !bytes.Equal(want(size)[:n], b[:n]) || !bytes.Equal(make([]byte, room-n), b[n:]) {
			return fmt.Errorf("%d bytes into %d: %v", size, room, b)
		}
		return nil
	}
	for _, strided := range []bool{false, true} {
		run(t, 2, func(c *Comm) error {
			for _, more := range []int{-1, 0, 1} { // room in the receive
				for _, size := range sizes {
					if c.Rank() == 0 {
						if err := send(c, size, strided); err != nil {
							return err
						}
					}
					if err := c.Barrier(); err != nil {
						return err
					}
					if c.Rank() == 1 {
						if err := recv(c, size, max(0, size+more)); err != nil {
							return err
						}
					}
				}
			}
			for _, size := range sizes {
				if c.Rank() == 0 {
					if err := send(c, size, strided); err != nil {
						return err
					}
				}
			}
			if err := c.Barrier(); err != nil || c.Rank() == 0 {
				return err
			}
			for i := range sizes {
				size := sizes[len(sizes)-1-i]
				if err := recv(c, size, size); err != nil {
					return err
				}
			}
			return nil
		})
	}
}
