//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"runtime/debug"

	"weft/internal/xatomic"
)

// start is the kind of a goroutine's first step, which accesses no object.
const start = xatomic.Kind(100)

// proc is a goroutine of a run.
type proc struct {
	id     int
	name   string
	daemon bool // may be left waiting at the end
	f      func()
	w      *worker
	clock  clock

	// The operation that the goroutine is about to execute.
	kind xatomic.Kind
	x    any
	can  func() bool

	mortal bool // ends before a step
	left   int  // if mortal: steps until then
	whole  bool // several steps that count as one

	paused bool // waits for a step of another goroutine
	done   bool
}

// worker is a coroutine that runs one goroutine of each run.
type worker struct {
	p     *proc
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// node is a state on the path of the search: before step i of the run.
type node struct {
	enabled set
	chosen  int
	done    set // goroutines whose step from here has been explored, or is being explored
	wrote   set // of those, whose step has changed something
	todo    set // goroutines whose step from here must be explored
	sleep   set // goroutines whose step from here leads only to orders explored before
	sleepW  set // of those, whose step has changed something
	preempt int // preemptions before this step
}

// engine explores one program.
type engine struct {
	cfg   Config
	setup func(*Run)

	nodes   []node // the path of the search; its prefix is replayed
	workers []*worker

	// The run.
	run     *Run
	procs   []*proc
	cur     *proc
	goTo    *proc // next goroutine, when cur yields; nil: none
	trace   []event
	objects map[any]*object
	slab    []*object
	used    int
	leaving bool // a goroutine that is resumed must end
	dead    bool // the rest of the run is redundant
	fail    *Failure
	rivals  []int
	script  []int // prescribed steps, for Replay
	sites   []string
	random  *rand.Rand

	res Result
}

func newEngine(cfg Config, setup func(*Run)) *engine {
	cfg.MaxSteps = cmp.Or(cfg.MaxSteps, 5000)
	cfg.Bound-- // less than zero: no bound
	return &engine{cfg: cfg, setup: setup, objects: map[any]*object{}}
}

// execute runs the program once: along nodes, and then as the search prefers.
func (e *engine) execute() {
	e.trace, e.procs, e.used = e.trace[:0], nil, 0
	e.dead, e.fail, e.sites = false, nil, nil
	clear(e.objects)
	e.run = &Run{e: e}
	e.setup(e.run)
	xatomic.Before, xatomic.After, xatomic.Start = e.before, e.after, e.start
	e.goTo = e.pick()
	for e.goTo != nil {
		p := e.goTo
		e.cur = p
		if p.w == nil {
			e.employ(p)
		}
		if _, ok := p.w.next(); !ok {
			panic("explore: a goroutine has ended its coroutine")
		}
	}
	xatomic.Before, xatomic.After, xatomic.Start = nil, nil, nil
	e.res.Steps += len(e.trace)
	if e.fail == nil {
		e.quiescent()
	}
	e.dismiss()
}

// quiescent checks a run in which no goroutine can continue.
func (e *engine) quiescent() {
	e.cur = nil
	var stuck string
	for _, p := range e.procs {
		if !p.done && !p.daemon {
			stuck += fmt.Sprintf("; %s waits for ever in %v", p.name, p.kind)
		}
	}
	if stuck != "" {
		e.failed("deadlock"+stuck, "")
		return
	}
	for _, f := range e.run.ends {
		if err := f(); err != nil {
			e.failed(err.Error(), "")
			return
		}
	}
}

func (e *engine) failed(why, stack string) {
	if e.fail == nil {
		e.fail = &Failure{Why: why, Stack: stack}
		for i := range e.trace {
			e.fail.script = append(e.fail.script, e.trace[i].proc)
		}
	}
}

// employ gives p a coroutine.
func (e *engine) employ(p *proc) {
	for len(e.workers) <= p.id {
		e.workers = append(e.workers, newWorker(e))
	}
	p.w = e.workers[p.id]
	p.w.p = p
}

func newWorker(e *engine) *worker {
	w := new(worker)
	w.next, w.stop = iter.Pull(func(yield func(struct{}) bool) {
		w.yield = yield
		for ok := true; ok; ok = yield(struct{}{}) {
			e.body(w.p)
		}
	})
	return w
}

// body runs p and then chooses the next goroutine.
func (e *engine) body(p *proc) {
	defer func() {
		switch r := recover(); r.(type) {
		case nil, dismissed:
		default:
			p.done = true
			e.failed(fmt.Sprintf("%s panics: %v", p.name, r), string(debug.Stack()))
			e.goTo = nil
		}
	}()
	e.record(p, start, nil, 0, false)
	p.f()
	p.done = true
	e.goTo = e.pick()
}

// killed is the panic that ends a mortal goroutine before a step.
type killed struct{}

// dismissed is the panic that ends goroutines which have not finished when a run is over.
type dismissed struct{}

// dismiss ends the goroutines that have not finished: from now on each of their operations panics,
// so that deferred functions, and functions that recover, end too.
func (e *engine) dismiss() {
	for _, p := range e.procs {
		if p.done || p.w == nil {
			continue
		}
		xatomic.Before = func(xatomic.Kind, any, func() bool) { panic(dismissed{}) }
		e.leaving = true
		p.w.next()
		e.leaving = false
		xatomic.Before = nil
	}
}

// close ends the coroutines.
func (e *engine) close() {
	for _, w := range e.workers {
		w.stop()
	}
}

// before is called by the running goroutine before each operation.
func (e *engine) before(k xatomic.Kind, x any, can func() bool) {
	p := e.cur
	p.age()
	p.kind, p.x, p.can = k, x, can
	p.paused = k == xatomic.Yield
	e.turn(p)
	if k == xatomic.Yield {
		e.record(p, k, nil, 0, false)
	}
}

// turn chooses the next goroutine, and returns when that is p.
func (e *engine) turn(p *proc) {
	e.goTo = e.pick()
	if e.goTo == p {
		return
	}
	p.w.yield(struct{}{})
	if e.leaving {
		panic(dismissed{})
	}
}

// after is called after each operation.
func (e *engine) after(v int64, wrote bool) {
	p := e.cur
	e.record(p, p.kind, p.x, v, wrote)
}

func (e *engine) start(f func()) {
	p := e.add(fmt.Sprintf("goroutine %d", len(e.procs)), f)
	p.daemon = true
	e.cur.clock[e.cur.id]++ // cur's actions since its last step come before p too
	p.clock = e.cur.clock
}

func (e *engine) add(name string, f func()) *proc {
	if len(e.procs) == maxProcs {
		panic("explore: too many goroutines")
	}
	p := &proc{id: len(e.procs), name: name, f: f, kind: start}
	e.procs = append(e.procs, p)
	return p
}

// enabled returns the goroutines that can continue.
func (e *engine) enabled() (s set) {
	var paused set
	for _, p := range e.procs {
		switch {
		case p.done:
		case p.paused:
			paused.add(p.id)
		case p.can == nil || p.can():
			s.add(p.id)
		}
	}
	if s == 0 {
		return paused
	}
	return s
}

// pick chooses the goroutine that takes the next step; nil if there is none.
func (e *engine) pick() *proc {
	if e.fail != nil {
		return nil
	}
	can, i := e.enabled(), len(e.trace)
	if can == 0 {
		return nil
	}
	if i >= e.cfg.MaxSteps {
		e.failed(fmt.Sprintf("no end after %d steps", i), "")
		return nil
	}
	last := -1
	if i > 0 {
		last = e.trace[i-1].proc
	}
	switch {
	case e.script != nil:
		if i < len(e.script) && can.has(e.script[i]) {
			return e.procs[e.script[i]]
		}
		return e.procs[prefer(can, last)]
	case e.random != nil:
		if last >= 0 && can.has(last) && e.random.IntN(4) != 0 {
			return e.procs[last]
		}
		return e.procs[nth(can, e.random.IntN(bits.OnesCount32(uint32(can))))]
	case i < len(e.nodes):
		n := &e.nodes[i]
		if n.enabled != can {
			e.failed(fmt.Sprintf("the program is not deterministic: at step %d, goroutines %b can go on, and before %b could", i, can, n.enabled), "")
			return nil
		}
		return e.procs[n.chosen]
	case e.dead:
		// Any order that ends will do: round robin.
		for k := 1; ; k++ {
			if q := (last + k) % len(e.procs); can.has(q) {
				return e.procs[q]
			}
		}
	}
	return e.grow(i, can, last)
}

// grow adds a node to the path of the search.
func (e *engine) grow(i int, can set, last int) *proc {
	n := node{enabled: can}
	if i > 0 {
		e.inherit(&n, &e.nodes[i-1], &e.trace[i-1])
	}
	rest := can &^ n.sleep
	if rest == 0 {
		e.dead = true
		e.res.Redundant++
		return e.pick()
	}
	n.chosen = prefer(rest, last)
	switch {
	case e.cfg.Bound >= 0 && last >= 0 && can.has(last) && n.preempt >= e.cfg.Bound:
		n.todo = 1 << last // one more preemption would be too many
	case e.cfg.Bound >= 0 || e.cfg.Full:
		n.todo = can
	}
	n.todo.add(n.chosen)
	n.done.add(n.chosen)
	e.nodes = append(e.nodes, n)
	return e.procs[n.chosen]
}

// inherit computes the sleep set of n, which follows from step ev at up: goroutines whose step was
// explored before ev, or that sleep at up, and whose step is independent of ev.
func (e *engine) inherit(n, up *node, ev *event) {
	n.preempt = up.preempt
	if k := len(e.trace); e.cfg.Bound >= 0 && k > 1 {
		if last := e.trace[k-2].proc; last != ev.proc && up.enabled.has(last) {
			n.preempt++
		}
	}
	if e.cfg.Bound >= 0 || e.cfg.Full {
		return
	}
	s := (up.sleep | up.done) &^ (1 << ev.proc)
	wrote := up.sleepW | up.wrote
	for s != 0 {
		q := bits.TrailingZeros32(uint32(s))
		s.drop(q)
		if p := e.procs[q]; p.x == nil || p.x != ev.x || !ev.wrote && !wrote.has(q) {
			n.sleep.add(q)
		}
	}
	n.sleepW = n.sleep & wrote
}

// prefer chooses one of s: the goroutine that ran last, if possible, else the one with the lowest
// number.
func prefer(s set, last int) int {
	if last >= 0 && s.has(last) {
		return last
	}
	return bits.TrailingZeros32(uint32(s))
}

func nth(s set, k int) int {
	for range k {
		s &= s - 1
	}
	return bits.TrailingZeros32(uint32(s))
}

// next changes the path to the next one to explore; false if there is none.
func (e *engine) next() bool {
	for i := len(e.nodes) - 1; i >= 0; i-- {
		n := &e.nodes[i]
		if rest := n.todo &^ (n.done | n.sleep); rest != 0 {
			n.chosen = bits.TrailingZeros32(uint32(rest))
			n.done.add(n.chosen)
			e.nodes = e.nodes[:i+1]
			return true
		}
	}
	return false
}
