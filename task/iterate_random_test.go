// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// iprogram is a random loop. Its tasks differ from one unrolled iteration to the next.
type iprogram struct {
	objects    int
	iterations int
	unroll     int
	while      bool
	attrs      Attrs
	tasks      [][]*itask // by iteration within the round
	base       []int      // number of the first task of each
	round      int        // tasks of all
}

// itask is a recorded task.
type itask struct {
	id      int
	uses    []ruse
	attrs   Attrs
	child   int  // index of an access that a child works on afterwards; -1: none
	wait    bool // Wait for the child, and work on its object again
	inner   int  // iterations of a recorded loop in the body, on the object of the child; 0: none
	hold    bool
	block   bool
	release bool // of the first access
	lock    bool
	ready   bool // OnReady with an event
}

// iworld collects the results of a run.
type iworld struct {
	obj  []int64
	seen []int64 // by run of a task: what it read
	runs []irun
	tick atomic.Int64
}

// irun says when a run of a task began, and when it was done with each of its accesses.
type irun struct {
	began int64
	done  []int64
}

func igen(r *rand.Rand) *iprogram {
	p := &iprogram{
		objects: 1 + r.IntN(6), iterations: 1 + r.IntN(12), unroll: 1 + r.IntN(3), while: r.IntN(4) == 0,
	}
	p.attrs.Undeferred = r.IntN(8) == 0
	p.attrs.Final = r.IntN(12) == 0
	p.unroll = min(p.unroll, p.iterations)
	for range p.unroll {
		p.base = append(p.base, p.round)
		l := make([]*itask, r.IntN(9))
		for i := range l {
			l[i] = igenTask(r, p.objects)
			l[i].id = p.round
			p.round++
		}
		p.tasks = append(p.tasks, l)
	}
	return p
}

func igenTask(r *rand.Rand, objects int) *itask {
	n := &itask{child: -1}
	for o := range objects {
		if r.IntN(objects) < 2 {
			n.uses = append(n.uses, ruse{o, deps.Mode(r.IntN(4)), r.IntN(8) == 0})
		}
	}
	n.hold, n.block = r.IntN(8) == 0, r.IntN(10) == 0
	n.lock, n.ready = r.IntN(10) == 0, r.IntN(10) == 0
	n.release = len(n.uses) > 1 && r.IntN(4) == 0
	n.attrs.Wait = r.IntN(6) == 0
	n.attrs.Final = r.IntN(10) == 0
	if r.IntN(6) == 0 {
		n.attrs.Priority = r.IntN(5) - 2
	}
	for i, u := range n.uses {
		if (u.mode == deps.ModeOut || u.mode == deps.ModeInOut) && !(n.release && i == 0) && r.IntN(4) == 0 {
			n.child, n.wait = i, r.IntN(2) == 0
			n.inner = max(0, r.IntN(6)-3)
		}
	}
	return n
}

// step is what a run of n does to its objects; k is the iteration.
func (n *itask) step(w *iworld, k, run int) {
	for _, u := range n.uses {
		if u.weak {
			continue
		}
		p := &w.obj[u.obj]
		switch u.mode {
		case deps.ModeIn:
			w.seen[run] = w.seen[run]*31 + *p
		case deps.ModeConcurrent:
			atomic.AddInt64(p, int64(n.id*k+1))
		default:
			*p = *p*31 + int64(n.id*100+k)
		}
	}
}

// more is what the child does, and again is what the body does afterwards.
func (n *itask) more(w *iworld, k int)  { p := &w.obj[n.uses[n.child].obj]; *p = *p*7 + int64(k) }
func (n *itask) again(w *iworld, k int) { p := &w.obj[n.uses[n.child].obj]; *p = *p*5 + int64(k) }

// sequential is the plain loop.
func (p *iprogram) sequential(w *iworld) {
	for k := range p.iterations {
		for _, n := range p.tasks[k%p.unroll] {
			n.step(w, k, p.run(n, k))
			if n.child >= 0 {
				for range max(1, n.inner) {
					n.more(w, k)
				}
				if n.wait {
					n.again(w, k)
				}
			}
		}
	}
}

func (p *iprogram) world() *iworld {
	rounds := (p.iterations-1)/p.unroll + 1
	return &iworld{obj: make([]int64, p.objects), seen: make([]int64, rounds*p.round), runs: make([]irun, rounds*p.round)}
}

func (p *iprogram) run(n *itask, k int) int { return k/p.unroll*p.round + n.id }

