// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkPingPongRaw is the twin of BenchmarkPingPong: the same bytes over a bare connection,
// read by the goroutine that waits for them.
func BenchmarkPingPongRaw(b *testing.B) {
	near, far := connected(b)
	go func() {
		buf := make([]byte, headSize+8)
		for {
			if _, err := io.ReadFull(far, buf); err != nil {
				return
			}
			_, _ = far.Write(buf)
		}
	}()
	buf := make([]byte, headSize+8)
	for b.Loop() {
		_, _ = near.Write(buf)
		_, _ = io.ReadFull(near, buf)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}

const benchSize = 4 << 20

// BenchmarkTransfer is a transfer of 4 MiB.
func BenchmarkTransfer(b *testing.B) {
	eps := openAll(b, 2, nil)
	bindAll(eps)
	src, dst := make([]byte, benchSize), make([]byte, benchSize)
	b.SetBytes(benchSize)
	here := make(chan error, 2)
	key := uint64(0)
	for b.Loop() {
		key++
		eps[1].Expect(0, key, dst, func(err error) { here <- err })
		eps[0].Push(1, key, src, func(error) {})
		require.NoError(b, <-here)
	}
}

// BenchmarkTransferRaw is the twin of BenchmarkTransfer: one write, and reads until all bytes are
// there.
func BenchmarkTransferRaw(b *testing.B) {
	near, far := connected(b)
	src, dst := make([]byte, benchSize), make([]byte, benchSize)
	b.SetBytes(benchSize)
	turn, here := make(chan struct{}), make(chan struct{})
	go func() {
		for range turn {
			_, _ = io.ReadFull(far, dst)
			here <- struct{}{}
		}
	}()
	for b.Loop() {
		turn <- struct{}{}
		_, _ = near.Write(src)
		<-here
	}
	close(turn)
}

func connected(b *testing.B) (near, far net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer ln.Close()
	near, err = net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	far, err = ln.Accept()
	require.NoError(b, err)
	b.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}
