//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// noProcess is the number of a process that there is not: the largest possible ones are given last.
const noProcess = 1<<22 - 1

// freight is a transfer from rank 0 to rank 1.
type freight struct {
	from, place []byte
	guard       []byte // what place is in
}

func pack(n int) *freight {
	f := &freight{from: make([]byte, n), guard: make([]byte, n+128)}
	for i := range f.from {
		f.from[i] = byte(i*7+i>>8) | 1
	}
	f.place = f.guard[64 : 64+n]
	return f
}

// has requires that the bytes from..to are here, and no others.
func (f *freight) has(t *testing.T, from, to int) {
	t.Helper()
	for i, b := range f.guard {
		k := i - 64
		if in := from <= k && k < to; in && b != f.from[k] || !in && b != 0 {
			t.Fatalf("byte %d is %d", k, b)
		}
	}
}

// pushed has rank 1 expect a transfer, and rank 0 push it.
func pushed(a, b *actor, sent, got *ends, key uint64, n int) *freight {
	f := pack(n)
	b.Expect(0, key, f.place, got.done(key))
	a.Push(1, key, f.from, sent.done(key))
	return f
}

func oneCopy(c *Config) { c.SingleCopy = 1 }

// A transfer of one copy, of which both sides make parts, in every order of who comes first.
func TestCopies(t *testing.T) {
	none, over := map[uint64]string{}, map[uint64]string{7: ""}
	for _, n := range []int{1, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 2*chunk + 1, 3*chunk + 5} {
		for _, order := range []string{"receiver", "sender", "sender, told late", "both"} {
			t.Run(fmt.Sprintf("%d bytes, %s", n, order), func(t *testing.T) {
				s := onStage(t, 2, oneCopy)
				a, b := s[0], s[1]
				meet(t, s)
				var sent, got ends
				f := pushed(a, b, &sent, &got, 7, n)
				from, to := a.peers.At(1), b.peers.At(0)
				require.Len(t, a.bulk.out, 1)
				b.looks(t)
				require.Len(t, b.bulk.in, 1)
				require.EqualValues(t, 1, b.bulk.waits.Load())
				in := b.bulk.in[transferKey{to, 7}]
				f.has(t, 0, 0)
				shared := n > chunk
				if require.Equal(t, shared, in.deal == 0); !shared {
					require.Equal(t, -1, in.deal)
				}
				require.Equal(t, shared, to.deals == 1)
				require.Equal(t, shared, a.looks(t), "it is invited")
				require.Equal(t, shared, from.copy && a.bulk.waits.Load() == 1)
				switch {
				case !shared || order == "receiver":
					b.Work()
					f.has(t, 0, n)
					got.is(t, over)
					sent.is(t, none)
					a.looks(t) // the news finds it about to copy
					if shared {
						sent.is(t, none)
						require.True(t, a.bulk.out[transferKey{from, 7}].over)
					}
					a.Work()
				case order == "sender":
					a.Work()
					f.has(t, 0, n)
					sent.is(t, over)
					got.is(t, none)
					b.looks(t) // the news finds it about to copy
					got.is(t, none)
					require.True(t, in.over)
					b.Work()
				case order == "sender, told late":
					a.Work()
					b.Work()
					f.has(t, 0, n)
					sent.is(t, over)
					got.is(t, none)
					require.False(t, in.busy)
					require.True(t, b.looks(t))
				default:
					// the receiver has begun with the first when the sender comes, and ends last
					d := &to.in.ctl.deals[0]
					c, ok := d.take(1, chunksOf(n))
					require.True(t, ok)
					require.Zero(t, c)
					a.Work()
					f.has(t, chunk, n)
					b.Work()
					sent.is(t, none)
					got.is(t, none)
					require.False(t, in.busy)
					require.False(t, a.bulk.out[transferKey{from, 7}].busy)
					require.False(t, a.looks(t))
					require.False(t, b.looks(t))
					copy(f.place[:chunk], f.from)
					require.True(t, d.end(chunksOf(n)))
					to.readEnded(transferKey{to, 7}, true, nil)
					got.is(t, over)
					a.looks(t)
				}
				f.has(t, 0, n)
				sent.is(t, over)
				got.is(t, over)
				require.False(t, a.looks(t), "nobody says anything more")
				require.False(t, b.looks(t))
				sent.is(t, over)
				got.is(t, over)
				require.Zero(t, to.deals)
				require.Empty(t, a.bulk.out)
				require.Empty(t, b.bulk.in)
				require.Zero(t, a.bulk.waits.Load()+b.bulk.waits.Load())
				require.Empty(t, a.hears())
				require.Empty(t, b.hears())
			})
		}
	}
}

