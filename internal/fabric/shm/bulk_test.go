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

// noProcess is an unused process number: the kernel assigns the largest possible numbers last.
const noProcess = 1<<22 - 1

// transfer is a transfer from rank 0 to rank 1.
type transfer struct {
	src, dst []byte
	guard    []byte // contains dst
}

func newTransfer(n int) *transfer {
	f := &transfer{src: make([]byte, n), guard: make([]byte, n+128)}
	for i := range f.src {
		f.src[i] = byte(i*7+i>>8) | 1
	}
	f.dst = f.guard[64 : 64+n]
	return f
}

// has requires that the bytes from..to have arrived, and no others.
func (f *transfer) has(t *testing.T, from, to int) {
	t.Helper()
	for i, b := range f.guard {
		k := i - 64
		if in := from <= k && k < to; in && b != f.src[k] || !in && b != 0 {
			t.Fatalf("byte %d is %d", k, b)
		}
	}
}

// startTransfer has rank 1 expect a transfer, and rank 0 push it.
func startTransfer(a, b *testRank, sent, got *ends, key uint64, n int) *transfer {
	f := newTransfer(n)
	b.Expect(0, key, f.dst, got.done(key))
	a.Push(1, key, f.src, sent.done(key))
	return f
}

func oneCopy(c *Config) { c.SingleCopy = 1 }

// A transfer of one copy, of which both sides make parts, in every order of the two sides.
func TestCopies(t *testing.T) {
	none, over := map[uint64]string{}, map[uint64]string{7: ""}
	for _, n := range []int{1, chunk - 1, chunk, chunk + 1, 2*chunk - 1, 2 * chunk, 2*chunk + 1, 3*chunk + 5} {
		for _, order := range []string{"receiver", "sender", "sender, told late", "both"} {
			t.Run(fmt.Sprintf("%d bytes, %s", n, order), func(t *testing.T) {
				s := newTestRanks(t, 2, oneCopy)
				a, b := s[0], s[1]
				connectAll(t, s)
				var sent, got ends
				f := startTransfer(a, b, &sent, &got, 7, n)
				from, to := a.peers.At(1), b.peers.At(0)
				require.Len(t, a.bulk.out, 1)
				b.drain(t)
				require.Len(t, b.bulk.in, 1)
				require.EqualValues(t, 1, b.bulk.queued.Load())
				in := b.bulk.in[transferKey{to, 7}]
				f.has(t, 0, 0)
				shared := n > chunk
				if require.Equal(t, shared, in.counter == 0); !shared {
					require.Equal(t, -1, in.counter)
				}
				require.Equal(t, shared, to.countersInUse == 1)
				require.Equal(t, shared, a.drain(t), "it is invited")
				require.Equal(t, shared, from.singleCopy && a.bulk.queued.Load() == 1)
				switch {
				case !shared || order == "receiver":
					b.Work()
					f.has(t, 0, n)
					got.is(t, over)
					sent.is(t, none)
					a.drain(t) // the end arrives when a is about to copy
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
					b.drain(t) // the end arrives when b is about to copy
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
					require.True(t, b.drain(t))
				default:
					// The receiver has begun the first chunk when the sender starts, and ends last.
					d := &to.in.ctl.counters[0]
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
					require.False(t, a.drain(t))
					require.False(t, b.drain(t))
					copy(f.dst[:chunk], f.src)
					require.True(t, d.end(chunksOf(n)))
					to.readEnded(transferKey{to, 7}, true, nil)
					got.is(t, over)
					a.drain(t)
				}
				f.has(t, 0, n)
				sent.is(t, over)
				got.is(t, over)
				require.False(t, a.drain(t), "no more control frames")
				require.False(t, b.drain(t))
				sent.is(t, over)
				got.is(t, over)
				require.Zero(t, to.countersInUse)
				require.Empty(t, a.bulk.out)
				require.Empty(t, b.bulk.in)
				require.Zero(t, a.bulk.queued.Load()+b.bulk.queued.Load())
				require.Empty(t, a.takeLog())
				require.Empty(t, b.takeLog())
			})
		}
	}
}

