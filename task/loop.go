// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"reflect"
	"slices"

	"weft/deps"
	"weft/internal/chain"
)

// LoopAttrs are the attributes of a loop. The zero value has none.
type LoopAttrs struct {
	Attrs // of each chunk

	// Grain is the number of iterations of a chunk; the last chunk may have fewer. Zero
	// means a number that gives each slot a few chunks.
	Grain int

	// Accesses returns the accesses of the chunk from lo to hi, in addition to those
	// of the loop. The creator calls it for one chunk after the other. It may return
	// the same slice each time.
	Accesses func(lo, hi int) []deps.Access
}

const (
	loopShare = 4  // chunks per slot (guess: uneven chunks even out, and each is worth a task)
	loopLeaf  = 16 // chunks that one task of the tree spawns (guess: a sixteenth more tasks)
)

// Loop runs the iterations from lo to hi (without hi) in chunks. Each chunk is a task with the
// accesses accs, and body runs the iterations from its lo to its hi. Loop returns when the chunks
// are spawned; Wait waits for them. The chunks of a loop without priority and with no accesses but
// reductions are spawned by a tree of tasks, so that spawning does not take long. Otherwise t
// spawns the chunks in their order, which the accesses refer to. Loops can be nested: body gets the
// chunk's task.
//
// An error of a chunk ends the run, as any task's does; chunks that are not spawned by then never
// are.
func (t *Task) Loop(lo, hi int, body func(t *Task, lo, hi int) error, accs ...deps.Access) {
	s := t.enter("Loop")
	t.loop(s.rt.traced(), LoopAttrs{}, lo, hi, body, accs)
}

// LoopWith is Loop with attributes. It panics if Grain is negative.
func (t *Task) LoopWith(a LoopAttrs, lo, hi int, body func(t *Task, lo, hi int) error, accs ...deps.Access) {
	s := t.enter("LoopWith")
	t.loop(s.rt.traced(), a, lo, hi, body, accs)
}

// loop is one call of Loop. It is constant while its chunks live.
type loop struct {
	attrs  Attrs
	body   func(t *Task, lo, hi int) error
	pc     uintptr // the line that errors name
	lo, hi int
	grain  uint
	chunks uint

	accs, weak []deps.Access // of the chunks of a tree, and of the tasks that spawn them
}

func (t *Task) loop(pc uintptr, a LoopAttrs, lo, hi int, body func(t *Task, lo, hi int) error, accs []deps.Access) {
	if body == nil {
		panic("task: the body is nil")
	}
	if a.Grain < 0 {
		panic(fmt.Sprintf("task: LoopAttrs.Grain is %d; legal are 1 and more, and 0 for the default", a.Grain))
	}
	if lo >= hi {
		return
	}
	n := uint(hi) - uint(lo) // also right if the difference is no int
	l := &loop{attrs: a.Attrs, body: body, pc: pc, lo: lo, hi: hi, grain: uint(a.Grain)}
	if l.grain == 0 {
		l.grain = (n-1)/uint(loopShare*t.run.rt.Workers()) + 1
	}
	l.chunks = (n-1)/l.grain + 1
	if pc == 0 {
		l.pc = reflect.ValueOf(body).Pointer() + 1 // the chunks' own function is not the user's
	}
	// some access is not a reduction
	ordered := slices.ContainsFunc(accesses(accs), func(a chain.Access) bool { return a.Reduced() == nil })
	if !ordered && a.Accesses == nil && a.Priority == 0 && !a.Undeferred && !t.final && l.chunks > loopLeaf {
		for _, a := range accs {
			l.accs, l.weak = append(l.accs, a), append(l.weak, a.Weak())
		}
		t.Spawn(func(t *Task) error { return l.split(t, 0, l.chunks) }, l.weak...)
		return
	}
	var list []deps.Access
	for k := uint(0); k < l.chunks && !t.run.stopped.Load(); k++ {
		lo, hi := l.bounds(k)
		own := accs
		if a.Accesses != nil {
			if own = a.Accesses(lo, hi); len(accs) > 0 {
				list = append(append(list[:0], accs...), own...)
				own = list
			}
		}
		l.spawn(t, lo, hi, own)
	}
}

// bounds returns the first iteration of chunk k, and the iteration after its last.
func (l *loop) bounds(k uint) (lo, hi int) {
	lo = l.lo + int(k*l.grain)
	if k == l.chunks-1 {
		return lo, l.hi
	}
	return lo, lo + int(l.grain)
}

// spawn spawns a chunk as a child of t, which may have another slot afterwards.
func (l *loop) spawn(t *Task, lo, hi int, accs []deps.Access) {
	t.spawnWith(t.slot, l.pc, l.attrs, func(t *Task) error { return l.body(t, lo, hi) }, accesses(accs))
}

// split is the body of a task that spawns the chunks from..to-1. It spawns the larger parts first:
// a slot runs the tasks that it has spawned last, and thieves take those that it has spawned first.
func (l *loop) split(t *Task, from, to uint) error {
	for to-from > loopLeaf {
		mid := from + (to-from)/2
		end := to
		t.Spawn(func(t *Task) error { return l.split(t, mid, end) }, l.weak...)
		to = mid
	}
	for k := to; k > from && !t.run.stopped.Load(); k-- {
		lo, hi := l.bounds(k - 1)
		l.spawn(t, lo, hi, l.accs)
	}
	return nil
}