// More transfers at once than there are counters: the others are the receiver's alone, and a
// counter is used again when its transfer is over, of which late news changes nothing.
func TestCounters(t *testing.T) {
	t.Run("the receiver first", func(t *testing.T) { counters(t, false) })
	t.Run("the sender first", func(t *testing.T) { counters(t, true) })
}

func counters(t *testing.T, senderFirst bool) {
	s := onStage(t, 2, oneCopy)
	a, b := s[0], s[1]
	var sent, got ends
	const n, all = chunk + 1, numDeals + 2
	var f []*freight
	for k := range uint64(all) {
		f = append(f, pushed(a, b, &sent, &got, k, n))
	}
	b.looks(t)
	p := b.peers.At(0)
	require.EqualValues(t, 1<<numDeals-1, p.deals)
	used := map[int]bool{}
	for k := range uint64(all) {
		in := b.bulk.in[transferKey{p, k}]
		if k >= numDeals {
			require.Equal(t, -1, in.deal)
			continue
		}
		require.Equal(t, int(k), in.deal)
		used[in.deal] = true
	}
	require.Len(t, used, numDeals)
	require.EqualValues(t, all, b.bulk.waits.Load())
	a.looks(t)
	require.EqualValues(t, numDeals, a.bulk.waits.Load(), "it is invited to those with a counter")
	want := map[uint64]string{}
	for k := range uint64(all) {
		if want[k] = ""; k == numDeals-1 && senderFirst {
			a.Work()
			sent.is(t, want)
			got.is(t, nil)
			b.looks(t)
		}
	}
	b.Work()
	got.is(t, want)
	require.Zero(t, p.deals)
	a.looks(t)
	a.Work()
	sent.is(t, want)
	for k := range uint64(all) {
		f[k].has(t, 0, n)
	}
	// The next one has the first counter, and another generation.
	f = append(f, pushed(a, b, &sent, &got, all, n))
	b.looks(t)
	require.Equal(t, 0, b.bulk.in[transferKey{p, all}].deal)
	d := &p.in.ctl.deals[0]
	require.EqualValues(t, 2<<32, d.next.Load())
	require.EqualValues(t, 2<<32, d.over.Load())
	_, ok := d.take(1, 2)
	require.False(t, ok, "who helps late takes nothing")
	b.Work()
	a.looks(t)
	a.Work()
	f[all].has(t, 0, n)
	require.Len(t, sent.of, all+1)
	require.Len(t, got.of, all+1)
}

// Which transfers are one copy: those from a size on, where the kernel lets one read the other.
func TestWhoCopies(t *testing.T) {
	for _, row := range []struct {
		n    int
		copy bool
		kind uint64
	}{{999, true, kindPiece}, {1000, true, kindOffer}, {1001, true, kindOffer}, {1001, false, kindPiece}, {piece - 1, false, kindPiece}, {piece, false, kindPiece}, {piece + 1, false, kindPiece}, {2 * piece, false, kindPiece}} {
		s := onStage(t, 2, func(c *Config) { c.SingleCopy = 1000 })
		a, b := s[0], s[1]
		require.NoError(t, a.Send(1, word(1)))
		b.looks(t)
		require.True(t, a.peers.At(1).copy && b.peers.At(0).copy, "they may read each other")
		a.peers.At(1).copy = row.copy
		var sent, got ends
		f := pushed(a, b, &sent, &got, 3, row.n)
		var frame fabric.Frame
		kind, _, err := b.peers.At(0).in.get(&frame)
		require.NoError(t, err)
		require.Equal(t, row.kind, kind)
		if kind == kindOffer {
			require.Equal(t, [fabric.HeadWords]uint64{3, address(f.from), uint64(row.n)}, frame.Head)
		} else {
			require.Equal(t, [fabric.HeadWords]uint64{3}, frame.Head)
			require.Len(t, frame.Data, min(row.n, piece))
			sent.is(t, map[uint64]string{3: ""}) // all of it is in the ring
		}
		b.looks(t)
		b.Work()
		a.looks(t)
		got.is(t, map[uint64]string{3: ""})
		sent.is(t, map[uint64]string{3: ""})
		f.has(t, 0, row.n)
	}
}