// More transfers at once than there are counters: the receiver copies the others alone. A counter
// is used again when its transfer has ended, and a late report of that end changes nothing.
func TestCounters(t *testing.T) {
	t.Run("the receiver first", func(t *testing.T) { counters(t, false) })
	t.Run("the sender first", func(t *testing.T) { counters(t, true) })
}

func counters(t *testing.T, senderFirst bool) {
	s := newTestRanks(t, 2, oneCopy)
	a, b := s[0], s[1]
	var sent, got ends
	const n, all = chunk + 1, numCounters + 2
	var f []*transfer
	for k := range uint64(all) {
		f = append(f, startTransfer(a, b, &sent, &got, k, n))
	}
	b.drain(t)
	p := b.peers.At(0)
	require.EqualValues(t, 1<<numCounters-1, p.countersInUse)
	used := map[int]bool{}
	for k := range uint64(all) {
		in := b.bulk.in[transferKey{p, k}]
		if k >= numCounters {
			require.Equal(t, -1, in.counter)
			continue
		}
		require.Equal(t, int(k), in.counter)
		used[in.counter] = true
	}
	require.Len(t, used, numCounters)
	require.EqualValues(t, all, b.bulk.queued.Load())
	a.drain(t)
	require.EqualValues(t, numCounters, a.bulk.queued.Load(), "it is invited to those with a counter")
	want := map[uint64]string{}
	for k := range uint64(all) {
		if want[k] = ""; k == numCounters-1 && senderFirst {
			a.Work()
			sent.is(t, want)
			got.is(t, nil)
			b.drain(t)
		}
	}
	b.Work()
	got.is(t, want)
	require.Zero(t, p.countersInUse)
	a.drain(t)
	a.Work()
	sent.is(t, want)
	for k := range uint64(all) {
		f[k].has(t, 0, n)
	}
	// The next one has the first counter, and another generation.
	f = append(f, startTransfer(a, b, &sent, &got, all, n))
	b.drain(t)
	require.Equal(t, 0, b.bulk.in[transferKey{p, all}].counter)
	d := &p.in.ctl.counters[0]
	require.EqualValues(t, 2<<32, d.next.Load())
	require.EqualValues(t, 2<<32, d.over.Load())
	_, ok := d.take(1, 2)
	require.False(t, ok, "a late helper takes nothing")
	b.Work()
	a.drain(t)
	a.Work()
	f[all].has(t, 0, n)
	require.Len(t, sent.of, all+1)
	require.Len(t, got.of, all+1)
}

// Transfers of SingleCopy bytes or more are one copy, where the kernel lets the receiver read the
// sender's memory.
func TestWhoCopies(t *testing.T) {
	for _, row := range []struct {
		n    int
		copy bool
		kind uint64
	}{{999, true, kindPiece}, {1000, true, kindOffer}, {1001, true, kindOffer}, {1001, false, kindPiece}, {piece - 1, false, kindPiece}, {piece, false, kindPiece}, {piece + 1, false, kindPiece}, {2 * piece, false, kindPiece}} {
		s := newTestRanks(t, 2, func(c *Config) { c.SingleCopy = 1000 })
		a, b := s[0], s[1]
		require.NoError(t, a.Send(1, word(1)))
		b.drain(t)
		require.True(t, a.peers.At(1).singleCopy && b.peers.At(0).singleCopy, "they may read each other")
		a.peers.At(1).singleCopy = row.copy
		var sent, got ends
		f := startTransfer(a, b, &sent, &got, 3, row.n)
		var frame fabric.Frame
		kind, _, err := b.peers.At(0).in.get(&frame)
		require.NoError(t, err)
		require.Equal(t, row.kind, kind)
		if kind == kindOffer {
			require.Equal(t, [fabric.HeadWords]uint64{3, address(f.src), uint64(row.n)}, frame.Head)
		} else {
			require.Equal(t, [fabric.HeadWords]uint64{3}, frame.Head)
			require.Len(t, frame.Data, min(row.n, piece))
			sent.is(t, map[uint64]string{3: ""}) // all of it is in the ring
		}
		b.drain(t)
		b.Work()
		a.drain(t)
		got.is(t, map[uint64]string{3: ""})
		sent.is(t, map[uint64]string{3: ""})
		f.has(t, 0, row.n)
	}
}

