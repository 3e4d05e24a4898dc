// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package fabrictest is the conformance suite of fabrics: what a fabric advertises must work, and
// what it does not advertise must be refused.
package fabrictest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// Run tests a fabric. open returns the connected endpoints of n ranks.
func Run(t *testing.T, open func(t *testing.T, n int) []fabric.Endpoint) {
	RunAlone(t, open)
	t.Run("drop", func(t *testing.T) { drop(t, open(t, 3)) })
	t.Run("late ends", func(t *testing.T) { ends(t, open) })
}

// RunAlone is Run for a fabric of which a process has one endpoint at a time, and whose processes
// end together. It does not drop a living peer, and does not test transfers that end late, since
// that test opens several jobs at once.
func RunAlone(t *testing.T, open func(t *testing.T, n int) []fabric.Endpoint) {
	t.Run("identity", func(t *testing.T) { identity(t, open(t, 3)) })
	t.Run("all pairs", func(t *testing.T) { allPairs(t, open(t, 4)) })
	t.Run("bounds", func(t *testing.T) { bounds(t, open(t, 2)) })
	t.Run("backlog", func(t *testing.T) { backlog(t, open(t, 3)) })
	t.Run("both close", func(t *testing.T) { bothClose(t, open(t, 2)) })
	t.Run("send from deliver", func(t *testing.T) { nested(t, open(t, 2)) })
	t.Run("relay", func(t *testing.T) { relay(t, open(t, 3)) })
	t.Run("push", func(t *testing.T) { push(t, open(t, 2)) })
	t.Run("forget", func(t *testing.T) { forget(t, open(t, 2)) })
	t.Run("forget in deliver", func(t *testing.T) { forgetInside(t, open(t, 2)) })
	t.Run("expected when closed", func(t *testing.T) { closing(t, open(t, 2)) })
	t.Run("closed while polled", func(t *testing.T) { closedWhilePolled(t, open(t, 2)) })
	t.Run("push from deliver", func(t *testing.T) { flood(t, open(t, 2)) })
	t.Run("local", func(t *testing.T) { local(t, open(t, 2)) })
	t.Run("polled in a loop", func(t *testing.T) { polled(t, open(t, 3), true) })
	t.Run("polled now and then", func(t *testing.T) { polled(t, open(t, 3), false) })
	t.Run("sources", func(t *testing.T) { sources(t, open(t, 2)) })
	t.Run("shared memory", func(t *testing.T) { sharing(t, open(t, 2)) })
	t.Run("limits", func(t *testing.T) { limits(t, open(t, 2)) })
	t.Run("bad rank", func(t *testing.T) {
		eps := open(t, 2)
		bindAll(t, eps)
		require.ErrorIs(t, eps[0].Send(2, fabric.Frame{}), fabric.ErrRank)
		require.ErrorIs(t, eps[0].Send(-1, fabric.Frame{}), fabric.ErrRank)
		require.ErrorIs(t, eps[0].Relay(2, fabric.Frame{}), fabric.ErrRank)
		for _, bad := range []fabric.Frame{{Origin: -1}, {Origin: 2}, {Target: -1}, {Target: 2}} {
			require.ErrorIs(t, eps[0].Relay(1, bad), fabric.ErrRank)
		}
		for _, rank := range []int{2, -1} {
			ended := make(chan error, 2)
			eps[0].Push(rank, 1, []byte{1}, func(err error) { ended <- err })
			require.ErrorIs(t, <-ended, fabric.ErrRank)
			require.Empty(t, ended)
		}
	})
	t.Run("oneself", func(t *testing.T) { oneself(t, open(t, 2)) })
	t.Run("close", func(t *testing.T) {
		eps := open(t, 2)
		bindAll(t, eps)
		require.NoError(t, eps[0].Close())
		require.NoError(t, eps[0].Close(), "a second close is harmless")
		for rank := range eps {
			require.ErrorIs(t, eps[0].Send(rank, fabric.Frame{}), fabric.ErrClosed)
			ended := make(chan error, 2)
			eps[0].Push(rank, 1, []byte{1}, func(err error) { ended <- err })
			require.ErrorIs(t, <-ended, fabric.ErrClosed)
			require.Empty(t, ended)
		}
	})
}