// Frames about transfers that say what no sender or receiver says: each makes its sender lost, but
// what is over already is nobody's fault.
func TestDamagedTransfers(t *testing.T) {
	const n = 2*chunk + 1
	for name, row := range map[string]struct {
		// rank 0 has a transfer under way from it and one to it
		does func(a, b *actor, here, there *freight) error
		want string
		jobs int32
	}{
		"an offer of nothing":    {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(5, address(h.from), 0) }, "it offers 0 bytes", 0},
		"an offer of too much":   {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(5, address(h.from), 1<<48+1) }, "it offers 281474976710657 bytes", 0},
		"an offer of much":       {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(5, address(h.from), 1<<48) }, "it sends 281474976710656 bytes at 0 of the transfer 5", 0},
		"an offer of one more":   {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(5, address(h.from), n+1) }, "it sends 131074 bytes at 0 of the transfer 5", 0},
		"an offer that is right": {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(5, address(h.from), n) }, "", 1},
		"an offer twice": {func(a, b *actor, h, _ *freight) error {
			return errors.Join(a.peers.At(1).offered(5, address(h.from), n), a.peers.At(1).offered(5, 0, n))
		}, "it sends", 1},
		"an offer without copies": {func(a, b *actor, h, _ *freight) error {
			a.peers.At(1).copy = false
			return a.peers.At(1).offered(5, address(h.from), n)
		}, "it offers 131073 bytes", 0},
		"nobody expects it":  {func(a, b *actor, h, _ *freight) error { return a.peers.At(1).offered(6, address(h.from), n) }, "", 0},
		"help with nothing":  {func(a, b *actor, _, h *freight) error { return a.peers.At(1).invited(8, address(h.place), n, 0) }, "", 0},
		"help that is right": {func(a, b *actor, _, h *freight) error { return a.peers.At(1).invited(7, address(h.place), n, 7<<32|1) }, "", 1},
		"help twice": {func(a, b *actor, _, h *freight) error {
			return errors.Join(a.peers.At(1).invited(7, address(h.place), n, 1), a.peers.At(1).invited(7, address(h.place), n, 1))
		}, "it invites to write 131073 bytes of 131073 by the counter 0", 1},
		"help with less": {func(a, b *actor, _, h *freight) error { return a.peers.At(1).invited(7, address(h.place), n-1, 1) }, "it invites to write 131072 bytes of 131073 by the counter 0", 0},
		"help with more": {func(a, b *actor, _, h *freight) error { return a.peers.At(1).invited(7, address(h.place), n+1, 1) }, "it invites to write 131074 bytes of 131073 by the counter 0", 0},
		"no such counter": {func(a, b *actor, _, h *freight) error {
			return a.peers.At(1).invited(7, address(h.place), n, numDeals<<32|1)
		}, "by the counter 8", 0},
		"help without copies": {func(a, b *actor, _, h *freight) error {
			a.peers.At(1).copy = false
			return a.peers.At(1).invited(7, address(h.place), n, 1)
		}, "it invites", 0},
		"the end of nothing":      {func(a, b *actor, _, h *freight) error { return a.peers.At(1).over(9, 0) }, "", 0},
		"the end of nothing here": {func(a, b *actor, _, h *freight) error { return a.peers.At(1).over(9, 1) }, "it ends a transfer that is not under way", 0},
		"an end too early":        {func(a, b *actor, _, h *freight) error { return a.peers.At(1).over(5, 1) }, "it ends a transfer that is not under way", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := onStage(t, 2, oneCopy)
			a, b := s[0], s[1]
			var sent, got ends
			there := pushed(a, b, &sent, &got, 7, n)
			here := pack(n)
			a.Expect(1, 5, here.place, got.done(5))
			require.NoError(t, b.Send(0, word(1)))
			a.looks(t)
			err := row.does(a, b, here, there)
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.want)
			}
			require.Equal(t, row.jobs, a.bulk.waits.Load())
			require.Empty(t, sent.of)
			require.Empty(t, got.of)
		})
	}
}

// A transfer that was taken back ends for its sender, and nothing is written.
func TestTakenBack(t *testing.T) {
	s := onStage(t, 2, oneCopy)
	a, b := s[0], s[1]
	var sent, got ends
	f := pushed(a, b, &sent, &got, 7, 2*chunk)
	require.True(t, b.Forget(0, 7))
	b.looks(t)
	require.Zero(t, b.bulk.waits.Load())
	a.looks(t)
	sent.is(t, map[uint64]string{7: ""})
	// While it is being copied, it ends, and its bytes are here.
	f2 := pushed(a, b, &sent, &got, 8, 2*chunk)
	b.looks(t)
	require.False(t, b.Forget(0, 8))
	got.is(t, nil)
	b.Work()
	got.is(t, map[uint64]string{8: ""})
	a.looks(t)
	a.Work()
	sent.is(t, map[uint64]string{7: "", 8: ""})
	f.has(t, 0, 0)
	f2.has(t, 0, 2*chunk)
}

