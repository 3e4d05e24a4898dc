//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Which collectives run in shared memory, and how: in cells if the largest contribution fits in one
// and there are not too many ranks, else as large ones. Of processes, only an Allreduce may be
// large.
func TestSupports(t *testing.T) {
	for _, x := range []struct {
		k         coll.Kind
		unit, n   int
		supported bool
		large     bool
	}{
		{coll.Barrier, 0, 2, true, false}, {coll.Barrier, 0, FlatRanks, true, false}, {coll.Barrier, 0, FlatRanks + 1, false, false},
		{coll.Allreduce, DataMax - 1, 2, true, false}, {coll.Allreduce, DataMax, FlatRanks, true, false}, {coll.Allreduce, DataMax + 1, 2, true, true},
		{coll.Allreduce, DataMax, FlatRanks + 1, false, false}, {coll.Allreduce, DataMax + 1, FlatRanks + 1, true, true},
		{coll.Bcast, DataMax, 3, true, false}, {coll.Gather, DataMax, 3, true, false}, {coll.Allgather, DataMax, 3, true, false},
		{coll.Scatter, DataMax / 3, 3, true, false}, {coll.Scatter, DataMax/3 + 1, 3, true, true},
		{coll.Alltoall, DataMax / 2, 2, true, false}, {coll.Alltoall, DataMax/2 + 1, 2, true, true},
	} {
		d := &coll.Call{Kind: x.k, Unit: x.unit, In: mem.Sized(make([]byte, 1), 1)}
		what := fmt.Sprintf("%s of %d bytes by %d ranks", coll.Names[x.k], x.unit, x.n)
		require.Equal(t, x.supported, newLab(x.n, false).ranks[0].Supports(d), what)
		if x.supported {
			require.Equal(t, x.large, d.Large, what)
			require.Equal(t, x.large, d.Total > 0, what)
		}
	}
	for _, x := range []struct {
		k          coll.Kind
		unit, elem int
		supported  bool
	}{
		{coll.Barrier, 0, 0, true},
		{coll.Bcast, DataMax, 8, true}, {coll.Bcast, DataMax + 8, 8, false}, {coll.Gather, DataMax, 8, true}, {coll.Gather, DataMax + 8, 8, false},
		{coll.Reduce, DataMax, 8, true}, {coll.Reduce, DataMax + 8, 8, false}, {coll.Scan, DataMax + 8, 8, false}, {coll.Allgather, DataMax + 8, 8, false},
		{coll.Scatter, DataMax / 3, 1, true}, {coll.Scatter, DataMax/3 + 1, 1, false}, {coll.Alltoall, DataMax / 3, 1, true}, {coll.Alltoall, DataMax/3 + 1, 1, false},
		{coll.Allreduce, DataMax, 8, true}, {coll.Allreduce, DataMax + 8, 8, true}, {coll.Allreduce, 10 * elemMax, elemMax, true}, {coll.Allreduce, 10 * (elemMax + 1), elemMax + 1, false},
		{coll.Allreduce, maxRounds*stagingSize - 1, 1, true}, {coll.Allreduce, maxRounds * stagingSize, 1, false},
	} {
		d := &coll.Call{Kind: x.k, Unit: x.unit, In: mem.Sized(make([]byte, x.elem), x.elem)}
		what := fmt.Sprintf("%s of %d bytes, %d each", coll.Names[x.k], x.unit, x.elem)
		require.Equal(t, x.supported, newLab(3, true).ranks[0].Supports(d), what)
		require.Equal(t, d.CellBytes(3) > DataMax, d.Large, what)
	}
}