func (n *itask) body(t *Task, p *iprogram, w *iworld, m *Mutex) error {
	k := t.Iteration()
	x := &w.runs[p.run(n, k)]
	if x.began != 0 {
		return fmt.Errorf("task %d runs twice in iteration %d", n.id, k)
	}
	x.began = w.tick.Add(1)
	x.done = make([]int64, len(n.uses))
	over := func(from int) {
		for i := from; i < len(x.done); i++ {
			x.done[i] = w.tick.Add(1)
		}
	}
	if n.lock {
		if err := t.Critical(m, func() error { n.step(w, k, p.run(n, k)); return nil }); err != nil {
			return err
		}
	} else {
		n.step(w, k, p.run(n, k))
	}
	from := 0
	if n.release {
		from = 1
		x.done[0] = w.tick.Add(1)
		if err := t.Release(n.uses[0].access2(w)); err != nil {
			return err
		}
	}
	if n.block {
		go t.Unblock()
		if err := t.Block(); err != nil {
			return err
		}
	}
	if n.child >= 0 {
		n.work(t, w, k, func() { over(from) })
		if n.wait {
			if err := t.Wait(); err != nil {
				return err
			}
			n.again(w, k)
		}
	}
	if n.child < 0 || n.wait {
		over(from)
		if n.hold {
			end := t.Hold()
			go func() {
				over(from)
				end(nil)
			}()
		}
	}
	return nil
}

// work spawns the child, or a loop of children.
func (n *itask) work(t *Task, w *iworld, k int, over func()) {
	a := deps.InOut(&w.obj[n.uses[n.child].obj])
	if n.inner == 0 {
		t.Spawn(func(t *Task) error { n.more(w, k); over(); return nil }, a)
		return
	}
	t.Iterate(n.inner, func(it *Iteration) error {
		it.Spawn(func(t *Task) error { n.more(w, k); over(); return nil }, a)
		return nil
	}, a)
}

func (u ruse) access2(w *iworld) deps.Access { return u.access(&rworld{obj: w.obj}) }

func (p *iprogram) main(t *Task, w *iworld) error {
	var m Mutex
	a := IterAttrs{Attrs: p.attrs, Iterations: p.iterations, Unroll: p.unroll}
	if p.while {
		a.While = func(t *Task) (bool, error) { return t.Iteration() < p.iterations, nil }
	}
	t.IterateWith(a, func(it *Iteration) error {
		for _, n := range p.tasks[it.Number()] {
			accs := make([]deps.Access, len(n.uses))
			for i, u := range n.uses {
				accs[i] = u.access2(w)
			}
			at := n.attrs
			if n.ready {
				at.OnReady = func(t *Task) error { end := t.Hold(); go end(nil); return nil }
			}
			it.SpawnWith(at, func(t *Task) error { return n.body(t, p, w, &m) }, accs...)
		}
		return nil
	})
	return nil
}

// order checks, from first principles, that each pair of runs that conflict came in the order of
// the plain loop.
func (p *iprogram) order(w *iworld) error {
	last := make([][4]int64, p.objects) // when the runs so far were done, by object and mode
	for k := range p.iterations {
		for _, n := range p.tasks[k%p.unroll] {
			x := w.runs[p.run(n, k)]
			if x.began == 0 {
				return fmt.Errorf("task %d did not run in iteration %d", n.id, k)
			}
			for i, u := range n.uses {
				for mode, done := range last[u.obj] {
					apart := deps.Mode(mode) != u.mode || u.mode == deps.ModeOut || u.mode == deps.ModeInOut
					if apart && done > x.began {
						return fmt.Errorf("task %d in iteration %d began before object %d was free", n.id, k, u.obj)
					}
				}
				d := &last[u.obj][u.mode]
				*d = max(*d, x.done[i])
			}
		}
	}
	return nil
}

// Random recorded loops give the values of the plain loop, and run their tasks in its order.
func TestIterRandomPrograms(t *testing.T) {
	watch(t)
	programs := 400
	if underRace || testing.Short() {
		programs = 25
	}
	seed := uint64(time.Now().UnixNano())
	if *seedFlag != 0 {
		seed, programs = *seedFlag, 1
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(procs)
		for _, workers := range []int{1, 2, 3, 8} {
			rt, err := Open(Config{Workers: workers, Window: []int{2, 0}[workers%2]})
			require.NoError(t, err)
			for k := range programs {
				at := seed + uint64(k)
				p := igen(rand.New(rand.NewPCG(at, 2)))
				want := p.world()
				p.sequential(want)
				got := p.world()
				what := fmt.Sprintf("-task.seed %d: procs %d, workers %d", at, procs, workers)
				require.NoError(t, rt.Run(bg, func(t *Task) error { return p.main(t, got) }), what)
				require.Equal(t, want.obj, got.obj, what)
				require.Equal(t, want.seen, got.seen, what)
				require.NoError(t, p.order(got), what)
			}
			require.NoError(t, rt.Close())
			if *seedFlag == 0 {
				seed += uint64(programs)
			}
		}
	}
}
