// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
)

// The conformance suite, while additional goroutines poll.
func TestConformancePolling(t *testing.T) {
	fabrictest.RunPolling(t, func(t *testing.T, n int) []fabric.Endpoint { return asFabric(openAll(t, n, nil)) })
}

// Two ranks take turns to send. The waiting rank polls in one way or another, or leaves polling to
// other goroutines, at random and for random times. So frames arrive at every moment of entering,
// leaving, arming and being woken. The test fails if a frame is not read.
func TestHandOverHammer(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	var token [2]chan struct{}
	for i := range eps {
		token[i] = make(chan struct{}, 1)
		cs[i].each = func(int, fabric.Frame) { token[i] <- struct{}{} }
	}
	seed := rand.Uint64()
	turn := func(i int, r *rand.Rand) {
		e, woken := engine(eps[i]), token[i]
		switch r.IntN(5) {
		case 0: // does not poll
		case 1:
			loop := r.IntN(2) == 0 // or now and then
			for range r.IntN(40) {
				if loop {
					e.Try()
				} else {
					e.Poll()
				}
			}
		case 2:
			if e.Enter() {
				for range r.IntN(200) {
					runtime.Gosched()
				}
				e.Leave()
			}
		case 3:
			e.PollChannel(woken, e.Enter())
		default:
			e.PollChannel(woken, false)
		}
		select {
		case <-woken:
		case <-time.After(20 * time.Second):
			t.Errorf("seed %d: rank %d waits for a frame that was not read: %+v", seed, i, e)
		}
	}
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for k := range rounds {
				if i == 1 {
					turn(i, r)
				}
				_ = eps[i].Send(1-i, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(k)}})
				if i == 0 {
					turn(i, r)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	both.Wait()
	require.Zero(t, cs[0].bad.Load()+cs[1].bad.Load())
}

// As TestForgottenInTheMiddleOfAPiece, over a polled socket that no goroutine reads at the moment.
func TestForgottenWhileNotRead(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	fd := eps[0].peers.At(1).sock.fd
	const n = 100 << 10
	done := make(chan error, 2)
	eps[1].Expect(0, 7, make([]byte, 2*n), func(err error) { done <- err })
	eps[1].Expect(0, 8, make([]byte, 4), func(err error) { done <- err })
	piece := fabric.Frame{Head: [fabric.HeadWords]uint64{7}, Data: make([]byte, n)}
	write := func(b []byte) {
		for len(b) > 0 {
			m, err := unix.Write(fd, b)
			if err != unix.EAGAIN {
				require.NoError(t, err)
				b = b[m:]
			}
		}
	}
	write(append(appendHead(nil, kindPiece, &piece), piece.Data[:n-1000]...))
	p := eps[1].peers.At(0)
	eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.filling
	})
	eventually(t, func() bool {
		if eps[1].Forget(0, 7) {
			t.Fatal("a piece of the transfer is half read")
		}
		return len(done) == 1
	})
	require.ErrorIs(t, <-done, fabric.ErrClosed)
	write(piece.Data[:1000])
	small := fabric.Frame{Head: [fabric.HeadWords]uint64{8}, Data: []byte("abcd")}
	write(append(appendHead(nil, kindPiece, &small), small.Data...))
	require.NoError(t, <-done)
	require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{1}}))
	eventually(t, func() bool { return cs[1].n.Load() == 2 })
	require.Zero(t, cs[1].bad.Load())
}

// A rank that sends to a peer that closes gets ErrClosed, and Handler.Lost is not called, whether a
// write meets the end of the connection or not.
func TestSendToOneThatCloses(t *testing.T) {
	for range 20 {
		eps := openAll(t, 2, nil)
		cs := bindAll(eps)
		require.NoError(t, eps[0].Send(1, fabric.Frame{}))
		eventually(t, func() bool { return cs[1].n.Load() == 1 })
		closed := make(chan struct{})
		go func() { _ = eps[1].Close(); close(closed) }()
		var err error
		for err == nil {
			err = eps[0].Send(1, fabric.Frame{Data: make([]byte, 100)})
		}
		<-closed
		eventually(t, func() bool { return eps[0].Send(1, fabric.Frame{}) != nil })
		eventually(t, func() bool {
			eps[0].peers.At(1).mu.Lock()
			defer eps[0].peers.At(1).mu.Unlock()
			return eps[0].peers.At(1).state == lost
		})
		require.ErrorIs(t, eps[0].Send(1, fabric.Frame{}), fabric.ErrClosed)
		require.Empty(t, cs[0].errors())
	}
}

// A peer is dropped while a piece from it is half read, and the endpoint is closed before the next
// poll: the transfer ends.
func TestDroppedInTheMiddleOfAPiece(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	done := make(chan error, 1)
	const n = 100 << 10
	eps[1].Expect(0, 7, make([]byte, n), func(err error) { done <- err })
	piece := fabric.Frame{Head: [fabric.HeadWords]uint64{7}, Data: make([]byte, n)}
	_, err := unix.Write(eps[0].peers.At(1).sock.fd, append(appendHead(nil, kindPiece, &piece), piece.Data[:1000]...))
	require.NoError(t, err)
	p := eps[1].peers.At(0)
	eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.filling
	})
	eps[1].Drop(0, errors.New("dropped"))
	require.NoError(t, eps[1].Close())
	require.Error(t, <-done)
}

// Close closes every descriptor that an endpoint has opened, also those of lost peers.
func TestDescriptors(t *testing.T) {
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(names)
	}
	use := func() {
		eps := openAll(t, 3, nil)
		cs := bindAll(eps)
		for _, e := range eps[1:] {
			require.NoError(t, e.Send(0, fabric.Frame{}))
		}
		eventually(t, func() bool { return cs[0].n.Load() == 2 })
		eps[0].peers.At(1).hangUp(both)
		require.Equal(t, 1, <-cs[0].lost)
		for _, e := range eps {
			require.NoError(t, e.Close())
		}
	}
	use() // Go keeps descriptors that the first run opens
	before := count()
	use()
	eventually(t, func() bool { return count() <= before })
}

// BenchmarkPingPongPolling is BenchmarkPingPong with waiting goroutines that poll.
func BenchmarkPingPongPolling(b *testing.B) {
	eps := openAll(b, 2, nil)
	cs := bindAll(eps)
	var woken [2]chan struct{}
	for i := range eps {
		woken[i] = make(chan struct{}, 1)
		cs[i].each = func(int, fabric.Frame) { woken[i] <- struct{}{} }
	}
	wait := func(i int) {
		engine(eps[i]).PollChannel(woken[i], false)
		<-woken[i]
	}
	data := make([]byte, 8)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range b.N {
			wait(1)
			_ = eps[1].Send(0, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: data})
		}
	}()
	for i := range b.N {
		_ = eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: data})
		wait(0)
	}
	<-over
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}
