// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"fmt"
	"runtime"
	"testing"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"

	"github.com/stretchr/testify/require"
)

// Which algorithm makes a collective of messages: at each size and number of ranks at which another
// one is taken, one less, and one more.
func TestAlgorithmBySize(t *testing.T) {
	for _, x := range []struct {
		k       coll.Kind
		unit, n int
		want    string
	}{
		{coll.Barrier, 0, 2, "dissemination"}, {coll.Barrier, 0, 100, "dissemination"},
		{coll.Bcast, coll.LargeCast - 1, 3, "tree"}, {coll.Bcast, coll.LargeCast, 3, "ring"}, {coll.Bcast, coll.LargeCast + 1, 3, "ring"}, {coll.Bcast, coll.LargeCast, 2, "tree"}, {coll.Bcast, coll.LargeCast, 4, "ring"},
		{coll.Reduce, 1, 2, "tree"}, {coll.Reduce, 1 << 30, 9, "tree"},
		{coll.Allreduce, coll.LargeSum - 1, 2, "doubling"}, {coll.Allreduce, coll.LargeSum, 2, "halves"}, {coll.Allreduce, coll.LargeSum + 1, 9, "halves"},
		{coll.Scan, 1, 2, "doubling"}, {coll.Scan, 1 << 30, 9, "doubling"},
		{coll.Gather, coll.SmallPart, 4, "direct"}, {coll.Gather, coll.SmallPart - 1, 5, "tree"}, {coll.Gather, coll.SmallPart, 5, "tree"}, {coll.Gather, coll.SmallPart + 1, 5, "direct"},
		{coll.Scatter, coll.SmallPart, 4, "direct"}, {coll.Scatter, coll.SmallPart - 1, 5, "tree"}, {coll.Scatter, coll.SmallPart, 5, "tree"}, {coll.Scatter, coll.SmallPart + 1, 5, "direct"},
		{coll.Allgather, coll.SmallPart, 2, "direct"}, {coll.Allgather, coll.SmallPart - 1, 3, "doubling"}, {coll.Allgather, coll.SmallPart, 3, "doubling"}, {coll.Allgather, coll.SmallPart + 1, 3, "direct"},
		{coll.Alltoall, coll.SmallPart / 4, 4, "direct"}, {coll.Alltoall, coll.SmallPart/4 - 1, 5, "bits"}, {coll.Alltoall, coll.SmallPart / 4, 5, "bits"}, {coll.Alltoall, coll.SmallPart/4 + 1, 5, "direct"},
	} {
		require.Equal(t, x.want, new(coll.Chosen).Algorithm(x.k, x.unit, x.n).Name, "%s of %d bytes by %d ranks", coll.Names[x.k], x.unit, x.n)
		for i, a := range coll.Algorithms[x.k] {
			var all coll.Chosen
			all[x.k] = uint8(i + 1)
			require.Equal(t, a.Name, all.Algorithm(x.k, x.unit, x.n).Name, "whatever the size is")
		}
	}
}

// Where ranks of one process meet for a collective: in the places if the fullest has room for it
// and there are not too many ranks, in memory if it has not, and not at all without a hub.
func TestHubBySize(t *testing.T) {
	for _, x := range []struct {
		k       coll.Kind
		unit, n int
		meets   bool
		large   bool
	}{
		{coll.Barrier, 0, 2, true, false}, {coll.Barrier, 0, flatRanks, true, false}, {coll.Barrier, 0, flatRanks + 1, false, false},
		{coll.Allreduce, inlineMax - 1, 2, true, false}, {coll.Allreduce, inlineMax, flatRanks, true, false}, {coll.Allreduce, inlineMax + 1, 2, true, true},
		{coll.Allreduce, inlineMax, flatRanks + 1, false, false}, {coll.Allreduce, inlineMax + 1, flatRanks + 1, true, true},
		{coll.Bcast, inlineMax, 3, true, false}, {coll.Gather, inlineMax, 3, true, false}, {coll.Allgather, inlineMax, 3, true, false},
		{coll.Scatter, inlineMax / 3, 3, true, false}, {coll.Scatter, inlineMax/3 + 1, 3, true, true},
		{coll.Alltoall, inlineMax / 2, 2, true, false}, {coll.Alltoall, inlineMax/2 + 1, 2, true, true},
	} {
		c, d := &Comm{hub: newHub(nil, x.n)}, &coll.Call{Kind: x.k, Unit: x.unit}
		what := fmt.Sprintf("%s of %d bytes by %d ranks", coll.Names[x.k], x.unit, x.n)
		require.Equal(t, x.meets, c.direct(d), what)
		require.Equal(t, x.large, d.Large, what)
		require.Equal(t, x.large, d.Total > 0, what)
		require.False(t, new(Comm).direct(d), what)
	}
}

