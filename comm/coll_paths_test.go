// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"runtime"
	"testing"

	"weft/comm/internal/mem"

	"github.com/stretchr/testify/require"
)

// Which algorithm makes a collective of messages: at each size and number of ranks at which another
// one is taken, one less, and one more.
func TestAlgorithmBySize(t *testing.T) {
	for _, x := range []struct {
		k       collKind
		unit, n int
		want    string
	}{
		{barrier, 0, 2, "dissemination"}, {barrier, 0, 100, "dissemination"},
		{bcast, largeCast - 1, 3, "tree"}, {bcast, largeCast, 3, "ring"}, {bcast, largeCast + 1, 3, "ring"}, {bcast, largeCast, 2, "tree"}, {bcast, largeCast, 4, "ring"},
		{reduce, 1, 2, "tree"}, {reduce, 1 << 30, 9, "tree"},
		{allreduce, largeSum - 1, 2, "doubling"}, {allreduce, largeSum, 2, "halves"}, {allreduce, largeSum + 1, 9, "halves"},
		{scan, 1, 2, "doubling"}, {scan, 1 << 30, 9, "doubling"},
		{gather, smallPart, 4, "direct"}, {gather, smallPart - 1, 5, "tree"}, {gather, smallPart, 5, "tree"}, {gather, smallPart + 1, 5, "direct"},
		{scatter, smallPart, 4, "direct"}, {scatter, smallPart - 1, 5, "tree"}, {scatter, smallPart, 5, "tree"}, {scatter, smallPart + 1, 5, "direct"},
		{allgather, smallPart, 2, "direct"}, {allgather, smallPart - 1, 3, "doubling"}, {allgather, smallPart, 3, "doubling"}, {allgather, smallPart + 1, 3, "direct"},
		{alltoall, smallPart / 4, 4, "direct"}, {alltoall, smallPart/4 - 1, 5, "bits"}, {alltoall, smallPart / 4, 5, "bits"}, {alltoall, smallPart/4 + 1, 5, "direct"},
	} {
		require.Equal(t, x.want, new(chosen).algorithm(x.k, x.unit, x.n).name, "%s of %d bytes by %d ranks", collNames[x.k], x.unit, x.n)
		for i, a := range algorithms[x.k] {
			var all chosen
			all[x.k] = uint8(i + 1)
			require.Equal(t, a.name, all.algorithm(x.k, x.unit, x.n).name, "whatever the size is")
		}
	}
}

// Where ranks of one process meet for a collective: in the places if the fullest has room for it
// and there are not too many ranks, in memory if it has not, and not at all without a hub.
func TestHubBySize(t *testing.T) {
	for _, x := range []struct {
		k       collKind
		unit, n int
		meets   bool
		large   bool
	}{
		{barrier, 0, 2, true, false}, {barrier, 0, flatRanks, true, false}, {barrier, 0, flatRanks + 1, false, false},
		{allreduce, inlineMax - 1, 2, true, false}, {allreduce, inlineMax, flatRanks, true, false}, {allreduce, inlineMax + 1, 2, true, true},
		{allreduce, inlineMax, flatRanks + 1, false, false}, {allreduce, inlineMax + 1, flatRanks + 1, true, true},
		{bcast, inlineMax, 3, true, false}, {gather, inlineMax, 3, true, false}, {allgather, inlineMax, 3, true, false},
		{scatter, inlineMax / 3, 3, true, false}, {scatter, inlineMax/3 + 1, 3, true, true},
		{alltoall, inlineMax / 2, 2, true, false}, {alltoall, inlineMax/2 + 1, 2, true, true},
	} {
		c, d := &Comm{hub: newHub(nil, x.n)}, &collCall{kind: x.k, unit: x.unit}
		what := fmt.Sprintf("%s of %d bytes by %d ranks", collNames[x.k], x.unit, x.n)
		require.Equal(t, x.meets, c.direct(d), what)
		require.Equal(t, x.large, d.large, what)
		require.Equal(t, x.large, d.total > 0, what)
		require.False(t, new(Comm).direct(d), what)
	}
}