func TestPieceSizes(t *testing.T) {
	own := coll.NewOperator(mem.ElementOf[byte](), true, func(in, inout mem.Buffer) error { return nil })
	for _, x := range []struct {
		k             coll.Kind
		op            *coll.Operator
		elem, unit, n int
		size, pieces  int
	}{
		{coll.Bcast, nil, 8, 217, 2, pieceLeast, 1},
		{coll.Bcast, nil, 8, pieceLeast, 2, pieceLeast, 1},
		{coll.Bcast, nil, 8, pieceLeast + 1, 2, pieceLeast, 2},
		{coll.Bcast, nil, 8, 8*pieceLeast + 8, 2, pieceLeast + 1, 8},
		{coll.Bcast, nil, 8, 1 << 20, 2, pieceMost, 32},
		{coll.Bcast, nil, 8, 1<<20 + 1, 2, pieceMost, 33},
		{coll.Bcast, nil, 0, 0, 2, pieceLeast, 1},
		{coll.Bcast, nil, 8, 1 << 18, 3, 21845, 13},
		{coll.Allreduce, coll.Sum, 8, 1 << 18, 3, 21840, 13},
		{coll.Scan, coll.Sum, 16, 1 << 18, 3, 21840, 13},
		{coll.Reduce, own, 1000, 21845, 3, 4000, 6},
		{coll.Reduce, own, 100_000, 300_000, 3, 100_000, 3},
		{coll.Reduce, own, 0, 5000, 3, pieceLeast, 2},
		{coll.Gather, nil, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{coll.Scatter, nil, 8, pieceLeast + 1, 3, pieceLeast, 6},
		{coll.Allgather, nil, 8, pieceLeast, 3, pieceLeast, 3},
		{coll.Alltoall, nil, 8, pieceLeast + 1, 3, pieceLeast, 12},
		{coll.Alltoall, nil, 8, pieceLeast, 2, pieceLeast, 3},
		{coll.Bcast, nil, 8, 1 << 40, 2, 1 << 26, 1 << 14},
		{coll.Bcast, nil, 8, 1 << 40, 64, 1 << 36, 1 << 4},
		{coll.Bcast, nil, 8, 1 << 40, 65, 1 << 36, 1 << 4},
	} {
		d := &coll.Call{Kind: x.k, Op: x.op, Unit: x.unit, In: mem.Sized(nil, x.elem)}
		require.Equal(t, x.size, pieceSize(d, x.n), "%+v", x)
		require.Equal(t, x.pieces, pieces(d, x.n), "%+v", x)
	}
	for n, want := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 8: 3, 9: 4, 32: 5, 33: 6, 64: 6, 65: 6, 1000: 6} {
		require.Equal(t, want, bitsOf(n), n)
	}
	for _, n := range []int{2, 3, 64, 4096} {
		for _, unit := range []int{217, 4096, 1 << 20, 1<<31 + 5, 1 << 38} {
			for _, k := range []coll.Kind{coll.Bcast, coll.Reduce, coll.Scan, coll.Allgather, coll.Alltoall} {
				d := &coll.Call{Kind: k, Unit: unit}
				if n > 64 && k == coll.Alltoall {
					continue // their pieces are pairs
				}
				pieces, size := pieces(d, n), pieceSize(d, n)
				require.Positive(t, pieces)
				require.Less(t, pieces, allTaken, "%d ranks, %d bytes, %v", n, unit, coll.Names[k])
				require.GreaterOrEqual(t, size*cuts(d, n), unit)
				require.Less(t, size*(cuts(d, n)-1), unit)
			}
		}
	}
}

// Each piece of a collective is taken once. No piece of an earlier collective is taken, nor of a
// closed one. A collective is closed only before the first piece is taken.
func TestPiecesAreTakenOnce(t *testing.T) {
	st := newSegment(2, false)
	d := &coll.Call{Total: 3}
	const seq = 5
	s := st.pieceCount(seq)
	exhausted := func() bool { return st.exhausted(d, seq) }
	complete := func() bool { return st.complete(d, seq) }
	for i := range 3 {
		require.False(t, exhausted())
		require.Equal(t, i, s.take(seq, 3))
	}
	require.True(t, exhausted())
	require.Equal(t, -1, s.take(seq, 3))
	require.False(t, st.closePieces(seq), "a piece is taken")
	for i := range 3 {
		require.False(t, complete())
		require.Equal(t, i == 2, s.finish(seq, 3))
	}
	require.True(t, complete())
	require.False(t, st.exhausted(d, seq+Width), "the next collective of the same cells")
	require.False(t, st.complete(d, seq+Width))

	const next = seq + Width
	require.Same(t, s, st.pieceCount(next))
	require.True(t, st.closePieces(next))
	require.True(t, st.closePieces(next), "it is closed already")
	require.True(t, st.exhausted(d, next))
	require.Equal(t, -1, s.take(next, allTaken))
	require.Equal(t, -1, s.take(seq, 100), "of the past")
	require.False(t, st.closePieces(seq), "of the past")
	require.True(t, s.finish(next, 1), "counted anew")

	const last = next + Width
	require.Equal(t, 0, s.take(last, 2))
	require.Equal(t, 1, s.take(last, 2))
	require.Equal(t, -1, s.take(last, 2))

	s.fail(seq, errTest)
	s.fail(seq, coll.ErrOperator) // not the first
	require.Equal(t, &pieceError{seq, errTest}, s.err.Load())
	s.fail(next, coll.ErrOperator)
	require.Equal(t, &pieceError{next, coll.ErrOperator}, s.err.Load())
}