// Which collectives of processes of one node are made at their board.
func TestBoardBySize(t *testing.T) {
	c := &Comm{world: &world{}, size: 3}
	for _, x := range []struct {
		k          coll.Kind
		unit, elem int
		there      bool
	}{
		{coll.Barrier, 0, 0, true},
		{coll.Bcast, boardData, 8, true}, {coll.Bcast, boardData + 8, 8, false}, {coll.Gather, boardData, 8, true}, {coll.Gather, boardData + 8, 8, false},
		{coll.Reduce, boardData, 8, true}, {coll.Reduce, boardData + 8, 8, false}, {coll.Scan, boardData + 8, 8, false}, {coll.Allgather, boardData + 8, 8, false},
		{coll.Scatter, boardData / 3, 1, true}, {coll.Scatter, boardData/3 + 1, 1, false}, {coll.Alltoall, boardData / 3, 1, true}, {coll.Alltoall, boardData/3 + 1, 1, false},
		{coll.Allreduce, boardData, 8, true}, {coll.Allreduce, boardData + 8, 8, true}, {coll.Allreduce, 10 * stageElem, stageElem, true}, {coll.Allreduce, 10 * (stageElem + 1), stageElem + 1, false},
		{coll.Allreduce, stageRounds*stageWindow - 1, 1, true}, {coll.Allreduce, stageRounds * stageWindow, 1, false},
	} {
		d := &coll.Call{Kind: x.k, Unit: x.unit, In: mem.Sized(make([]byte, x.elem), x.elem)}
		what := fmt.Sprintf("%s of %d bytes, %d each", coll.Names[x.k], x.unit, x.elem)
		c.world.cfg.chosen = coll.Chosen{}
		require.Equal(t, x.there, onBoard(d, c), what)
		require.Equal(t, d.InPlaces(3) > boardData, d.Large, what)
		c.world.cfg.chosen[x.k] = 1
		require.False(t, onBoard(d, c), "%s by an algorithm that is chosen", what)
		c.world.cfg.chosen = coll.Chosen{coll.Barrier: 1, coll.Bcast: 1, coll.Reduce: 1, coll.Allreduce: 1, coll.Scan: 1, coll.Gather: 1, coll.Scatter: 1, coll.Allgather: 1, coll.Alltoall: 1}
		c.world.cfg.chosen[x.k] = 0
		require.Equal(t, x.there, onBoard(d, c), what)
	}
}