// RunPolling is Run, while additional goroutines poll, enter and leave all the time, so that the
// turn changes hands in the middle of every test.
func RunPolling(t *testing.T, open func(t *testing.T, n int) []fabric.Endpoint) {
	morePollers.Store(true)
	defer morePollers.Store(false)
	Run(t, open)
}

// polled checks that frames and transfers arrive if only this goroutine polls, in a loop or now and
// then. The engines' own goroutines are held meanwhile.
func polled(t *testing.T, eps []fabric.Endpoint, inLoop bool) {
	hold := make(chan struct{})
	defer close(hold) // before the endpoints are closed
	sinks, engines := bindHeld(t, eps, hold)
	until := func(done func() bool) {
		for deadline := time.Now().Add(time.Minute); !done(); {
			require.False(t, time.Now().After(deadline), "what was sent does not arrive by polling")
			for _, g := range engines {
				if inLoop {
					g.Try()
				} else if !g.Poll() {
					runtime.Gosched() // Poll does not yield
				}
			}
		}
	}
	const rounds = 40
	for k := range rounds {
		for i, e := range eps {
			for d := range eps {
				if d != i {
					require.NoError(t, e.Send(d, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(k)}, Data: make([]byte, 100*k)}))
				}
			}
		}
		for _, s := range sinks {
			until(func() bool { return len(s.signal) == (len(eps)-1)*(k+1) })
		}
	}
	for _, size := range []int{1, 100_000, 5_000_000} {
		// more than a ring or a socket takes at once
		from, to := fill(make([]byte, size), 0), make([]byte, size)
		var ended atomic.Int32
		end := func(err error) {
			require.NoError(t, err)
			ended.Add(1)
		}
		eps[1].Expect(0, uint64(size), to, end)
		eps[0].Push(1, uint64(size), from, end)
		until(func() bool { return ended.Load() == 2 })
		require.Equal(t, from, to)
	}
}

// byHand is an engine that does not poll by itself. It records the doorbells.
type byHand struct {
	rings   chan fabric.Source
	mu      sync.Mutex // held while a goroutine polls
	retired bool       // guarded by mu
}

func (b *byHand) Ring(s fabric.Source) { b.rings <- s }
func (b *byHand) Call()                {}

func (b *byHand) Retire(fabric.Source, time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retired = true
	return true
}

// goOn polls until the sources are retired.
func (b *byHand) goOn(sources []fabric.Source) {
	for over := false; !over; runtime.Gosched() {
		b.mu.Lock()
		for _, s := range sources {
			if !b.retired {
				s.Poll(false)
			}
		}
		over = b.retired
		b.mu.Unlock()
	}
}

// sources checks what an engine relies on. A frame rings an armed source, once, and waits until the
// source is polled. If a frame is there when a source is armed, Arm reports the frame or the source
// rings. This goroutine polls all sources of rank 1.
func sources(t *testing.T, eps []fabric.Endpoint) {
	all := slices.DeleteFunc(eps[1].Sources(), func(s fabric.Source) bool { return s.Costs().Readers })
	require.Equal(t, all, slices.DeleteFunc(eps[1].Sources(), func(s fabric.Source) bool { return s.Costs().Readers }), "the same each time")
	sinks := []*sink{{signal: make(chan struct{}, 1<<10), lost: make(chan int, 64)}, {signal: make(chan struct{}, 1<<10), lost: make(chan int, 64)}}
	eps[0].Bind(sinks[0], progress.New(eps[0].Sources(), progress.Config{Ranks: 1}))
	hand := &byHand{rings: make(chan fabric.Source, 1<<10)}
	rings := hand.rings
	eps[1].Bind(sinks[1], hand)
	if len(all) == 0 {
		require.NoError(t, eps[0].Send(1, fabric.Frame{}))
		sinks[1].wait(1)
		require.Empty(t, rings, "without sources, nothing rings")
		return
	}
	poll := func() {
		for n := len(sinks[1].signal); len(sinks[1].signal) == n; {
			for _, s := range all {
				s.Poll(false)
				if s.Waits() {
					s.Work()
				}
				s.Serve()
			}
		}
	}
	send := func() { require.NoError(t, eps[0].Send(1, fabric.Frame{})) }
	send()
	s := <-rings
	require.Contains(t, all, s)
	require.Empty(t, sinks[1].signal, "no goroutine polls")
	poll()
	for _, why := range []fabric.Leaving{fabric.LeavingInVain, fabric.LeavingFound, fabric.LeavingForSoon} {
		switch s.Arm(true, why) {
		case fabric.ArmDeferred:
			require.Equal(t, fabric.LeavingForSoon, why)
			send()
		case fabric.ArmedFully, fabric.SomethingHere:
			// not every source can see that nothing is there
			send()
			require.Equal(t, s, <-rings)
		}
		poll()
		s.Arm(false, fabric.LeavingInVain)
		send()
		poll()
		send()
		if s.Arm(true, fabric.LeavingInVain) != fabric.SomethingHere {
			require.Equal(t, s, <-rings)
		}
		poll()
		for len(rings) > 0 {
			<-rings
		}
	}
	require.False(t, s.Midway())
	go hand.goOn(all) // for the end
}