// A rank that begins with several pieces wakes sleeping callers, if there are several processors.
func TestHelpersAreWoken(t *testing.T) {
	for total, woken := range map[int]bool{1: false, 2: true, 3: true} {
		const seq = 5
		l := newLab(2, false)
		st := l.ranks[0].st
		st.procs = 2
		st.pieceCount(seq).fail(seq, errTest) // pieces are counted, but not executed
		for _, r := range l.ranks {
			require.NoError(t, r.open())
		}
		other := st.cell(1, seq)
		w := &waiter{ch: make(signal, 1)}
		st.entry(1, seq).waiter = w
		other.state.Store(stateOf(seq, asleep))
		// Another rank has taken a piece and has not finished it, so nobody ends the collective.
		require.Zero(t, st.pieceCount(seq).take(seq, total))
		st.entry(0, seq).fill(&coll.Call{Large: true, Total: total})
		l.ranks[0].work(seq)
		require.Equal(t, woken, len(w.ch) == 1, total)
		require.Equal(t, woken, other.state.Load() == stateOf(seq, active), total)
	}
}

// For how long a rank polls before it sleeps depends on its earlier polls.
func TestPollBudget(t *testing.T) {
	goes := &coll.Call{Kind: coll.Bcast} // at its root
	waits := &coll.Call{Kind: coll.Bcast, Root: 1}
	s := newLab(2, false).ranks[0]
	for _, procs := range []int{1, 2, 3} {
		s.st.procs = procs
		require.True(t, s.poll(goes, 1), procs)
		require.False(t, s.poll(waits, 1), procs)
	}

	s.st.procs = 1 // the rank yields instead, and the counts stay as they are
	s.found.Store(3)
	s.woke.Store(true)
	require.True(t, s.poll(goes, 1))
	require.True(t, s.woke.Load())
	require.EqualValues(t, 3, s.found.Load())

	s.st.procs = 2
	s.wakes.Store(1) // with the second wake it does not poll
	require.False(t, s.poll(goes, 1))
	require.False(t, s.woke.Load())
	require.EqualValues(t, 2, s.wakes.Load())
	for n := uint32(4); n < steadyPolls; n++ {
		require.True(t, s.poll(goes, 1))
		require.Equal(t, n, s.found.Load())
		require.EqualValues(t, 2, s.wakes.Load())
	}
	require.True(t, s.poll(goes, 1)) // so many in a row: the ranks are at different processors
	require.Zero(t, s.wakes.Load())
	require.EqualValues(t, steadyPolls-1, s.found.Load())
	require.False(t, s.poll(waits, 1))
	require.Zero(t, s.found.Load())
	s.wakes.Store(7) // with the eighth wake it polls nevertheless
	s.woke.Store(true)
	require.True(t, s.poll(goes, 9))
	require.EqualValues(t, 10, s.st.spreadAt.Load())
	s.wakes.Store(spreadInterval - 1)
	s.woke.Store(true)
	require.True(t, s.poll(goes, 11))
	require.EqualValues(t, 12, s.st.spreadAt.Load())
}

// Ranks that wake each other at one processor try to spread, more and more rarely, and never stop
// trying.
func TestSpread(t *testing.T) {
	s := newLab(2, false).ranks[0]
	var tries []int
	for n := 1; n <= 3*spreadInterval; n++ {
		s.woke.Store(true)
		if s.spread(uint64(n)) {
			tries = append(tries, n)
			require.EqualValues(t, n+1, s.st.spreadAt.Load())
		}
		require.False(t, s.woke.Load())
	}
	require.Equal(t, []int{1, 8, 64, 512, 4096, 8192, 12288}, tries)
}

// The list of segments stays in proportion to those that exist, and has all of these.
func TestSegmentsAreSwept(t *testing.T) {
	var g Segments
	var living []*Segment
	for i := range 1000 {
		st := newSegment(2, false)
		if g.Add(st); i%10 == 0 {
			living = append(living, st)
		}
		if i%100 == 99 {
			runtime.GC()
			runtime.GC()
		}
	}
	found := map[*Segment]bool{}
	for _, st := range g.All() {
		found[st] = true
	}
	for _, st := range living {
		require.True(t, found[st])
	}
	require.Less(t, len(g.all), 500)
	require.LessOrEqual(t, cap(g.all), 600)
	runtime.KeepAlive(living)
}

// All ranks of a communicator get the same segment; another communicator has another one.
func TestSegmentOfACommunicator(t *testing.T) {
	var g Segments
	st := g.Heap(0, 0, 2)
	require.Equal(t, 2, st.size)
	require.Same(t, st, g.Heap(0, 0, 2))
	other := g.Heap(0, 0, 2) // all ranks of the first communicator have their segment
	require.NotSame(t, st, other)
	require.NotSame(t, other, g.Heap(0, 1, 2), "another colour")
	require.NotSame(t, other, g.Heap(2, 0, 2), "another communicator")
	require.Same(t, other, g.Heap(0, 0, 2))
	require.Len(t, g.pending, 2)
	require.Len(t, g.all, 4)
	runtime.KeepAlive(st)
}