// Into how many pieces of which size a large collective is cut.
func TestPieceSizes(t *testing.T) {
	own := OpFunc(true, func(in, inout []byte) {})
	for _, x := range []struct {
		k             coll.Kind
		op            Op
		elem, unit, n int
		size, pieces  int
	}{
		{coll.Bcast, Op{}, 8, 217, 2, pieceLeast, 1},
		{coll.Bcast, Op{}, 8, pieceLeast, 2, pieceLeast, 1},
		{coll.Bcast, Op{}, 8, pieceLeast + 1, 2, pieceLeast, 2},
		{coll.Bcast, Op{}, 8, 8*pieceLeast + 8, 2, pieceLeast + 1, 8},
		{coll.Bcast, Op{}, 8, 1 << 20, 2, pieceMost, 32},
		{coll.Bcast, Op{}, 8, 1<<20 + 1, 2, pieceMost, 33},
		{coll.Bcast, Op{}, 0, 0, 2, pieceLeast, 1},
		{coll.Bcast, Op{}, 8, 1 << 18, 3, 21845, 13},
		{coll.Allreduce, Sum, 8, 1 << 18, 3, 21840, 13},
		{coll.Scan, Sum, 16, 1 << 18, 3, 21840, 13},
		{coll.Reduce, own, 1000, 21845, 3, 4000, 6},
		{coll.Reduce, own, 100_000, 300_000, 3, 100_000, 3},
		{coll.Reduce, own, 0, 5000, 3, pieceLeast, 2},
		{coll.Gather, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{coll.Scatter, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{coll.Allgather, Op{}, 8, pieceLeast, 3, pieceLeast, 3},
		{coll.Alltoall, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 12},
		{coll.Alltoall, Op{}, 8, pieceLeast, 2, pieceLeast, 3},
		{coll.Bcast, Op{}, 8, 1 << 40, 2, 1 << 26, 1 << 14},
		{coll.Bcast, Op{}, 8, 1 << 40, 64, 1 << 36, 1 << 4},
		{coll.Bcast, Op{}, 8, 1 << 40, 65, 1 << 36, 1 << 4},
	} {
		d := &coll.Call{Kind: x.k, Op: x.op.impl, Unit: x.unit, In: mem.Sized(nil, x.elem)}
		require.Equal(t, x.size, pieceSize(d, x.n), "%+v", x)
		require.Equal(t, x.pieces, pieces(d, x.n), "%+v", x)
	}
	for n, want := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 32: 5, 33: 6, 64: 6, 65: 6, 1000: 6} {
		require.Equal(t, want, bitsOf(n), n)
	}
}

// Pieces of a collective are each taken once, by whoever comes, and none of a collective of the
// past or one that is closed. A collective is closed only before anybody has begun with it.
func TestPiecesAreTakenOnce(t *testing.T) {
	h := newHub(nil, 2)
	d := &coll.Call{Total: 3}
	const seq = 5
	s := h.slot(seq)
	exhausted := func() bool { return h.exhausted(d, seq) }
	complete := func() bool { return h.complete(d, seq) }
	for i := range 3 {
		require.False(t, exhausted())
		require.Equal(t, i, s.take(seq, 3))
	}
	require.True(t, exhausted())
	require.Equal(t, -1, s.take(seq, 3))
	require.False(t, h.close(seq), "somebody works")
	for i := range 3 {
		require.False(t, complete())
		require.Equal(t, i == 2, s.did(seq, 3))
	}
	require.True(t, complete())
	require.False(t, h.exhausted(d, seq+hubWidth), "the next one there")
	require.False(t, h.complete(d, seq+hubWidth))

	const next = seq + hubWidth
	require.Same(t, s, h.slot(next))
	require.True(t, h.close(next))
	require.True(t, h.close(next), "it is")
	require.True(t, h.exhausted(d, next))
	require.Equal(t, -1, s.take(next, allTaken))
	require.Equal(t, -1, s.take(seq, 100), "of the past")
	require.False(t, h.close(seq), "of the past")
	require.True(t, s.did(next, 1), "counted anew")

	const last = next + hubWidth
	require.Equal(t, 0, s.take(last, 2))
	require.Equal(t, 1, s.take(last, 2))
	require.Equal(t, -1, s.take(last, 2))

	s.fail(seq, errTest)
	s.fail(seq, ErrOperator) // not the first
	require.Equal(t, &hubError{seq, errTest}, s.err.Load())
	s.fail(next, ErrOperator)
	require.Equal(t, &hubError{next, ErrOperator}, s.err.Load())
}

// Who begins with several pieces wakes those that sleep, where they have a processor.
func TestHubWakesHelpers(t *testing.T) {
	for total, woken := range map[int]bool{1: false, 2: true, 3: true} {
		const seq = 5
		h := newHub(nil, 2)
		h.procs = 2
		h.slot(seq).fail(seq, errTest) // pieces are counted, and not done
		for r := range h.ranks {
			h.ranks[r].places.Store(new([hubWidth]place))
		}
		me, other := h.place(0, seq), h.place(1, seq)
		other.waiter = &hubWaiter{ch: make(chan struct{}, 1)}
		other.state.Store(stateOf(seq, asleep))
		require.Zero(t, h.slot(seq).take(seq, total)) // by another, which is not through: so nobody ends it
		me.Total = total
		h.work(me, 0, seq)
		require.Equal(t, woken, len(other.waiter.ch) == 1, total)
		require.Equal(t, woken, other.state.Load() == stateOf(seq, active), total)
	}
}

// For how long a rank looks before it sleeps, by what it was like before.
func TestHubWatches(t *testing.T) {
	goes := &coll.Call{Kind: coll.Bcast} // at its root
	waits := &coll.Call{Kind: coll.Bcast, Root: 1}
	h := newHub(nil, 2)
	r := &h.ranks[0]
	for _, procs := range []int{1, 2, 3} {
		h.procs = procs
		require.True(t, h.watch(goes, 0, 1), procs)
		require.False(t, h.watch(waits, 0, 1), procs)
	}

	h.procs = 1 // others are let run instead, and nothing is noted
	r.found.Store(3)
	r.woke.Store(true)
	require.True(t, h.watch(goes, 0, 1))
	require.True(t, r.woke.Load())
	require.EqualValues(t, 3, r.found.Load())

	h.procs = 2
	r.wakes.Store(1) // the next is the second, with which it does not look
	require.False(t, h.watch(goes, 0, 1))
	require.False(t, r.woke.Load())
	require.EqualValues(t, 2, r.wakes.Load())
	for n := uint32(4); n < longFound; n++ {
		require.True(t, h.watch(goes, 0, 1))
		require.Equal(t, n, r.found.Load())
		require.EqualValues(t, 2, r.wakes.Load())
	}
	require.True(t, h.watch(goes, 0, 1)) // so many in a row are a state that lasts
	require.Zero(t, r.wakes.Load())
	require.EqualValues(t, longFound-1, r.found.Load())
	require.False(t, h.watch(waits, 0, 1))
	require.Zero(t, r.found.Load())
	r.wakes.Store(7) // the next is the eighth, with which it looks all the same
	r.woke.Store(true)
	require.True(t, h.watch(goes, 0, 9))
	require.EqualValues(t, 10, h.parted.Load())
	r.wakes.Store(seldom - 1)
	r.woke.Store(true)
	require.True(t, h.watch(goes, 0, 11))
	require.EqualValues(t, 12, h.parted.Load())
}

// A hub knows which collectives all ranks have finished, from what each shows with the next one.
func TestHubKnowsWhatIsOver(t *testing.T) {
	const n, rounds = 3, 2*hubWidth + 3
	require.NoError(t, Run(t.Context(), Config{Ranks: n}, func(c *Comm) error {
		h := c.hub
		for i := range uint64(rounds) {
			if err := c.Barrier(); err != nil {
				return err
			}
			r := &h.ranks[c.rank]
			r.mu.Lock()
			next, floor := r.next, r.floor
			r.mu.Unlock()
			err := cmp.Or(expect("the last", i+1, next), expect("finished", i, floor), expect("finished by all", i, r.known.Load()))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// The list of hubs stays in proportion to those that live, and has all of these.
func TestHubsAreSwept(t *testing.T) {
	var s hubs
	var living []*hub
	for i := range 1000 {
		h := newHub(nil, 2)
		if s.add(h); i%10 == 0 {
			living = append(living, h)
		}
		if i%100 == 99 {
			runtime.GC()
			runtime.GC()
		}
	}
	found := map[*hub]bool{}
	for _, p := range s.all {
		found[p.Value()] = true
	}
	for _, h := range living {
		require.True(t, found[h])
	}
	require.Less(t, len(s.all), 500)
	require.LessOrEqual(t, cap(s.all), 600)
	runtime.KeepAlive(living)
}

// Ranks have a hub if they are several, and all in this process.
func TestWhoHasAHub(t *testing.T) {
	w := &world{direct: true}
	require.Nil(t, w.hub(0, 0, 1))
	h := w.hub(0, 0, 2)
	require.NotNil(t, h)
	require.Equal(t, 2, h.size)
	require.Same(t, h, w.hub(0, 0, 2))
	other := w.hub(0, 0, 2) // all of the ranks of the first one have asked
	require.NotSame(t, h, other)
	require.NotSame(t, other, w.hub(0, 1, 2), "another colour")
	require.NotSame(t, other, w.hub(2, 0, 2), "another communicator")
	require.Same(t, other, w.hub(0, 0, 2))
	require.Len(t, w.hubs.fresh, 2)
	require.Len(t, w.hubs.all, 4)
	require.Nil(t, (&world{direct: true, apart: true}).hub(0, 0, 2))
	require.Nil(t, (&world{}).hub(0, 0, 2))
}