// Which collectives of processes of one node are made at their board.
func TestBoardBySize(t *testing.T) {
	c := &Comm{world: &world{}, size: 3}
	for _, x := range []struct {
		k          collKind
		unit, elem int
		there      bool
	}{
		{barrier, 0, 0, true},
		{bcast, boardData, 8, true}, {bcast, boardData + 8, 8, false}, {gather, boardData, 8, true}, {gather, boardData + 8, 8, false},
		{reduce, boardData, 8, true}, {reduce, boardData + 8, 8, false}, {scan, boardData + 8, 8, false}, {allgather, boardData + 8, 8, false},
		{scatter, boardData / 3, 1, true}, {scatter, boardData/3 + 1, 1, false}, {alltoall, boardData / 3, 1, true}, {alltoall, boardData/3 + 1, 1, false},
		{allreduce, boardData, 8, true}, {allreduce, boardData + 8, 8, true}, {allreduce, 10 * stageElem, stageElem, true}, {allreduce, 10 * (stageElem + 1), stageElem + 1, false},
		{allreduce, stageRounds*stageWindow - 1, 1, true}, {allreduce, stageRounds * stageWindow, 1, false},
	} {
		d := &collCall{kind: x.k, unit: x.unit, in: mem.Sized(make([]byte, x.elem), x.elem)}
		what := fmt.Sprintf("%s of %d bytes, %d each", collNames[x.k], x.unit, x.elem)
		c.world.cfg.chosen = chosen{}
		require.Equal(t, x.there, d.onBoard(c), what)
		require.Equal(t, d.inPlaces(3) > boardData, d.large, what)
		c.world.cfg.chosen[x.k] = 1
		require.False(t, d.onBoard(c), "%s by an algorithm that is chosen", what)
		c.world.cfg.chosen = chosen{barrier: 1, bcast: 1, reduce: 1, allreduce: 1, scan: 1, gather: 1, scatter: 1, allgather: 1, alltoall: 1}
		c.world.cfg.chosen[x.k] = 0
		require.Equal(t, x.there, d.onBoard(c), what)
	}
}

// Into how many pieces of which size a large collective is cut.
func TestPieceSizes(t *testing.T) {
	own := OpFunc(true, func(in, inout []byte) {})
	for _, x := range []struct {
		k             collKind
		op            Op
		elem, unit, n int
		size, pieces  int
	}{
		{bcast, Op{}, 8, 217, 2, pieceLeast, 1},
		{bcast, Op{}, 8, pieceLeast, 2, pieceLeast, 1},
		{bcast, Op{}, 8, pieceLeast + 1, 2, pieceLeast, 2},
		{bcast, Op{}, 8, 8*pieceLeast + 8, 2, pieceLeast + 1, 8},
		{bcast, Op{}, 8, 1 << 20, 2, pieceMost, 32},
		{bcast, Op{}, 8, 1<<20 + 1, 2, pieceMost, 33},
		{bcast, Op{}, 0, 0, 2, pieceLeast, 1},
		{bcast, Op{}, 8, 1 << 18, 3, 21845, 13},
		{allreduce, Sum, 8, 1 << 18, 3, 21840, 13},
		{scan, Sum, 16, 1 << 18, 3, 21840, 13},
		{reduce, own, 1000, 21845, 3, 4000, 6},
		{reduce, own, 100_000, 300_000, 3, 100_000, 3},
		{reduce, own, 0, 5000, 3, pieceLeast, 2},
		{gather, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{scatter, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{allgather, Op{}, 8, pieceLeast, 3, pieceLeast, 3},
		{alltoall, Op{}, 8, pieceLeast + 1, 3, pieceLeast, 12},
		{alltoall, Op{}, 8, pieceLeast, 2, pieceLeast, 3},
		{bcast, Op{}, 8, 1 << 40, 2, 1 << 26, 1 << 14},
		{bcast, Op{}, 8, 1 << 40, 64, 1 << 36, 1 << 4},
		{bcast, Op{}, 8, 1 << 40, 65, 1 << 36, 1 << 4},
	} {
		d := &collCall{kind: x.k, op: x.op, unit: x.unit, in: mem.Sized(nil, x.elem)}
		require.Equal(t, x.size, d.pieceSize(x.n), "%+v", x)
		require.Equal(t, x.pieces, d.pieces(x.n), "%+v", x)
	}
	for n, want := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 32: 5, 33: 6, 64: 6, 65: 6, 1000: 6} {
		require.Equal(t, want, bitsOf(n), n)
	}
}

// Pieces of a collective are each taken once, by whoever comes, and none of a collective of the
// past or one that is closed. A collective is closed only before anybody has begun with it.
func TestPiecesAreTakenOnce(t *testing.T) {
	h := newHub(nil, 2)
	d := &collCall{total: 3}
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
		me.total = total
		h.work(me, 0, seq)
		require.Equal(t, woken, len(other.waiter.ch) == 1, total)
		require.Equal(t, woken, other.state.Load() == stateOf(seq, active), total)
	}
}

// For how long a rank looks before it sleeps, by what it was like before.
func TestHubWatches(t *testing.T) {
	goes := &collCall{kind: bcast} // at its root
	waits := &collCall{kind: bcast, root: 1}
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
			err := firstError(expect("the last", i+1, next), expect("finished", i, floor), expect("finished by all", i, r.known.Load()))
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
