//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// both runs a test with n ranks of one process, and with n processes.
func both(t *testing.T, n int, f func(t *testing.T, l *lab)) {
	for _, mapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("mapped %v", mapped), func(t *testing.T) { f(t, newLab(n, mapped)) })
	}
}

// start starts a barrier at a rank.
func (r *rank) start() *request {
	q := new(request)
	r.Start(r.barrier(), q)
	return q
}

// Requests of all ranks end when the last rank publishes, each once. Only ranks that wait are
// nudged.
func TestRequestsEnd(t *testing.T) {
	both(t, 3, func(t *testing.T, l *lab) {
		for range 2*Width + 1 {
			var all []*request
			for i, r := range l.ranks {
				all = append(all, r.start())
				for _, q := range all {
					require.EqualValues(t, i/2, q.done.Load())
					require.NoError(t, q.err)
				}
			}
		}
		for i, r := range l.ranks {
			want := 0
			if i == 2 && r.st.mapped {
				want = 2 * (2*Width + 1)
			}
			require.Len(t, r.nudged, want, "rank %d", i)
			require.Equal(t, uint64(2*Width+1), r.next)
			require.Zero(t, r.compared)
		}
	})
}

// A goroutine that has taken a cell is the only one to end its operation. If all other ranks
// publish meanwhile, none of them ends the operation, and the goroutine has to.
func TestExamines(t *testing.T) {
	for _, last := range []bool{false, true} {
		both(t, 3, func(t *testing.T, l *lab) {
			first, second := l.ranks[0].start(), l.ranks[1].start()
			const seq = 1
			p := l.ranks[0].st.cell(0, seq)
			was, ok := p.isWaiting(seq)
			require.True(t, ok)
			p.state.Store(stateOf(seq, taken))
			reqs := []*request{first, second}
			if last {
				reqs = append(reqs, l.ranks[2].start())
			}
			require.Zero(t, first.done.Load())
			p.state.Store(was)
			for range 2 {
				l.ranks[0].st.Progress()
				for i, q := range reqs {
					require.Equal(t, last, q.done.Load() == 1, "rank %d", i)
				}
			}
		})
	}
}

// The floor of a rank is the number before its first unfinished collective.
func TestFloor(t *testing.T) {
	both(t, 3, func(t *testing.T, l *lab) {
		const first = 4
		r := l.ranks[0]
		for range first {
			r.start()
			require.Zero(t, r.floor)
		}
		for _, x := range l.ranks[1:] {
			for range first - 1 {
				x.start()
			}
		}
		for range 2 {
			r.start()
			require.EqualValues(t, first-1, r.floor, "the last of them is not finished")
		}
	})
}

// A rank learns which collectives all ranks have finished from the floors in their next cells. If
// that is not enough, it reads what each has finished.
func TestCellFree(t *testing.T) {
	both(t, 3, func(t *testing.T, l *lab) {
		const rounds = 2*Width + 3
		r := l.ranks[0]
		for i := range uint64(rounds) {
			for _, x := range l.ranks {
				x.start()
			}
			require.Equal(t, []uint64{i + 1, i}, []uint64{r.next, r.floor})
			require.Equal(t, i, r.known.Load())
		}
		require.True(t, r.cellFree(rounds+1))
		r.known.Store(0)
		require.True(t, r.cellFree(rounds+1))
		for _, x := range l.ranks {
			f := &x.row.finished[(rounds+1)%Width]
			f.Store(rounds + 1 - Width - 1)
			require.False(t, r.cellFree(rounds+1))
			f.Store(rounds + 1 - Width)
		}
		require.True(t, r.cellFree(rounds+1))
		fresh := newLab(2, false).ranks[0]
		require.True(t, fresh.cellFree(Width))
		require.False(t, fresh.cellFree(Width+1), "no rank has a row")
	})
}