// Invalid control frames of transfers: each makes its sender lost. Frames about a transfer that has
// ended do not.
func TestDamagedTransfers(t *testing.T) {
	const n = 2*chunk + 1
	for name, row := range map[string]struct {
		// rank 0 has one transfer in progress from it and one to it
		does func(a, b *testRank, here, there *transfer) error
		want string
		jobs int32
	}{
		"an offer of nothing":    {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(5, address(h.src), 0) }, "an invalid offer of 0 bytes", 0},
		"an offer of too much":   {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(5, address(h.src), 1<<48+1) }, "an invalid offer of 281474976710657 bytes", 0},
		"an offer of much":       {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(5, address(h.src), 1<<48) }, "it sends 281474976710656 bytes at offset 0 of transfer 5", 0},
		"an offer of one more":   {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(5, address(h.src), n+1) }, "it sends 131074 bytes at offset 0 of transfer 5", 0},
		"an offer that is right": {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(5, address(h.src), n) }, "", 1},
		"an offer twice": {func(a, b *testRank, h, _ *transfer) error {
			return errors.Join(a.peers.At(1).offered(5, address(h.src), n), a.peers.At(1).offered(5, 0, n))
		}, "it sends", 1},
		"an offer without copies": {func(a, b *testRank, h, _ *transfer) error {
			a.peers.At(1).singleCopy = false
			return a.peers.At(1).offered(5, address(h.src), n)
		}, "an invalid offer of 131073 bytes", 0},
		"nobody expects it": {func(a, b *testRank, h, _ *transfer) error { return a.peers.At(1).offered(6, address(h.src), n) }, "", 0},
		"help with nothing": {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).invited(8, address(h.dst), n, 0) }, "", 0},
		"help that is right": {func(a, b *testRank, _, h *transfer) error {
			return a.peers.At(1).invited(7, address(h.dst), n, 7<<32|1)
		}, "", 1},
		"help twice": {func(a, b *testRank, _, h *transfer) error {
			return errors.Join(a.peers.At(1).invited(7, address(h.dst), n, 1), a.peers.At(1).invited(7, address(h.dst), n, 1))
		}, "an invalid invitation to write 131073 bytes of a transfer of 131073 with counter 0", 1},
		"help with less": {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).invited(7, address(h.dst), n-1, 1) }, "an invalid invitation to write 131072 bytes of a transfer of 131073 with counter 0", 0},
		"help with more": {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).invited(7, address(h.dst), n+1, 1) }, "an invalid invitation to write 131074 bytes of a transfer of 131073 with counter 0", 0},
		"no such counter": {func(a, b *testRank, _, h *transfer) error {
			return a.peers.At(1).invited(7, address(h.dst), n, numCounters<<32|1)
		}, "with counter 8", 0},
		"help without copies": {func(a, b *testRank, _, h *transfer) error {
			a.peers.At(1).singleCopy = false
			return a.peers.At(1).invited(7, address(h.dst), n, 1)
		}, "an invalid invitation", 0},
		"the end of nothing":      {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).over(9, 0) }, "", 0},
		"the end of nothing here": {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).over(9, 1) }, "the end of a transfer that is not in progress", 0},
		"an end too early":        {func(a, b *testRank, _, h *transfer) error { return a.peers.At(1).over(5, 1) }, "the end of a transfer that is not in progress", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestRanks(t, 2, oneCopy)
			a, b := s[0], s[1]
			var sent, got ends
			there := startTransfer(a, b, &sent, &got, 7, n)
			here := newTransfer(n)
			a.Expect(1, 5, here.dst, got.done(5))
			require.NoError(t, b.Send(0, word(1)))
			a.drain(t)
			err := row.does(a, b, here, there)
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.want)
			}
			require.Equal(t, row.jobs, a.bulk.queued.Load())
			require.Empty(t, sent.of)
			require.Empty(t, got.of)
		})
	}
}

