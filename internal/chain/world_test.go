// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"slices"

	"weft/internal/chain"
	"weft/internal/order"
)

// world runs a task program one step at a time, in the engine and in the model, and compares them.
// A task that may start runs at once; its body does what the steps say.
type world struct {
	objs  []int64
	sums  []*chain.Reduced // of each object
	names []string         // of objs, for scripts
	index map[string]int

	root  *wtask
	tasks []*wtask // in creation order, without root
	flow  chain.Flow
	of    map[*chain.Node]*wtask
	pool  []*chain.Node

	fresh, freed int // nodes made, and nodes that came out of NextFree
	covered      bool
	started      []*wtask // by the last step
	queues       int      // waits for exclusion so far
	err          error    // the first failure
}

type wtask struct {
	name    string
	id      int
	parent  *wtask
	m       *mtask
	node    *chain.Node
	state   taskState
	kids    int // children that are not retired
	created int // children ever
	path    []int

	queued int // number of the node's wait for exclusion; 0: none
	passed int // how often a younger one has overtaken it
}

type taskState int

const (
	waiting taskState = iota
	running
	ended
	retired
	free
)

func newWorld(objs int) *world {
	mem := make([]int64, objs)
	w := &world{objs: mem, sums: sumsOf(mem), index: map[string]int{}, of: map[*chain.Node]*wtask{}}
	w.root = &wtask{name: "root", id: -1, m: newModelTask(nil), node: new(chain.Node), state: running}
	w.of[w.root.node] = w.root
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// access makes the engine's access of d.
func (w *world) access(d decl) chain.Access { return accessOrReduce(&w.objs[d.obj], w.sums[d.obj], d) }

func sumsOf(objs []int64) []*chain.Reduced {
	list := make([]*chain.Reduced, len(objs))
	for i := range list {
		list[i] = chain.NewReduction(&objs[i], chain.Sum[int64]())
	}
	return list
}

func accessOrReduce(p *int64, sum *chain.Reduced, d decl) chain.Access {
	switch {
	case d.mode != chain.ModeReduce:
		return accessTo(p, d)
	case d.weak:
		return sum.Access().Weak()
	}
	return sum.Access()
}

func accessTo(p *int64, d decl) chain.Access {
	a := chain.Object(p, d.mode)
	if d.weak {
		a = a.Weak()
	}
	return a
}

// take returns memory for a task, reused if possible.
func (w *world) take() *chain.Node {
	if k := len(w.pool); k > 0 {
		n := w.pool[k-1]
		w.pool = w.pool[:k-1]
		if !chain.Unspoiled(n) {
			w.fail("a free node was touched")
		}
		return n
	}
	w.fresh++
	return new(chain.Node)
}

// spawn makes a child of p. If the engine panics, it returns the panic, and the program is as
// before.
func (w *world) spawn(p *wtask, name string, list []decl) (t *wtask, refused any) {
	t = &wtask{name: name, id: len(w.tasks), parent: p, node: w.take()}
	accs := make([]chain.Access, len(list))
	for i, d := range list {
		if d.obj >= 0 { // else the zero Access
			accs[i] = w.access(d)
		}
	}
	illegal := clashes(list)
	for _, d := range list {
		if d.obj < 0 {
			illegal = true
		} else if u := p.m.find(d.obj); u != nil && u.released {
			illegal = true
		}
	}
	w.started = w.started[:0]
	var ready bool
	func() {
		defer func() { refused = recover() }()
		ready = p.node.Register(t.node, accs, &w.flow)
	}()
	if (refused != nil) != illegal {
		w.fail("spawn %s: panic %v, but illegal is %v", name, refused, illegal)
	}
	if refused != nil {
		w.fresh-- // the node is lost, as documented
		w.collect()
		w.check()
		return nil, refused
	}
	w.of[t.node] = t
	t.m = p.m.spawn(list)
	t.path = append(slices.Clone(p.path), p.created)
	p.created++
	p.kids++
	w.tasks = append(w.tasks, t)
	if ready {
		w.admit(t)
	}
	w.collect()
	w.check()
	return t, nil
}

// release gives up an access in t's body.
func (w *world) release(t *wtask, d decl) error {
	w.started = w.started[:0]
	err := t.node.Release(w.access(d), &w.flow)
	u := t.m.find(d.obj)
	legal := u != nil && ordered(u.mode) == ordered(d.mode) && u.declaredWeak == d.weak && !u.released
	if (err == nil) != legal {
		w.fail("release %s: %v, but legal is %v", t.name, err, legal)
	}
	if legal {
		u.released = true
	}
	w.collect()
	w.check()
	return err
}

func ordered(m chain.Mode) chain.Mode {
	if m == chain.ModeOut {
		return chain.ModeInOut
	}
	return m
}

// end ends t's body, and with it the tasks whose descendants are then over.
func (w *world) end(t *wtask) {
	w.started = w.started[:0]
	t.state = ended
	t.m.end()
	t.node.Finish(&w.flow)
	w.collect()
	for t != nil && t.state == ended && t.kids == 0 {
		t.state = retired
		chain.Retire(t.node, &w.flow)
		w.collect()
		if t = t.parent; t != nil {
			t.kids--
		}
	}
	w.check()
}

// finish ends the tasks that run, and those that start then, until none is left. next chooses one
// of n.
func (w *world) finish(next func(n int) int) {
	for w.err == nil {
		run := w.in(running)
		if w.root.state == running {
			run = append(run, w.root)
		}
		if len(run) == 0 {
			break
		}
		w.end(run[next(len(run))])
	}
	if w.err == nil && len(w.in(waiting)) > 0 {
		w.fail("tasks wait for ever:%s", names(w.in(waiting)))
	}
	if w.err == nil && w.root.state != free {
		w.fail("the root's node is not free")
	}
}

// collect takes the nodes that the engine made ready and set free.
func (w *world) collect() {
	for n := w.flow.NextReady(); n != nil; n = w.flow.NextReady() {
		t := w.of[n]
		if t == nil || t.state != waiting {
			w.fail("a task became ready that is not waiting")
			return
		}
		w.admit(t)
	}
	for n := w.flow.NextFree(); n != nil; n = w.flow.NextFree() {
		t := w.of[n]
		if t == nil || t.state != retired {
			w.fail("a node was set free whose task is not over, or twice")
			return
		}
		t.state = free
		delete(w.of, n)
		w.freed++
		chain.Poison(n)
		w.pool = append(w.pool, n)
	}
}

func (w *world) start(t *wtask) {
	t.state = running
	w.started = append(w.started, t)
	w.checkExclusion(t)
	if w.covered {
		w.checkConflicts(t)
	}
}

// check compares the engine with the model: exactly the tasks that may start have started.
func (w *world) check() {
	if w.err != nil {
		return
	}
	for _, t := range w.tasks {
		if may := t.m.mayStart(); t.state == waiting && may && !w.excluded(t) {
			w.fail("task %s waits, but nothing requires it", t.name)
		} else if t.state == running && !may {
			w.fail("task %s has started too early", t.name)
		}
	}
}

// checkConflicts checks a task that starts, from first principles: a conflicting task that comes
// first in the sequential program is over, and none that comes later has begun. It holds for
// programs in which each task's declarations cover its children's.
func (w *world) checkConflicts(t *wtask) {
	for _, o := range w.tasks {
		if o == t || o.state == waiting || related(o.path, t.path) {
			continue
		}
		before := slices.Compare(o.path, t.path) < 0
		for _, x := range o.m.accs {
			u := t.m.find(x.obj)
			if u == nil || u.weak || x.weak || !order.Clash(u.mode, x.mode) && (x.mode != u.mode || x.mode != chain.ModeCommutative) {
				continue
			}
			if o.state == running && !x.released {
				w.fail("task %s starts while %s uses the object", t.name, o.name)
			}
			if w.commute(o, t, x.obj) {
				continue
			}
			switch {
			case before && !x.released:
				w.fail("task %s starts while %s still uses the object before it", t.name, o.name)
			case !before:
				w.fail("task %s starts after %s, which uses the object later", t.name, o.name)
			}
		}
	}
}

// related reports whether one path is a prefix of the other: task and ancestor.
func related(a, b []int) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// in returns the tasks in state s, in creation order.
func (w *world) in(s taskState) []*wtask {
	var out []*wtask
	for _, t := range w.tasks {
		if t.state == s {
			out = append(out, t)
		}
	}
	return out
}