// Operations without a free cell are queued, in their order. So are operations after them that run
// by messages or are only noted. They go on when the other rank has published.
func TestQueue(t *testing.T) {
	both(t, 2, func(t *testing.T, l *lab) {
		a, b := l.ranks[0], l.ranks[1]
		var first, second []*request
		for range Width + 2 {
			first = append(first, a.start())
		}
		require.Equal(t, 2, a.st.Queued())
		require.EqualValues(t, Width+3, a.Next())
		require.EqualValues(t, Width+3, a.Note(coll.Agree))
		require.False(t, a.Turn(a.barrier(), nil), "without a request it does not wait")
		queued := new(request)
		require.False(t, a.Turn(a.barrier(), queued))
		require.EqualValues(t, Width+5, a.Next())
		outcome, err := a.Do(a.barrier())
		require.NoError(t, err)
		require.Equal(t, NoCell, outcome)
		require.Equal(t, 4, a.st.Queued())
		require.Equal(t, uint64(Width), a.hist.Count())

		for range Width + 2 {
			second = append(second, b.start())
		}
		require.EqualValues(t, Width+3, b.Note(coll.Agree))
		for _, q := range slices.Concat(first, second, []*request{queued}) {
			for q.done.Load() == 0 { // some end on other goroutines
				runtime.Gosched()
			}
		}
		require.Zero(t, a.st.Queued())
		for i := range first {
			require.Equal(t, []int32{1, 1}, []int32{first[i].done.Load(), second[i].done.Load()}, i)
		}
		require.EqualValues(t, 1, queued.done.Load())
		require.Len(t, queued.messages, 1)
		require.EqualValues(t, 1, queued.messages[0].Seq)
		require.True(t, b.Turn(b.barrier(), nil))
		require.Equal(t, a.hist.NewQuestion(0).Last, b.hist.NewQuestion(0).Last)
	})
}

// A failure ends all operations of a rank that wait, with a cell and without. Later operations
// publish nothing.
func TestFailedRank(t *testing.T) {
	both(t, 2, func(t *testing.T, l *lab) {
		a, b := l.ranks[0], l.ranks[1]
		over := make(chan error)
		go func() {
			_, err := a.Do(a.barrier())
			over <- err
		}()
		for n := 0; n == 0; n, _ = a.st.Asleep() {
			runtime.Gosched()
		}
		var all []*request
		for range Width + 2 {
			all = append(all, a.start())
		}
		require.Equal(t, 3, a.st.Queued())
		texts := 0
		a.st.Waiting(func(h Host, text string) {
			require.Same(t, a, h)
			require.Regexp(t, `^rank 1 in barrier number \d+$`, text)
			texts++
		})
		require.Equal(t, Width, texts)
		_, before := a.st.Asleep()
		a.setFailure(errTest)
		require.ErrorIs(t, <-over, errTest)
		require.Zero(t, a.st.Queued())
		for _, q := range append(all, a.start()) {
			require.EqualValues(t, 1, q.done.Load())
			require.ErrorIs(t, q.err, errTest)
			require.ErrorContains(t, q.err, "barrier: ")
		}
		outcome, err := a.Do(a.barrier())
		require.Equal(t, Done, outcome)
		require.ErrorIs(t, err, errTest)
		n, after := a.st.Asleep()
		require.Zero(t, n)
		require.NotEqual(t, before, after)
		_, ok := a.Enter(a.barrier())
		require.False(t, ok)
		_, again := a.st.Asleep()
		require.Equal(t, after, again, "nothing is published")
		q := b.start() // rank a has published this collective, and then given up
		require.EqualValues(t, 1, q.done.Load())
		require.NoError(t, q.err)
	})
}