// A transfer that was taken back ends for its sender, and nothing is written.
func TestTakenBack(t *testing.T) {
	s := newTestRanks(t, 2, oneCopy)
	a, b := s[0], s[1]
	var sent, got ends
	f := startTransfer(a, b, &sent, &got, 7, 2*chunk)
	require.True(t, b.Forget(0, 7))
	b.drain(t)
	require.Zero(t, b.bulk.queued.Load())
	a.drain(t)
	sent.is(t, map[uint64]string{7: ""})
	// A transfer that is being copied cannot be taken back: it ends, and its bytes have arrived.
	f2 := startTransfer(a, b, &sent, &got, 8, 2*chunk)
	b.drain(t)
	require.False(t, b.Forget(0, 8))
	got.is(t, nil)
	b.Work()
	got.is(t, map[uint64]string{8: ""})
	a.drain(t)
	a.Work()
	sent.is(t, map[uint64]string{7: "", 8: ""})
	f.has(t, 0, 0)
	f2.has(t, 0, 2*chunk)
}

// If memory cannot be read or written, its owner is lost with the reason, and the transfer ends at
// once.
func TestCopyFails(t *testing.T) {
	for _, n := range []int{chunk, 2 * chunk} { // the receiver's alone, and one that is shared
		s := newTestRanks(t, 2, oneCopy)
		a, b := s[0], s[1]
		mem, err := unix.Mmap(-1, 0, 3*chunk, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		require.NoError(t, unix.Mprotect(mem[n-chunk/2:], unix.PROT_NONE)) // in the last chunk
		var sent, got ends
		f := newTransfer(n)
		b.Expect(0, 7, f.dst, got.done(7))
		a.Push(1, 7, mem[:n], sent.done(7))
		b.drain(t)
		b.Work()
		got.is(t, map[uint64]string{7: "shm: rank 0: reading its memory: bad address"})
		require.Equal(t, []string{"0 is lost: shm: rank 0: reading its memory: bad address"}, b.takeLog())
		require.ErrorContains(t, b.Send(0, word(1)), "reading its memory")
		require.Empty(t, b.bulk.in)
		require.Zero(t, b.peers.At(0).countersInUse)
		// The sender learns nothing of that, and goes on helping. Now the receiver's memory cannot
		// be written.
		from := newTransfer(n)
		a.Push(1, 8, from.src, sent.done(8))
		d := &a.peers.At(1).out.ctl.counters[1]
		generation := d.start()
		require.NoError(t, a.peers.At(1).invited(8, address(mem), uint64(n), 1<<32|uint64(generation)))
		a.Work()
		want := "shm: rank 1: writing its memory: bad address"
		sent.is(t, map[uint64]string{7: want, 8: want})
		require.Equal(t, []string{"1 is lost: " + want}, a.takeLog())
		require.Empty(t, a.bulk.out)
		require.NoError(t, unix.Munmap(mem))
	}
}

// If a process has ended before its memory is read or written, its rank is lost after its last
// frame.
func TestCopyOfTheDead(t *testing.T) {
	for _, n := range []int{chunk, 2 * chunk} {
		for _, writes := range []bool{false, true} {
			s := newTestRanks(t, 2, oneCopy)
			a, b := s[0], s[1]
			var sent, got ends
			f := startTransfer(a, b, &sent, &got, 7, n)
			b.drain(t)
			alive, dead, e := b, 0, &got
			if writes {
				if n == chunk {
					continue // the sender does not help
				}
				a.drain(t)
				alive, dead, e = a, 1, &sent
			}
			require.NoError(t, s[dead].Send(1-dead, word(1)))
			alive.peers.At(dead).pid = noProcess
			rings := alive.pendingRings(t)
			alive.Work()
			require.Equal(t, rings+1, alive.pendingRings(t), "the doorbell goroutine wakes, to handle the death")
			require.Empty(t, alive.takeLog(), "its last frame is first")
			e.is(t, nil)
			require.True(t, alive.drain(t))
			require.Equal(t, []string{
				fmt.Sprintf("%d sends 1", dead),
				fmt.Sprintf("%d is lost: shm: rank %d: its process %d has ended", dead, dead, noProcess),
			}, alive.takeLog())
			e.is(t, map[uint64]string{7: "has ended"})
			f.has(t, 0, 0)
		}
	}
}

// When a peer is lost, the transfers with it end, and no others. A transfer that is being copied
// ends after the copy.
func TestEndsOfTransfers(t *testing.T) {
	gone := errors.New("gone")
	for _, rank := range []int{1, 2} { // the lost one
		for _, busy := range []bool{false, true} {
			s := newTestRanks(t, 3, oneCopy)
			a := s[0]
			var sent, got ends
			for _, p := range []uint64{1, 2} {
				a.Push(int(p), p, make([]byte, 2*chunk), sent.done(p))
				a.Expect(int(p), p, make([]byte, 2*chunk), got.done(p))
				s[p].Push(0, p, make([]byte, 2*chunk), func(error) {})
				if busy { // its invitation arrives
					s[p].Expect(0, p, make([]byte, 2*chunk), func(error) {})
					s[p].drain(t)
				}
			}
			a.drain(t)
			require.Len(t, a.bulk.in, 2)
			require.Len(t, a.bulk.out, 2)
			if !busy { // the copies of this side have ended, the others have not
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
			require.Equal(t, []string{fmt.Sprintf("%d is lost: shm: rank %d: gone", rank, rank)}, a.takeLog())
			if !busy {
				require.Len(t, a.bulk.in, 1)
				require.Len(t, a.bulk.out, 1)
				for _, in := range a.bulk.in {
					in.busy = true
				}
				a.bulk.jobs, a.bulk.queued = nil, xatomic.Int32{}
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

// Copies wait until a goroutine calls Work. Each is done once. Without copies, Work takes no lock.
func TestWork(t *testing.T) {
	e := newTestRanks(t, 1, nil)[0]
	e.bulk.mu.Lock()
	e.Work()
	e.bulk.mu.Unlock()
	e.bulk.queued.Add(1) // another goroutine has taken the job
	e.Work()
	e.bulk.queued.Add(-1)
	var order []int
	e.bulk.mu.Lock()
	for k := range 3 {
		e.bulk.add(func() {
			require.EqualValues(t, 2-k, e.bulk.queued.Load())
			order = append(order, k)
		})
	}
	e.bulk.mu.Unlock()
	require.EqualValues(t, 3, e.bulk.queued.Load())
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
	require.Zero(t, e.bulk.queued.Load())
}

// Close waits until the outgoing transfers have ended, however late that is, and no longer.
func TestCloseWaitsForTransfers(t *testing.T) {
	s := newTestRanks(t, 2, oneCopy)
	a, b := s[0], s[1]
	setCloseTimeout(t, time.Hour)
	var sent, got ends
	f := startTransfer(a, b, &sent, &got, 7, chunk)
	startTransfer(a, b, &sent, &got, 8, chunk)
	closed := make(chan struct{})
	go func() { a.bulk.flush(newDeadline(closeTimeout)); close(closed) }()
	eventually(t, func() bool {
		a.bulk.mu.Lock()
		defer a.bulk.mu.Unlock()
		return a.bulk.drained != nil
	})
	b.drain(t)
	b.bulk.jobs[0]()
	a.drain(t)
	require.NotNil(t, a.bulk.drained, "one of two transfers has ended")
	b.bulk.jobs[1]()
	b.bulk.jobs, b.bulk.queued = nil, xatomic.Int32{}
	a.drain(t)
	<-closed
	f.has(t, 0, chunk)
	require.Nil(t, a.bulk.drained)
	a.bulk.flush(deadline{}) // no transfer is left
	// flush does not wait for a transfer that begins after it.
	a.Push(1, 9, f.src, sent.done(9))
	require.NoError(t, a.peers.At(1).over(9, 0))
	require.Len(t, sent.of, 3)
}

// If a peer is lost between the pieces of a transfer, the transfer ends, once.
func TestLostBetweenPieces(t *testing.T) {
	s := newTestRanks(t, 2, func(c *Config) { c.SingleCopy = -1 })
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
