// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/chain"
	"weft/internal/order"
)

// The oracle for ranges asks the model (model_test.go) about each byte of a small universe. Objects
// are variables in it that do not overlap.

// cells is the size of the universe.
const cells = 12

// rvars are the variables in the universe; any pair of addresses is a range.
var rvars = []struct{ lo, hi int }{{0, 4}, {4, 6}, {6, 7}, {7, 12}}

// rdecl is an access to the bytes [lo, hi), named as a variable or as a range.
type rdecl struct {
	lo, hi int
	object bool
	mode   chain.Mode
	weak   bool
}

func (d rdecl) String() string {
	s := strings.ToLower(d.mode.String())
	if d.weak {
		s = "weak" + s
	}
	if d.object {
		return fmt.Sprintf("%s(%d..%d)", s, d.lo, d.hi)
	}
	return fmt.Sprintf("%s[%d:%d]", s, d.lo, d.hi)
}

// bytes returns a declaration for each byte.
func (d rdecl) bytes() (out []decl) {
	for i := d.lo; i < d.hi; i++ {
		out = append(out, decl{obj: i, mode: d.mode, weak: d.weak})
	}
	return out
}

func allBytes(list []rdecl) (out []decl) {
	for _, d := range list {
		out = append(out, d.bytes()...)
	}
	return out
}

// spawnRanges appends a child of p.
func (p *mtask) spawnRanges(list []rdecl) *mtask {
	var accs []order.Access
	for _, d := range list {
		accs = append(accs, order.Access{Lo: uintptr(d.lo), Hi: uintptr(d.hi), Object: d.object, Mode: d.mode, Weak: d.weak})
	}
	return p.child(accs)
}

// rangeTo makes the engine's access of d to the cells of s.
func rangeTo[T any](s []T, d rdecl) chain.Access {
	var a chain.Access
	switch {
	case !d.object:
		a = chain.Slice(s[d.lo:d.hi]).Access(d.mode)
	case d.hi-d.lo == 1:
		a = chain.Object(&s[d.lo], d.mode)
	case d.hi-d.lo == 2:
		a = chain.Object((*[2]T)(s[d.lo:d.hi]), d.mode)
	case d.hi-d.lo == 4:
		a = chain.Object((*[4]T)(s[d.lo:d.hi]), d.mode)
	case d.hi-d.lo == 5:
		a = chain.Object((*[5]T)(s[d.lo:d.hi]), d.mode)
	default:
		panic("no such variable")
	}
	if d.weak {
		a = a.Weak()
	}
	return a
}

// rworld runs a program with ranges one step at a time, in the engine and in the model.
type rworld struct {
	buf     []byte
	root    *rtask
	tasks   []*rtask
	flow    chain.Flow
	of      map[*chain.Node]*rtask
	pool    []*chain.Node
	started []*rtask
	queues  int // waits for exclusion so far
	err     error
}

type rtask struct {
	name     string
	id       int
	parent   *rtask
	m        *mtask
	node     *chain.Node
	state    taskState
	kids     int
	ranged   bool    // the task's accesses are in a domain of ranges
	spread   bool    // the children's accesses are
	queued   int     // number of the node's wait for exclusion; 0: none
	reserved bool    // its bytes are reserved for it
	named    []rdecl // variables that it has named Commutative
}

func newRWorld() *rworld {
	w := &rworld{buf: make([]byte, cells), of: map[*chain.Node]*rtask{}}
	w.root = &rtask{name: "root", id: -1, m: newModelTask(nil), node: new(chain.Node), state: running}
	return w
}

func (w *rworld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *rworld) spawn(p *rtask, name string, list []rdecl) (t *rtask, refused any) {
	t = &rtask{name: name, id: len(w.tasks), parent: p}
	if k := len(w.pool); k > 0 {
		t.node = w.pool[k-1]
		w.pool = w.pool[:k-1]
		if !chain.Unspoiled(t.node) {
			w.fail("a free node was touched")
		}
	} else {
		t.node = new(chain.Node)
	}
	illegal := false
	var accs []chain.Access
	for _, d := range list {
		if d.object && d.mode == chain.ModeCommutative {
			t.named = append(t.named, d)
		}
		accs = append(accs, rangeTo(w.buf, d))
		for _, b := range d.bytes() {
			if u := p.m.find(b.obj); u != nil && u.released {
				illegal = true
			}
		}
		if !d.object && d.hi > d.lo && !illegal {
			p.spread = true
		}
	}
	w.started = w.started[:0]
	w.reserve()
	var ready bool
	func() {
		defer func() { refused = recover() }()
		ready = p.node.Register(t.node, accs, &w.flow)
	}()
	if (refused != nil) != illegal {
		w.fail("spawn %s: panic %v, but illegal is %v", name, refused, illegal)
	}
	if refused != nil {
		if chain.HasRanges(p.node) {
			p.spread = true
			p.m.order.Ranges()
		}
		w.collect()
		w.check()
		return nil, refused
	}
	t.ranged = p.spread && len(allBytes(list)) > 0
	t.spread = t.ranged
	if chain.HasRanges(p.node) != p.spread || chain.HasRanges(t.node) != t.ranged {
		w.fail("spawn %s: the domain of %s has ranges: %v", name, p.name, !p.spread)
	}
	w.of[t.node] = t
	t.m = p.m.spawnRanges(list)
	p.kids++
	w.tasks = append(w.tasks, t)
	if ready {
		w.admit(t)
	}
	w.collect()
	w.check()
	return t, nil
}