// Ranks in different collectives fail, with both collectives in the error. The rank that publishes
// later asks the other one.
func TestDisagreement(t *testing.T) {
	own, other := []int64{1, 2}, []float64{1, 2}
	for what, x := range map[string]struct {
		call func(r *rank) *coll.Call
		says string // empty: both are in the same collective
	}{
		"the same":     {func(r *rank) *coll.Call { return r.sum(own, make([]int64, 2)) }, ""},
		"another kind": {(*rank).barrier, "rank 0 is in allreduce (sum) of 2 int64 (16 bytes) where this rank is in barrier"},
		"another size": {func(r *rank) *coll.Call { return r.sum(own[:1], make([]int64, 1)) }, "of 2 int64 (16 bytes) where this rank is in allreduce (sum) of 1 int64 (8 bytes)"},
		"other elements": {func(r *rank) *coll.Call {
			return r.call(coll.Allreduce, coll.Sum, -1, mem.Of(other), mem.Of(make([]float64, 2)))
		}, "where this rank is in allreduce (sum) of 2 float64"},
	} {
		both(t, 2, func(t *testing.T, l *lab) {
			a, b := l.ranks[0], l.ranks[1]
			q := new(request)
			a.Start(a.sum(own, make([]int64, 2)), q)
			_, err := b.Do(x.call(b))
			if x.says == "" {
				require.NoError(t, err, what)
				require.Empty(t, b.asked)
				require.NoError(t, q.err)
				return
			}
			require.ErrorIs(t, err, coll.ErrMismatch, what)
			require.ErrorContains(t, err, x.says, what)
			require.Equal(t, 0, b.asked[0])
			for q.done.Load() == 0 { // another goroutine may have to ask for the explanation
				runtime.Gosched()
			}
			require.ErrorIs(t, q.err, coll.ErrMismatch)

			// The program gets the other rank's explanation.
			l = newLab(2, a.st.mapped)
			l.ranks[0].start()
			l.ranks[1].explains = errTest
			_, err = l.ranks[1].Do(l.ranks[1].sum(own, make([]int64, 2)))
			require.ErrorIs(t, err, errTest)
		})
	}
}

// If a rank's memory is not available, nothing is published, and each call fails with the reason.
func TestMemoryUnavailable(t *testing.T) {
	l := newLab(2, true)
	kept := l.ranks[1].mem
	l.ranks[1].mem = nil
	a := l.ranks[0]
	q := a.start()
	for q.done.Load() == 0 {
		runtime.Gosched()
	}
	require.ErrorIs(t, q.err, errTest)
	require.ErrorContains(t, q.err, "rank 1")
	_, err := a.Do(a.barrier())
	require.ErrorIs(t, err, errTest)
	in := make([]int64, 1000)
	_, err = a.Do(a.sum(in, in))
	require.ErrorIs(t, err, errTest)
	require.Zero(t, a.next)
	require.Zero(t, a.hist.Count())
	l.ranks[1].mem = kept
	require.Zero(t, a.start().done.Load())
	require.EqualValues(t, 1, a.next)
}

// After Close no goroutine pins mapped memory. Close waits for those that have it pinned.
func TestClose(t *testing.T) {
	l := newLab(2, true)
	a := l.ranks[0]
	a.Close() // there is no row yet
	require.False(t, a.pin())
	l = newLab(2, true)
	a = l.ranks[0]
	pending := a.start()
	over := make(chan error)
	go func() {
		_, err := a.Do(a.barrier())
		over <- err
	}()
	for n := 0; n == 0; n, _ = a.st.Asleep() {
		runtime.Gosched()
	}
	a.failErr = errTest
	a.hasFailed.Store(true)
	a.Close()
	require.ErrorIs(t, <-over, errTest)
	require.ErrorIs(t, pending.err, errTest)
	require.False(t, a.pin())
	q := l.ranks[1].start()
	require.EqualValues(t, 1, q.done.Load())
	a.st.Progress()
	n, version := a.st.Asleep()
	require.Zero(t, n)
	require.Zero(t, version, "nothing is read")
	a.failErr = errors.New("closed")
	require.ErrorContains(t, a.start().err, "closed")
}