// sharing checks shared memory, if there is any: peers see what a rank writes to the memory that it
// shares.
func sharing(t *testing.T, eps []fabric.Endpoint) {
	bindAll(t, eps)
	for i, e := range eps {
		for p := range eps {
			mem, err := e.Shared(p)
			if !e.Caps(p).SharedMemory || e.Local(p) != nil && p != i {
				require.ErrorIs(t, err, fabric.ErrUnsupported)
				continue
			}
			if err != nil { // a rank's own memory, where all ranks are in one address space
				require.ErrorIs(t, err, fabric.ErrUnsupported)
				continue
			}
			require.NotEmpty(t, mem)
			require.Zero(t, mem[i], "not written yet")
			mem[i] = byte(10 + p)
		}
	}
	for p, e := range eps {
		if mem, err := e.Shared(p); err == nil {
			for i := range eps {
				require.EqualValues(t, 10+p, mem[i])
			}
		}
	}
	for _, rank := range []int{-1, len(eps)} {
		_, err := eps[0].Shared(rank)
		require.Error(t, err)
	}
}

func identity(t *testing.T, eps []fabric.Endpoint) {
	bindAll(t, eps)
	for i, e := range eps {
		require.Equal(t, i, e.Rank())
		require.Equal(t, len(eps), e.Size())
		for p := range eps {
			c := e.Caps(p)
			require.NotEmpty(t, c.Kind)
			require.GreaterOrEqual(t, c.EagerLimit, 0)
		}
	}
}

func allPairs(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	for i, e := range eps {
		for d := range eps {
			require.NoError(t, e.Send(d, fabric.Frame{Head: headOf(uint64(i<<8 | d)), Data: fmt.Appendf(nil, "%d to %d", i, d)}))
		}
	}
	for d, s := range sinks {
		all := s.wait(len(eps))
		require.Len(t, all, len(eps))
		for _, g := range all {
			require.Equal(t, fmt.Sprintf("%d to %d", g.src, d), string(g.data))
			require.Equal(t, headOf(uint64(g.src<<8|d)), g.head)
		}
	}
}

func nested(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	sinks[1].extra = func(src int, f fabric.Frame) {
		if f.Head[0] > 0 {
			f.Head[0]--
			_ = eps[1].Send(0, f)
		}
	}
	sinks[0].extra = func(src int, f fabric.Frame) { _ = eps[0].Send(1, f) }
	require.NoError(t, eps[0].Send(1, word(10)))
	require.Len(t, sinks[1].wait(11), 11)
}

// push checks that many transfers of various sizes, with frames in between, arrive whole where they
// are expected.
func push(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	limit := cmp.Or(eps[0].Caps(1).MaxFrame, 1<<20)
	sizes := []int{1, 7, 4096, 65535, 1 << 18, limit, limit + 1, 3*limit - 5}
	var both sync.WaitGroup
	data, dst := make([][]byte, len(sizes)), make([][]byte, len(sizes))
	ends := make([]atomic.Int32, 2*len(sizes))
	end := func(i int) func(error) {
		both.Add(1)
		return func(err error) {
			if err == nil {
				ends[i].Add(1)
			}
			both.Done()
		}
	}
	for i, n := range sizes {
		data[i], dst[i] = fill(make([]byte, n), uint64(i)), make([]byte, n)
		eps[1].Expect(0, uint64(i)+1, dst[i], end(2*i))
	}
	for i := range sizes {
		eps[0].Push(1, uint64(i)+1, data[i], end(2*i+1))
		require.NoError(t, eps[0].Send(1, word(uint64(i))))
	}
	both.Wait()
	for i := range sizes {
		require.EqualValues(t, 1, ends[2*i].Load())
		require.EqualValues(t, 1, ends[2*i+1].Load())
		require.True(t, bytes.Equal(data[i], dst[i]), "%d bytes", sizes[i])
	}
	require.Len(t, sinks[1].wait(len(sizes)), len(sizes))
}

