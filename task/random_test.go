// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task/internal/sched"
)

var seedFlag = flag.Uint64("task.seed", 0, "run only the random program of this seed")

// rnode is a task of a random program. What it does to an object does not depend on
// when it runs, if the order of its accesses holds; so the program gives the same values
// however it is run, and those of the sequential program.
type rnode struct {
	id       int
	uses     []ruse
	children []*rnode
	attrs    Attrs
	waitAt   int  // Wait after so many children, and work again; -1: no
	waitOn   bool // WaitOn what it uses instead of Wait
	loop     bool // the children are the chunks of a Loop
	hold     bool // an event, released by another goroutine
	block    bool // Block, and be unblocked by another goroutine
	release  bool // Release of the first access before the children
	ready    int  // 1: the first work is done in OnReady; 2: and an event delays the body
	sleep    bool // Sleep for a moment
	lock     bool // the first work is done in a critical section that all share
}

type ruse struct {
	obj  int
	mode deps.Mode
	weak bool
}

// rworld is what a program works on.
type rworld struct {
	obj  []int64
	seen []int64                  // by task: what it read
	sums []*deps.Reduction[int64] // of the objects

	ranges bool // objects are named as ranges
}

func newRworld(objects, tasks int) *rworld {
	w := &rworld{obj: make([]int64, objects), seen: make([]int64, tasks)}
	for i := range w.obj {
		w.sums = append(w.sums, deps.NewReduction(&w.obj[i], deps.Sum[int64]()))
	}
	return w
}

func (u ruse) access(w *rworld) deps.Access {
	p := &w.obj[u.obj]
	if w.ranges && u.mode != deps.ModeReduce {
		return u.rangeOf(deps.Slice(w.obj[u.obj : u.obj+1]))
	}
	var a deps.Access
	switch u.mode {
	case deps.ModeIn:
		a = deps.In(p)
	case deps.ModeOut:
		a = deps.Out(p)
	case deps.ModeInOut:
		a = deps.InOut(p)
	case deps.ModeReduce:
		a = w.sums[u.obj].Reduce()
	case deps.ModeCommutative:
		a = deps.Commutative(p)
	default:
		a = deps.Concurrent(p)
	}
	if u.weak {
		a = a.Weak()
	}
	return a
}

func (u ruse) rangeOf(r deps.Range) deps.Access {
	a := map[deps.Mode]func() deps.Access{deps.ModeIn: r.In, deps.ModeOut: r.Out, deps.ModeInOut: r.InOut,
		deps.ModeConcurrent: r.Concurrent, deps.ModeCommutative: r.Commutative}[u.mode]()
	if u.weak {
		a = a.Weak()
	}
	return a
}

var rmodes = []deps.Mode{deps.ModeIn, deps.ModeOut, deps.ModeInOut, deps.ModeConcurrent, deps.ModeReduce, deps.ModeCommutative}

// exclusive: the task takes objects for itself; it does not hold them in its OnReady.
func (n *rnode) exclusive() bool {
	return slices.ContainsFunc(n.uses, func(u ruse) bool { return u.mode == deps.ModeCommutative && !u.weak })
}

