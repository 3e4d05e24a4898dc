// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// A frame that is sent after a large transfer arrives before the transfer's end, and so does a
// small transfer.
func TestSmallAfterLarge(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	release, order := make(chan struct{}), make(chan string, 3)
	cs[1].each = func(_ int, f fabric.Frame) {
		if f.Head[0] == 0 {
			<-release // the reader is blocked meanwhile
			return
		}
		order <- "frame"
	}
	large, small := make([]byte, 64<<20), make([]byte, MaxFrame)
	eps[1].Expect(0, 1, make([]byte, len(large)), func(error) { order <- "large" })
	eps[1].Expect(0, 2, make([]byte, len(small)), func(error) { order <- "small" })
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	var sent sync.WaitGroup
	sent.Add(2)
	eps[0].Push(1, 1, large, func(error) { sent.Done() })
	eps[0].Push(1, 2, small, func(error) { sent.Done() })
	require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{1}}))
	close(release)
	got := map[string]int{}
	for i := range 3 {
		got[<-order] = i
	}
	require.Equal(t, 2, got["large"], got)
	sent.Wait()
}

// Transfers and frames of many goroutines, in both directions: all bytes arrive where they belong.
func TestTransferHammer(t *testing.T) {
	eps := openAll(t, 2, nil)
	bindAll(eps)
	hammerTransfers(t, eps, 8, 1<<17)
}

// hammerTransfers has four goroutines of each rank send to the other rank at the same time. Each
// sends each transfers of up to most units of 4 bytes.
func hammerTransfers(t *testing.T, eps []*Endpoint, each, most int) {
	const goroutines = 8
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 7))
			from := g % 2
			for i := range each {
				data := bytes.Repeat([]byte{byte(g), byte(i), 3, byte(r.IntN(256))}, 1+r.IntN(1+r.IntN(most)))
				dst := make([]byte, len(data))
				key := uint64(g<<16 | i)
				var both sync.WaitGroup
				both.Add(2)
				var errs [2]error
				eps[1-from].Expect(from, key, dst, func(err error) { errs[0] = err; both.Done() })
				_ = eps[from].Send(1-from, fabric.Frame{Data: data[:min(len(data), 100)]})
				eps[from].Push(1-from, key, data, func(err error) { errs[1] = err; both.Done() })
				both.Wait()
				if errs[0] != nil || errs[1] != nil || !bytes.Equal(data, dst) {
					t.Errorf("transfer %d of goroutine %d, %d bytes: %v", i, g, len(data), errs)
				}
			}
		})
	}
	wg.Wait()
}

// reader returns an endpoint whose peer 1 is read from a pipe, and the other end of the pipe.
func reader(t *testing.T, h fabric.Handler) (*Endpoint, net.Conn, chan error) {
	t.Helper()
	e := openAll(t, 2, nil)[0]
	e.handler = h
	near, far := net.Pipe()
	e.peers.At(1).conn = near
	ended := make(chan error, 1)
	go func() { ended <- e.peers.At(1).readAll() }()
	t.Cleanup(func() { _ = far.Close(); _ = near.Close() })
	return e, far, ended
}

// A transfer is forgotten while a piece of it is half read: the memory is released at once, the
// rest is dropped, and later frames are read as usual.
func TestForgottenInTheMiddleOfAPiece(t *testing.T) {
	cs := newCollect()
	e, far, ended := reader(t, cs)
	const n = 100 << 10
	done := make(chan error, 2)
	e.Expect(1, 7, make([]byte, 2*n), func(err error) { done <- err })
	e.Expect(1, 8, make([]byte, 4), func(err error) { done <- err })
	piece := fabric.Frame{Head: [fabric.HeadWords]uint64{7}, Data: make([]byte, n)}
	// the reader has read it when Write returns
	_, err := far.Write(append(appendHead(nil, kindPiece, &piece), piece.Data[:n-1000]...))
	require.NoError(t, err)
	require.False(t, e.Forget(1, 7))
	require.ErrorIs(t, <-done, fabric.ErrClosed)
	_, err = far.Write(piece.Data[:1000])
	require.NoError(t, err)
	small := fabric.Frame{Head: [fabric.HeadWords]uint64{8}, Data: []byte("abcd")}
	_, err = far.Write(append(appendHead(nil, kindPiece, &small), small.Data...))
	require.NoError(t, err)
	require.NoError(t, <-done)
	_, err = far.Write(appendHead(nil, kindFrame, &fabric.Frame{}))
	require.NoError(t, err)
	eventually(t, func() bool { return cs.n.Load() == 1 })
	require.False(t, e.Forget(1, 7), "forgotten already")
	require.NoError(t, far.Close())
	require.Error(t, <-ended)
}

// A connection that ends in the middle of a piece ends its transfer.
func TestLostInTheMiddleOfAPiece(t *testing.T) {
	e, far, ended := reader(t, newCollect())
	const n = 100 << 10
	done := make(chan error, 1)
	e.Expect(1, 7, make([]byte, n), func(err error) { done <- err })
	piece := fabric.Frame{Head: [fabric.HeadWords]uint64{7}, Data: make([]byte, n)}
	_, err := far.Write(append(appendHead(nil, kindPiece, &piece), piece.Data[:n/2]...))
	require.NoError(t, err)
	require.NoError(t, far.Close())
	require.ErrorContains(t, <-done, "rank 1")
	require.Error(t, <-ended)
}