// oneself checks transfers from a rank to itself: one that is expected, one that is not, and one
// whose expectation was taken back.
func oneself(t *testing.T, eps []fabric.Endpoint) {
	bindAll(t, eps)
	dst := make([]byte, 10)
	ended, pushed := make(chan error, 4), make(chan error, 4)
	push := func(key uint64, data string) error {
		eps[1].Push(1, key, []byte(data), func(err error) { pushed <- err })
		return <-pushed
	}
	expect := func(key uint64) { eps[1].Expect(1, key, dst, func(err error) { ended <- err }) }
	expect(1)
	require.NoError(t, push(2, "unexpected"))
	require.Empty(t, ended)
	require.NoError(t, push(1, "0123456789"))
	require.NoError(t, <-ended)
	require.Equal(t, "0123456789", string(dst))
	expect(3)
	require.True(t, eps[1].Forget(1, 3))
	require.NoError(t, push(3, "taken back"))
	require.Equal(t, "0123456789", string(dst))
	require.NoError(t, push(1, "used twice"), "a key is used once")
	require.Equal(t, "0123456789", string(dst))
	require.Empty(t, ended)
	require.Empty(t, pushed)
}

// forget checks that memory is not written after Forget, and that other transfers are not affected.
func forget(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	dst, other := make([]byte, 1<<16), make([]byte, 1<<16)
	eps[1].Expect(0, 1, dst, func(error) { t.Error("a transfer that was taken back has ended") })
	require.True(t, eps[1].Forget(0, 1))
	require.False(t, eps[1].Forget(0, 1))
	var both tally
	both.Add(3)
	eps[1].Expect(0, 2, other, both.end)
	data := bytes.Repeat([]byte("x"), 1<<16)
	eps[0].Push(1, 1, data, func(error) { both.Done() })
	eps[0].Push(1, 2, data, both.end)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	sinks[1].wait(1)
	both.Wait()
	require.Zero(t, both.failed.Load())
	require.Equal(t, data, other)
	require.Equal(t, make([]byte, 1<<16), dst)
	require.False(t, eps[1].Forget(0, 2))
}

// forgetInside checks that a handler can take back what it has just expected, and that the peer's
// push ends nevertheless.
func forgetInside(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	const n = 1 << 18
	dst, data := make([]byte, n), bytes.Repeat([]byte("x"), n)
	var forgotten, again bool
	sinks[0].extra = func(src int, _ fabric.Frame) {
		eps[0].Expect(src, 1, dst, func(error) { t.Error("a transfer that was taken back has ended") })
		forgotten, again = eps[0].Forget(src, 1), eps[0].Forget(src, 1)
	}
	require.NoError(t, eps[1].Send(0, fabric.Frame{}))
	sinks[0].wait(1)
	require.True(t, forgotten)
	require.False(t, again)
	pushed := make(chan error, 1)
	eps[1].Push(0, 1, data, func(err error) { pushed <- err })
	require.NoError(t, <-pushed)
	require.Equal(t, make([]byte, n), dst)
}

// closing checks that expected transfers end when the endpoint is closed.
func closing(t *testing.T, eps []fabric.Endpoint) {
	bindAll(t, eps)
	ended := make(chan error, 2)
	eps[1].Expect(0, 1, make([]byte, 10), func(err error) { ended <- err })
	require.NoError(t, eps[1].Close())
	require.Error(t, <-ended)
	eps[1].Expect(0, 2, make([]byte, 10), func(err error) { ended <- err })
	require.Error(t, <-ended)
}

