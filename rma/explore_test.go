//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"
	"testing"

	"weft/comm"
	"weft/internal/explore"
	"weft/internal/xatomic"
)

// epochLab has the ranks of one window, which the explorer runs in every order. The windows are
// real. Their backings make the barrier of a fence themselves. They check what windows promise to a
// backing: no operation is in progress between Flush and the end of Closed, each operation happens
// once and in its epoch, and no operation follows Free.
type epochLab struct {
	*explore.Run
	ranks []*epochRank

	mu   xatomic.Mutex
	here map[uint32][]arrival // guarded by mu: the flushes that have arrived, by fence
}

// arrival is the flush of one rank.
type arrival struct {
	k    *epochRank
	done func(error)
}

// epochRank is one rank, and its backing.
type epochRank struct {
	l   *epochLab
	w   *Win
	me  int
	own bool // a single goroutine uses the window, so the epochs of its operations are known

	within  xatomic.Uint32 // operations in the backing
	fencing xatomic.Uint32 // a fence is between Flush and the end of Closed
	closed  xatomic.Uint32 // fences that are closed
	freed   xatomic.Uint32
	done    xatomic.Uint32 // fences whose requests are complete
	late    bool           // each flush arrives on its own goroutine
	fails   bool           // flushes have an error

	ops []*epochOp
}

// epochOp is an operation. Its offset is its index in the list of its rank.
type epochOp struct {
	epoch uint32 // the epoch in which it must happen; zero if that is not known
	legal bool   // Put has returned no error
	done  int
}

var errFlush = errors.New("flush")

func newEpochLab(r *explore.Run, ranks int) *epochLab {
	l := &epochLab{Run: r, here: map[uint32][]arrival{}}
	for me := range ranks {
		k := &epochRank{l: l, me: me}
		k.w = &Win{c: new(comm.Comm), b: k, regions: k.Regions(), separate: true}
		k.w.onFlush, k.w.onBarrier, k.w.onClosed = k.w.flushed, k.w.passed, k.w.closed
		l.ranks = append(l.ranks, k)
		r.Name(fmt.Sprint(me), k.w)
		r.Name(fmt.Sprintf("%d.backing", me), k)
	}
	for _, k := range l.ranks {
		k.w.Ifence(0)
	}
	r.End(l.atRest)
	return l
}

func (l *epochLab) atRest() error {
	for _, k := range l.ranks {
		for i, o := range k.ops {
			if (o.done == 1) != o.legal {
				return fmt.Errorf("operation %d of rank %d is done %d times; it was legal: %v", i, k.me, o.done, o.legal)
			}
		}
		if w := k.w; w.phase != idle || len(w.queue) > 0 || w.state.Load()&(stBusy|stCount) != 0 {
			return fmt.Errorf("rank %d: phase %d, %d in the queue, state %x", k.me, w.phase, len(w.queue), w.state.Load())
		}
		if k.closed.Load() != uint32(k.w.called) {
			return fmt.Errorf("rank %d: %d of %d fences are closed", k.me, k.closed.Load(), k.w.called)
		}
	}
	return nil
}

func (k *epochRank) Regions() []Region { return []Region{{Size: 64, Unit: 1}} }

func (k *epochRank) Put(_, off int, _ comm.Buffer) error {
	k.within.Add(1)
	k.l.Check(k.freed.Load() == 0, "operation %d after Free", off)
	k.l.Check(k.fencing.Load() == 0, "operation %d in a fence", off)
	o := k.ops[off]
	now := k.closed.Load() + 1
	k.l.Check(o.epoch == 0 || o.epoch == now, "operation %d of epoch %d happens in epoch %d", off, o.epoch, now)
	o.done++
	k.within.Add(^uint32(0))
	return nil
}

func (k *epochRank) Get(r, off int, b comm.Buffer) error                   { return k.Put(r, off, b) }
func (k *epochRank) Accumulate(r, off int, b comm.Buffer, _ comm.Op) error { return k.Put(r, off, b) }
func (k *epochRank) Free() error                                           { return nil }

func (k *epochRank) Flush(done func(error)) {
	k.l.Check(k.fencing.Swap(1) == 0, "two fences at once")
	k.l.Check(k.within.Load() == 0, "a fence with operations in progress")
	if k.late {
		xatomic.Go(func() { k.arrive(done) })
		return
	}
	k.arrive(done)
}

// arrive is the barrier. The last rank to arrive completes the fence of all ranks.
func (k *epochRank) arrive(done func(error)) {
	l := k.l
	fence := k.closed.Load() + 1
	l.mu.Lock()
	l.here[fence] = append(l.here[fence], arrival{k, done})
	all := l.here[fence]
	l.mu.Unlock()
	if len(all) < len(l.ranks) {
		return
	}
	for _, r := range l.ranks {
		for i, o := range r.ops {
			l.Check(!o.legal || o.epoch == 0 || o.epoch > fence || o.done == 1, "operation %d of rank %d is not done when fence %d is complete", i, r.me, fence)
		}
	}
	for _, a := range all {
		var err error
		if a.k.fails {
			err = errFlush
		}
		a.k.closed.Add(1)
		a.k.fencing.Store(0)
		if a.k.w.fence.complete == nil {
			l.Failf("a flush of no fence")
			return
		}
		a.done(err)
	}
}

func (k *epochRank) Closed(done func(error)) { done(nil) }