// rgen makes a program. may is what the parent's accesses cover; nil: everything.
func rgen(r *rand.Rand, next *int, objects, depth int, may map[int]deps.Mode) *rnode {
	n := &rnode{id: *next, waitAt: -1}
	*next++
	for o := range objects {
		mode := rmodes[r.IntN(len(rmodes))]
		if may != nil {
			limit, ok := may[o]
			if !ok {
				continue
			}
			if limit == deps.ModeIn || limit == deps.ModeConcurrent || limit == deps.ModeReduce || limit == deps.ModeCommutative {
				mode = limit
			}
		}
		if r.IntN(objects) < 2 {
			n.uses = append(n.uses, ruse{o, mode, depth > 0 && r.IntN(3) == 0})
		}
	}
	n.hold, n.block = r.IntN(8) == 0, r.IntN(8) == 0
	n.attrs.Wait = r.IntN(6) == 0
	n.attrs.Undeferred = r.IntN(12) == 0
	if r.IntN(6) == 0 {
		n.attrs.Priority = r.IntN(5) - 2
	}
	n.attrs.Final = r.IntN(12) == 0
	if n.ready = max(r.IntN(12)-9, 0); n.exclusive() {
		n.ready = 0
	}
	n.sleep = r.IntN(16) == 0
	n.lock = n.ready == 0 && r.IntN(8) == 0
	if depth > 0 {
		given := map[int]deps.Mode{}
		n.release = len(n.uses) > 1 && r.IntN(4) == 0
		for i, u := range n.uses {
			if !(n.release && i == 0) {
				given[u.obj] = u.mode
			}
		}
		k := r.IntN(6)
		for range k {
			n.children = append(n.children, rgen(r, next, objects, depth-1, given))
		}
		if k > 0 && r.IntN(3) == 0 {
			n.waitAt = 1 + r.IntN(k)
			n.waitOn = r.IntN(2) == 0
		}
		n.loop = n.waitAt < 0 && k > 1 && r.IntN(3) == 0
	}
	return n
}

// reduce is what a body contributes to reductions, in the same phases as work; t is nil in the
// sequential program.
func (n *rnode) reduce(t *Task, w *rworld, phase int) {
	for i, u := range n.uses {
		if u.weak || u.mode != deps.ModeReduce || phase == 1 && n.release && i == 0 {
			continue
		}
		p := &w.obj[u.obj]
		if t != nil {
			p = Local(t, w.sums[u.obj])
		}
		*p += int64(n.id*3 + phase)
	}
}

// work is what a body does to its objects; phase 1 is after a Wait, and leaves out what was
// released.
func (n *rnode) work(w *rworld, phase int) {
	for i, u := range n.uses {
		if u.weak || u.mode == deps.ModeReduce || phase == 1 && n.release && i == 0 {
			continue
		}
		p := &w.obj[u.obj]
		switch u.mode {
		case deps.ModeIn:
			w.seen[n.id] = w.seen[n.id]*31 + *p
		case deps.ModeConcurrent:
			if phase == 0 { // after a Wait, others of the group may be running
				atomic.AddInt64(p, int64(n.id))
			}
		case deps.ModeCommutative:
			*p += int64(n.id + phase)
		default:
			*p = *p*31 + int64(n.id*2+phase)
		}
	}
}

// sequential is the program with its tasks run in place.
func (n *rnode) sequential(w *rworld) {
	n.work(w, 0)
	n.reduce(nil, w, 0)
	for i, c := range n.children {
		c.sequential(w)
		if i+1 == n.waitAt {
			n.work(w, 1)
			n.reduce(nil, w, 1)
		}
	}
}

func (n *rnode) body(t *Task, w *rworld, m *Mutex) error {
	switch {
	case n.ready > 0: // done
	case n.lock:
		if err := t.Critical(m, func() error { n.work(w, 0); return nil }); err != nil {
			return err
		}
	default:
		n.work(w, 0)
	}
	n.reduce(t, w, 0)
	if n.sleep {
		if err := t.Sleep(time.Microsecond); err != nil {
			return err
		}
	}
	if n.hold {
		release := t.Hold()
		go release(nil)
	}
	if n.block {
		go t.Unblock()
		if err := t.Block(); err != nil {
			return err
		}
	}
	if n.release {
		if err := t.Release(n.uses[0].access(w)); err != nil {
			return err
		}
	}
	if n.loop {
		n.spawnLoop(t, w, m)
		return nil
	}
	for i, c := range n.children {
		n.spawn(t, w, m, c)
		if i+1 == n.waitAt {
			if err := n.wait(t, w); err != nil {
				return err
			}
			n.work(w, 1)
			n.reduce(t, w, 1)
		}
	}
	return nil
}

// wait waits for the children, as far as what the body does next needs it.
func (n *rnode) wait(t *Task, w *rworld) error {
	if !n.waitOn {
		return t.Wait()
	}
	var accs []deps.Access
	for i, u := range n.uses {
		if !u.weak && u.mode != deps.ModeReduce && !(n.release && i == 0) {
			accs = append(accs, u.access(w))
		}
	}
	return t.WaitOn(accs...)
}