// Memory that cannot be read or written makes its owner lost, with the reason, and ends the
// transfer at once.
func TestCopyFails(t *testing.T) {
	for _, n := range []int{chunk, 2 * chunk} { // the receiver's alone, and one that is shared
		s := onStage(t, 2, oneCopy)
		a, b := s[0], s[1]
		mem, err := unix.Mmap(-1, 0, 3*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		require.NoError(t, unix.Mprotect(mem[n-chunk/2:], unix.PROT_NONE)) // in the last chunk
		var sent, got ends
		f := pack(n)
		b.Expect(0, 7, f.place, got.done(7))
		a.Push(1, 7, mem[:n], sent.done(7))
		b.looks(t)
		b.Work()
		got.is(t, map[uint64]string{7: "shm: rank 0: reading its memory: bad address"})
		require.Equal(t, []string{"0 is lost: shm: rank 0: reading its memory: bad address"}, b.hears())
		require.ErrorContains(t, b.Send(0, word(1)), "reading its memory")
		require.Empty(t, b.bulk.in)
		require.Zero(t, b.peers.At(0).deals)
		// The sender hears nothing of that, and helps on; the receiver's place is such.
		from := pack(n)
		a.Push(1, 8, from.from, sent.done(8))
		d := &a.peers.At(1).out.ctl.deals[1]
		generation := d.start()
		require.NoError(t, a.peers.At(1).invited(8, address(mem), uint64(n), 1<<32|uint64(generation)))
		a.Work()
		want := "shm: rank 1: writing its memory: bad address"
		sent.is(t, map[uint64]string{7: want, 8: want})
		require.Equal(t, []string{"1 is lost: " + want}, a.hears())
		require.Empty(t, a.bulk.out)
		require.NoError(t, unix.Munmap(mem))
	}
}

// A process that is gone when its memory is to be read or written has ended, and is lost behind its
// last frame.
func TestCopyOfTheDead(t *testing.T) {
	for _, n := range []int{chunk, 2 * chunk} {
		for _, writes := range []bool{false, true} {
			s := onStage(t, 2, oneCopy)
			a, b := s[0], s[1]
			var sent, got ends
			f := pushed(a, b, &sent, &got, 7, n)
			b.looks(t)
			who, dead, e := b, 0, &got
			if writes {
				if n == chunk {
					continue // nobody helps
				}
				a.looks(t)
				who, dead, e = a, 1, &sent
			}
			require.NoError(t, s[dead].Send(1-dead, word(1)))
			who.peers.At(dead).pid = noProcess
			rings := who.rings(t)
			who.Work()
			require.Equal(t, rings+1, who.rings(t), "its sleeper wakes, to bury it")
			require.Empty(t, who.hears(), "its last frame is first")
			e.is(t, nil)
			require.True(t, who.looks(t))
			require.Equal(t, []string{
				fmt.Sprintf("%d sends 1", dead),
				fmt.Sprintf("%d is lost: shm: rank %d: its process %d has ended", dead, dead, noProcess),
			}, who.hears())
			e.is(t, map[uint64]string{7: "has ended"})
			f.has(t, 0, 0)
		}
	}
}

// What ends a peer ends the transfers with it and no others; one that is being copied ends behind
// that.
func TestEndsOfTransfers(t *testing.T) {
	gone := errors.New("gone")
	for _, rank := range []int{1, 2} { // that is lost
		for _, busy := range []bool{false, true} {
			s := onStage(t, 3, oneCopy)
			a := s[0]
			var sent, got ends
			for _, p := range []uint64{1, 2} {
				a.Push(int(p), p, make([]byte, 2*chunk), sent.done(p))
				a.Expect(int(p), p, make([]byte, 2*chunk), got.done(p))
				s[p].Push(0, p, make([]byte, 2*chunk), func(error) {})
				if busy { // its invitation is here
					s[p].Expect(0, p, make([]byte, 2*chunk), func(error) {})
					s[p].looks(t)
				}
			}
			a.looks(t)
			require.Len(t, a.bulk.in, 2)
			require.Len(t, a.bulk.out, 2)
			if !busy { // what is copied here is over, the rest is not
				for _, in := range a.bulk.in {
					in.busy = false
				}
			}
			a.peers.At(1).endIn(transferKey{a.peers.At(1), 99}, gone) // it has ended already
			a.Drop(rank, gone)
			all := map[uint64]string{}
			if !busy {
				all[uint64(rank)] = "gone"
			}
			got.is(t, all)
			sent.is(t, all)
			require.Equal(t, []string{fmt.Sprintf("%d is lost: shm: rank %d: gone", rank, rank)}, a.hears())
			if !busy {
				require.Len(t, a.bulk.in, 1)
				require.Len(t, a.bulk.out, 1)
				for _, in := range a.bulk.in {
					in.busy = true
				}
				a.bulk.jobs, a.bulk.waits = nil, xatomic.Int32{}
				a.bulk.fail(nil, fabric.ErrClosed)
				require.True(t, a.bulk.in[transferKey{a.peers.At(3 - rank), uint64(3 - rank)}].over)
				require.Empty(t, a.bulk.out)
				sent.is(t, map[uint64]string{uint64(rank): "gone", uint64(3 - rank): "endpoint is closed"})
				continue
			}
			a.Work()
			all[uint64(rank)], all[uint64(3-rank)] = "gone", "" // both sides have made their copies
			got.is(t, all)
			sent.is(t, all)
		}
	}
}

// Copies wait until somebody does them, who looks at nothing where there are none; each is done
// once.
func TestWork(t *testing.T) {
	e := onStage(t, 1, nil)[0]
	e.bulk.mu.Lock()
	e.Work()
	e.bulk.mu.Unlock()
	e.bulk.waits.Add(1) // somebody else has taken it
	e.Work()
	e.bulk.waits.Add(-1)
	var order []int
	e.bulk.mu.Lock()
	for k := range 3 {
		e.bulk.add(func() {
			require.EqualValues(t, 2-k, e.bulk.waits.Load())
			order = append(order, k)
		})
	}
	e.bulk.mu.Unlock()
	require.EqualValues(t, 3, e.bulk.waits.Load())
	e.Work()
	require.Equal(t, []int{0, 1, 2}, order)
	require.Empty(t, e.bulk.jobs)

	const jobs = 1000
	var done [jobs]atomic.Int32
	var wg sync.WaitGroup
	for half := range 2 {
		wg.Go(func() {
			for k := half; k < jobs; k += 2 {
				e.bulk.mu.Lock()
				e.bulk.add(func() { done[k].Add(1) })
				e.bulk.mu.Unlock()
				if k%7 == 0 {
					e.Work()
				}
			}
		})
	}
	wg.Wait()
	e.Work()
	for k := range done {
		require.EqualValues(t, 1, done[k].Load())
	}
	require.Zero(t, e.bulk.waits.Load())
}

// Who closes waits until what goes out is taken, however late that is, and no longer.
func TestCloseWaitsForTransfers(t *testing.T) {
	s := onStage(t, 2, oneCopy)
	a, b := s[0], s[1]
	waitsFor(t, time.Hour)
	var sent, got ends
	f := pushed(a, b, &sent, &got, 7, chunk)
	pushed(a, b, &sent, &got, 8, chunk)
	closed := make(chan struct{})
	go func() { a.bulk.flush(newDeadline(linger)); close(closed) }()
	soon(t, func() bool {
		a.bulk.mu.Lock()
		defer a.bulk.mu.Unlock()
		return a.bulk.rest != nil
	})
	b.looks(t)
	b.bulk.jobs[0]()
	a.looks(t)
	require.NotNil(t, a.bulk.rest, "one of two transfers has ended")
	b.bulk.jobs[1]()
	b.bulk.jobs, b.bulk.waits = nil, xatomic.Int32{}
	a.looks(t)
	<-closed
	f.has(t, 0, chunk)
	require.Nil(t, a.bulk.rest)
	a.bulk.flush(deadline{}) // nothing is going out
	// What begins behind that is nobody's concern.
	a.Push(1, 9, f.from, sent.done(9))
	require.NoError(t, a.peers.At(1).over(9, 0))
	require.Len(t, sent.of, 3)
}

// A peer that is lost between the pieces of a transfer ends it all the same, once.
func TestLostBetweenPieces(t *testing.T) {
	s := onStage(t, 2, func(c *Config) { c.SingleCopy = -1 })
	a := s[0]
	data := make([]byte, 32<<20)
	ended := make(chan error, 2)
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		for !a.peers.At(1).queued.Load() {
			runtime.Gosched()
		}
		a.Drop(1, errors.New("gone"))
	}()
	a.Push(1, 1, data, func(err error) { ended <- err })
	<-dropped
	require.ErrorContains(t, <-ended, "gone")
	require.Empty(t, ended)
	require.Zero(t, a.pending.Load())
}