// does starts a goroutine that uses the window: p puts; f calls a fence; c, a fence with NoSucceed;
// n, a fence whose completion calls another fence; F, the fence of Free; w waits for the fences
// that this goroutine has called.
func (k *epochRank) does(name, program string) {
	l := k.l
	l.Go(fmt.Sprintf("%d %s", k.me, name), func() {
		var called []xatomic.Chan[struct{}]
		epoch := uint32(2)
		fence := func(how rune) *comm.Request {
			assert := Assert(0)
			if how == 'c' {
				assert = NoSucceed
			}
			if how == 'F' {
				return k.w.enqueueFence(false, true, nil)
			}
			return k.w.Ifence(assert)
		}
		for _, what := range program {
			switch what {
			case 'p':
				o := &epochOp{}
				if k.own {
					o.epoch = epoch
				}
				k.ops = append(k.ops, o)
				o.legal = true // before the call, because the put may be done when it returns
				err := k.w.Put(comm.Of([]byte{1}), 0, len(k.ops)-1)
				o.legal = err == nil
				l.Check(err == nil || errors.Is(err, ErrSync) || errors.Is(err, ErrFreed), "put: %v", err)
				if !o.legal {
					o.epoch = 0
				}
			case 'w':
				for _, c := range called {
					c.Recv()
				}
				called = nil
			default:
				c := make(xatomic.Chan[struct{}], 1)
				req := fence(what)
				if req == nil {
					continue // freed
				}
				called = append(called, c)
				epoch++
				k.completes(req, what == 'F', func() {
					if what == 'n' {
						k.completes(k.w.Ifence(0), false, func() { c.Send(struct{}{}) })
						return
					}
					c.Send(struct{}{})
				})
			}
		}
	})
}

// completes checks the completion of a fence's request, and then calls then.
func (k *epochRank) completes(req *comm.Request, frees bool, then func()) {
	req.OnDone(func(err error) {
		n := k.done.Add(1)
		k.l.Check(n <= k.closed.Load(), "%d requests are complete, and %d fences", n, k.closed.Load())
		k.l.Check(errors.Is(err, errFlush) == k.fails, "the fence returns %v", err)
		if frees {
			k.l.Check(k.within.Load() == 0, "freed with operations in progress")
			k.freed.Store(1)
		}
		then()
	})
}

// epochProgram is a program to explore: in all orders, or in so many random orders (some).
type epochProgram struct {
	name  string
	some  int
	setup func(l *epochLab)
	ranks int
}

// TestExploreEpochs: an operation is carried out once, in the epoch in which it was called, and
// never while a fence runs; and every fence ends. This holds whatever the goroutines of a rank do
// at once.
func TestExploreEpochs(t *testing.T) {
	for _, p := range epochPrograms {
		t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(newEpochLab(r, p.ranks)) })
		})
	}
}

// crowd starts goroutines of one rank, each with a program.
func crowd(programs ...string) func(l *epochLab) {
	return func(l *epochLab) {
		for i, p := range programs {
			l.ranks[0].does(fmt.Sprint("goroutine ", i), p)
		}
	}
}

// each starts one goroutine for each rank, each with a program.
func each(programs ...string) func(l *epochLab) {
	return func(l *epochLab) {
		for i, p := range programs {
			l.ranks[i].own = true
			l.ranks[i].does("caller", p)
		}
	}
}

// also calls f for each rank before setup.
func also(f func(k *epochRank), setup func(l *epochLab)) func(l *epochLab) {
	return func(l *epochLab) {
		for _, k := range l.ranks {
			f(k)
		}
		setup(l)
	}
}

func late(k *epochRank)  { k.late = true }
func fails(k *epochRank) { k.fails = true }

var epochPrograms = []epochProgram{
	{"a put and a fence", 0, crowd("p", "f"), 1},
	{"two puts and a fence", 0, crowd("p", "p", "f"), 1},
	{"puts on both sides of a fence", 0, crowd("p", "pfp"), 1},
	{"a put and two fences", 0, crowd("p", "ff"), 1},
	{"fences of two goroutines", 0, crowd("fp", "fp"), 1},
	{"fences of two goroutines, and a put", 20_000, crowd("f", "fp", "p"), 1},
	{"a put, and many fences at once", 20_000, crowd("pp", "fpfpf"), 1},
	{"a fence with NoSucceed", 0, crowd("p", "cf"), 1},
	{"a callback that fences", 0, crowd("p", "nf"), 1},
	{"two callbacks that fence", 20_000, crowd("p", "nnw"), 1},
	{"free", 0, crowd("p", "F"), 1},
	{"two calls of free", 0, crowd("pF", "F"), 1},
	{"a fence, and free", 20_000, crowd("pf", "pF", "p"), 1},
	{"a late flush", 0, also(late, crowd("p", "fp")), 1},
	{"late flushes", 20_000, also(late, crowd("pp", "fpfw")), 1},
	{"a late flush that fails", 20_000, also(late, also(fails, crowd("p", "fpf"))), 1},
	{"two ranks", 0, each("pfwp", "pfwp"), 2},
	{"two ranks, epochs", 20_000, each("pfpfpfw", "pfwpfwpf"), 2},
	{"two ranks, late", 20_000, also(late, each("pfpf", "pfwpf")), 2},
	{"three ranks", 20_000, each("pfpf", "fwpfp", "pffwp"), 3},
	{"two ranks, one with two goroutines", 20_000, func(l *epochLab) {
		each("pfpf", "pfwpfw")(l)
		l.ranks[1].own = false
		l.ranks[1].does("other", "pp")
	}, 2},
	{"two ranks, free", 20_000, each("pfpF", "pfwpF"), 2},
}