// spawnLoop spawns the children as the chunks of a loop.
func (n *rnode) spawnLoop(t *Task, w *rworld, m *Mutex) {
	t.LoopWith(LoopAttrs{Grain: 1, Accesses: func(lo, hi int) (accs []deps.Access) {
		for _, u := range n.children[lo].uses {
			accs = append(accs, u.access(w))
		}
		return accs
	}}, 0, len(n.children), func(t *Task, lo, hi int) error {
		c := n.children[lo]
		if c.ready > 0 { // chunks have one OnReady for all
			c.work(w, 0)
		}
		return c.body(t, w, m)
	})
}

func (n *rnode) spawn(t *Task, w *rworld, m *Mutex, c *rnode) {
	accs := make([]deps.Access, len(c.uses))
	for i, u := range c.uses {
		accs[i] = u.access(w)
	}
	attrs := c.attrs
	if c.ready > 0 {
		attrs.OnReady = func(t *Task) error {
			c.work(w, 0)
			if c.ready == 2 {
				end := t.Hold()
				go end(nil)
			}
			return nil
		}
	}
	t.SpawnWith(attrs, func(t *Task) error { return c.body(t, w, m) }, accs...)
}

// rprogram makes the program of a seed: its main task uses nothing itself.
func rprogram(seed uint64) (main *rnode, objects, tasks int) {
	r := rand.New(rand.NewPCG(seed, 1))
	objects = 1 + r.IntN(6)
	main = &rnode{waitAt: -1}
	tasks = 1
	for tasks < 60 {
		main.children = append(main.children, rgen(r, &tasks, objects, r.IntN(4), nil))
	}
	return main, objects, tasks
}

// Random programs give the values of the sequential program for every number of workers, throttle,
// GOMAXPROCS, spinning, order of stealing and instrumentation. Debug mode reports nothing, since
// children stay within what their parents declare.
func TestRandomPrograms(t *testing.T) {
	programs := uint64(300)
	if underRace || testing.Short() {
		programs = 40
	}
	base := uint64(time.Now().UnixNano())
	first, last := base, base+programs
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag+1
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var said warnings
	instruments := []struct {
		name string
		cfg  Config
	}{{"none", Config{}}, {"traced", Config{TraceSpawns: true}}, {"debug", Config{Debug: true, Logger: said.logger()}}}
	k := 0
	for _, procs := range []int{1, 2, 4} {
		runtime.GOMAXPROCS(procs)
		for _, workers := range []int{1, 2, 3, 8} {
			for _, window := range []int{2, 16, 0} {
				for _, ins := range instruments {
					tune := tuning{rounds: sched.Rounds, stealSeed: base + uint64(k)}
					if procs == 2 {
						tune.rounds = 0
					}
					k++
					cfg := ins.cfg
					cfg.Workers, cfg.Window = workers, window
					rt, err := open(cfg, tune)
					require.NoError(t, err)
					for seed := first; seed < last; seed += 36 {
						main, objects, tasks := rprogram(seed)
						want := newRworld(objects, tasks)
						main.sequential(want)
						got := newRworld(objects, tasks)
						got.ranges = k%3 == 0
						what := fmt.Sprintf("-task.seed %d: procs %d, workers %d, window %d, steal seed %d, instruments %s", seed, procs, workers, window, tune.stealSeed, ins.name)
						var m Mutex
						require.NoError(t, rt.Run(bg, func(t *Task) error { return main.body(t, got, &m) }), what)
						require.Equal(t, want.obj, got.obj, what)
						require.Equal(t, want.seen, got.seen, what)
						require.Empty(t, said.take(), what)
					}
					first, last = first+1, last+1
					if *seedFlag != 0 {
						first, last = *seedFlag, *seedFlag+1
					}
					require.NoError(t, rt.Close())
				}
			}
		}
	}
}