// closedWhilePolled checks that Close returns while goroutines poll without end, on one processor.
// Each of them enters again as soon as it has left, and others run while one of them polls. So
// there is never a moment at which Close could observe that no goroutine polls.
func closedWhilePolled(t *testing.T, eps []fabric.Endpoint) {
	_, engines := bindHeld(t, eps, nil)
	l := engines[1]
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var polling sync.WaitGroup
	over := make(chan struct{})
	defer polling.Wait()
	defer close(over)
	for range 4 {
		polling.Go(func() {
			woken := make(chan struct{}, 1)
			for {
				select {
				case <-over:
					return
				default:
					l.PollChannel(woken, false)
				}
			}
		})
	}
	require.NoError(t, eps[1].Close())
}

// flood has both ends answer each frame with a large transfer, from Deliver. If Push waited for the
// other end to read, both ends would wait for ever.
func flood(t *testing.T, eps []fabric.Endpoint) {
	size := min(cmp.Or(eps[0].Caps(1).MaxFrame, 1<<20), 1<<20)
	sinks := bindAll(t, eps)
	const n = 8
	data := [2][]byte{bytes.Repeat([]byte("a"), size), bytes.Repeat([]byte("b"), size)}
	var dst [2][n][]byte
	var done sync.WaitGroup
	done.Add(4 * n)
	for i, s := range sinks {
		for k := range n {
			dst[i][k] = make([]byte, size)
			eps[i].Expect(1-i, uint64(k)+1, dst[i][k], func(error) { done.Done() })
		}
		s.extra = func(src int, f fabric.Frame) {
			eps[i].Push(src, f.Head[0], data[i], func(error) { done.Done() })
		}
	}
	var both sync.WaitGroup
	for i := range eps {
		both.Go(func() {
			for k := range n {
				_ = eps[i].Send(1-i, fabric.Frame{Head: word(uint64(k) + 1).Head, Data: data[i]})
			}
		})
	}
	both.Wait()
	done.Wait()
	for i, s := range sinks {
		for _, g := range s.wait(n) {
			require.Equal(t, data[1-i], g.data)
		}
		for _, p := range dst[i] {
			require.True(t, bytes.Equal(data[1-i], p))
		}
	}
}

func local(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	if h := eps[0].Local(1); h != nil {
		require.Same(t, sinks[1], h)
	}
}

func limits(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	limit := eps[0].Caps(1).MaxFrame
	size := cmp.Or(limit, 4<<20)
	data := bytes.Repeat([]byte("weft"), size/4+1)[:size]
	require.NoError(t, eps[0].Send(1, fabric.Frame{Data: data}))
	require.True(t, bytes.Equal(data, sinks[1].wait(1)[0].data))
	if limit > 0 {
		require.ErrorIs(t, eps[0].Send(1, fabric.Frame{Data: append(data, 0)}), fabric.ErrUnsupported)
	}
}

// drop checks that Drop ends the communication with a peer, with all that was under way, and that
// other peers are not affected.
func drop(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	d := eps[0]
	if d.Local(1) != nil {
		d.Drop(1, errors.New("no matter"))
		require.NoError(t, d.Send(1, fabric.Frame{}), "ranks of one address space end together")
		return
	}
	ended := make(chan error, 1)
	end := func(err error) { ended <- err }
	require.NoError(t, eps[0].Send(1, word(1)))
	require.NoError(t, eps[2].Send(1, word(2)))
	sinks[1].wait(2)
	eps[0].Expect(1, 1, make([]byte, 10), end)
	why := errors.New("the reason")
	d.Drop(1, why)
	require.ErrorContains(t, <-ended, "the reason")
	d.Drop(1, why)
	d.Drop(9, why)
	require.Error(t, eps[0].Send(1, word(3)))
	eps[0].Push(1, 7, make([]byte, 1<<20), end)
	require.Error(t, <-ended)
	eps[0].Expect(1, 2, make([]byte, 10), end)
	require.Error(t, <-ended)
	// The others continue.
	dst := make([]byte, 1<<16)
	eps[2].Expect(0, 5, dst, end)
	eps[0].Push(2, 5, append(make([]byte, 1<<16-1), 'x'), func(error) {})
	require.NoError(t, <-ended)
	require.EqualValues(t, 'x', dst[1<<16-1])
	require.NoError(t, eps[2].Send(1, word(4)))
	require.EqualValues(t, 4, sinks[1].wait(1)[2].head[0])
	require.NoError(t, eps[0].Close())
	d.Drop(2, why)
}