// legalRelease reports whether each byte is declared so and not given up. In a domain of objects
// only objects can be released.
func (t *rtask) legalRelease(d rdecl) bool {
	if !t.ranged && !d.object && d.hi > d.lo {
		return false
	}
	for _, b := range d.bytes() {
		u := t.m.find(b.obj)
		if u == nil || ordered(u.mode) != ordered(d.mode) || u.declaredWeak != d.weak || u.released {
			return false
		}
	}
	return true
}

func (w *rworld) release(t *rtask, d rdecl) error {
	w.started = w.started[:0]
	w.reserve()
	err := t.node.Release(rangeTo(w.buf, d), &w.flow)
	legal := t.legalRelease(d)
	if (err == nil) != legal {
		w.fail("release %s %v: %v, but legal is %v", t.name, d, err, legal)
	}
	if legal {
		for _, b := range d.bytes() {
			t.m.find(b.obj).released = true
		}
	}
	w.collect()
	w.check()
	return err
}

func (w *rworld) end(t *rtask) {
	w.started = w.started[:0]
	w.reserve()
	t.state = ended
	t.m.end()
	t.node.Finish(&w.flow)
	w.collect()
	for t != nil && t.state == ended && t.kids == 0 {
		t.state = retired
		if t != w.root {
			w.of[t.node] = t
		}
		chain.Retire(t.node, &w.flow)
		w.collect()
		if t = t.parent; t != nil {
			t.kids--
		}
	}
	w.check()
}

func (w *rworld) collect() {
	for n := w.flow.NextReady(); n != nil; n = w.flow.NextReady() {
		t := w.of[n]
		if t == nil || t.state != waiting {
			w.fail("a task became ready that is not waiting")
			return
		}
		w.admit(t)
	}
	for n := w.flow.NextFree(); n != nil; n = w.flow.NextFree() {
		if n == w.root.node {
			w.root.state = free
			continue
		}
		t := w.of[n]
		if t == nil || t.state != retired {
			w.fail("a node was set free whose task is not over, or twice")
			return
		}
		t.state = free
		delete(w.of, n)
		chain.Poison(n)
		w.pool = append(w.pool, n)
	}
}

func (w *rworld) start(t *rtask) {
	w.checkExclusion(t)
	t.state = running
	w.started = append(w.started, t)
}

func (w *rworld) check() {
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

func (w *rworld) in(s taskState) []*rtask {
	var out []*rtask
	for _, t := range w.tasks {
		if t.state == s {
			out = append(out, t)
		}
	}
	return out
}

// raction is one step of a program with ranges, as action is.
type raction struct {
	kind actionKind
	task int
	id   int
	list []rdecl
}

func (a raction) String() string {
	return fmt.Sprintf("%d: %s %d %v", a.task, []string{"spawn", "release", "end"}[a.kind], a.id, a.list)
}

type rplayer struct {
	w    *rworld
	byID map[int]*rtask
}

func newRPlayer() *rplayer {
	w := newRWorld()
	return &rplayer{w, map[int]*rtask{-1: w.root}}
}

func (pl *rplayer) do(a raction) {
	t := pl.byID[a.task]
	if t == nil || t.state != running {
		return
	}
	switch a.kind {
	case actSpawn:
		if c, refused := pl.w.spawn(t, fmt.Sprint(a.id), a.list); refused == nil {
			pl.byID[a.id] = c
		}
	case actRelease:
		pl.w.release(t, a.list[0])
	case actEnd:
		pl.w.end(t)
	}
}

// finish ends running tasks until all are over.
func (pl *rplayer) finish(next func(n int) int) error {
	w := pl.w
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
	if k := len(w.in(waiting)); w.err == nil && k > 0 {
		w.fail("%d tasks wait for ever", k)
	}
	if w.err == nil && w.root.state != free {
		w.fail("the root's node is not free")
	}
	for _, t := range w.tasks {
		if t.state == retired && t.ranged && w.err == nil {
			w.fail("the node of %s is not free: records need no late messages", t.name)
		}
	}
	return w.err
}

func rreplay(prog []raction) error {
	pl := newRPlayer()
	for _, a := range prog {
		if pl.do(a); pl.w.err != nil {
			return pl.w.err
		}
	}
	return pl.finish(func(int) int { return 0 })
}

// rshrink takes steps and accesses out of a failing program as long as it fails.
func rshrink(prog []raction) []raction {
	fails := func(prog []raction) (bad bool) {
		defer func() {
			if recover() != nil {
				bad = true
			}
		}()
		return rreplay(prog) != nil
	}
	if !fails(prog) {
		return prog
	}
	for again := true; again; {
		again = false
		for i := 0; i < len(prog); i++ {
			if i == 0 && !slices.ContainsFunc(prog[i].list, func(d rdecl) bool { return d.object }) {
				continue // it makes the domain one of ranges
			}
			if try := slices.Delete(slices.Clone(prog), i, i+1); fails(try) {
				prog, again = try, true
				i--
				continue
			}
			for j := 0; prog[i].kind == actSpawn && j < len(prog[i].list); j++ {
				try := slices.Clone(prog)
				try[i].list = slices.Delete(slices.Clone(prog[i].list), j, j+1)
				if fails(try) {
					prog, again = try, true
					j--
				}
			}
		}
	}
	return prog
}
