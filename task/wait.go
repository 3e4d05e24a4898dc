// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
	"weft/task/internal/stuck"
)

// callsBody is the code of callHere, the only function that calls bodies. Compilers do not put it into others, since
// it recovers.
var callsBody = sync.OnceValue(func() stuck.Code { return stuck.CodeAt(reflect.ValueOf((*Task).callHere).Pointer()) })

// callHere runs t's body and turns its panic into an error.
func (t *Task) callHere() (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			err = t.wrap(panicError(r), r, debug.Stack())
			return
		}
		t.goexit()
	}()
	err = t.fn(t)
	if err == nil && t.node.Flags&flagLongSpawn != 0 {
		t.combineAll()
	}
	returned = true
	if err != nil {
		err = t.wrap(err, nil, nil)
	}
	return err
}

// goexit ends t when its body has ended the goroutine. The bodies beneath it on
// the stack end in the same way, one after the other; the last one hands the slot on.
func (t *Task) goexit() {
	if t.slot.probe != nil {
		t.slot.probe.ended(t, true)
	}
	s := t.leave(t.slot.outer)
	t.run.fail(t.wrap(errGoexit, nil, nil))
	last := s.cur.load() == nil
	s.bodyOver(t)
	s.settle(false)
	if last {
		s.handOver()
	}
}

// Wait returns when all children that t has made so far are over, with all their
// descendants and events. It runs descendants that are ready; if there are none, it
// gives up the slot. It returns the error of the run if that has failed or was
// cancelled, else nil.
func (t *Task) Wait() error {
	s := t.enter("Wait")
	if t.node.Flags&flagLongSpawn != 0 {
		s = t.combineAll()
	}
	if s.probe != nil {
		s.probe.waits(t, &waiting{op: opWait}) // also while descendants run on top of t, which may be stuck there
	}
	for {
		left := t.spawned + t.count.Load()
		if s.overOf == t {
			left -= s.overN
		}
		if left == 0 {
			if s.overOf == t {
				// Nobody else needs to know.
				t.spawned -= s.overN
				s.overOf, s.overN = nil, 0
			}
			break
		}
		if d := s.descendant(t); d != nil {
			s = s.execute(d)
			continue
		}
		if s.overOf != nil {
			s.tell()
			s.settle(false)
			continue
		}
		t.prepare(waiting{op: opWait})
		t.phase = phaseWait //bug:phase
		if t.count.Add(t.spawned) != 0 {
			t.park(s, event.BlockedWait)
		} else {
			t.unprepare()
		}
		t.phase = phaseBody
		t.spawned = 0
		break
	}
	if t.node.MaySweep() {
		t.node.Sweep(&t.slot.flow)
		t.slot.recycle()
	}
	if t.slot.probe != nil {
		t.slot.probe.waited(t)
	}
	return t.run.cause()
}

// WaitOn returns when t's earlier children have released what accs need: it is an
// empty undeferred task with these accesses, so it does not wait for the
// rest of those children, nor for children that do not use the objects. It returns the
// error of the run if that has failed or was cancelled, else nil.
//
// A weak access waits for nothing, as ever; a Reduce access, which would not either, is refused by a panic.
func (t *Task) WaitOn(accs ...deps.Access) error {
	s := t.enter("WaitOn")
	list := accesses(accs)
	for _, a := range list {
		if a.Mode() == chain.ModeReduce {
			panic("task: WaitOn a Reduce access, which waits for nothing; name the object by deps.In")
		}
	}
	if t.node.Flags&flagLongSpawn != 0 {
		s = t.beforeSpawn(list)
		if t.node.Flags&flagRecorded != 0 {
			list = t.heldByLoop(list)
		}
	}
	c := s.newTask(t, func(*Task) error { return nil })
	if s.rt.cfg.TraceSpawns {
		c.label, c.pc = opWaitOn, s.rt.traced()
		c.node.Flags |= flagRare
	}
	t.runUndeferred(s, c, list, event.SpawnedUndeferred|spawnedWaitOn)
	return t.run.cause()
}

// Bounds of what runs on top of a body that waits. Beyond them it gives up its slot instead, and
// the slot's loop, which has nothing beneath it, goes on with the same tasks. Either costs a Wait
// one park at most.
const (
	// walkMax is how many generations below t a descendant may be: as many ancestors are looked
	// at for each task. (task/forkjoin and its like find nearly all at the first.)
	walkMax = 16

	// nestMax is how many bodies are on top of a body, on one stack (guess: a megabyte or two
	// with frames of common size, where Go ends a program at a gigabyte).
	nestMax = 1000
)

// descendant takes the newest task of the slot's queue if it is a near descendant of t. Only
// such may run on top of t's body: t waits for it in any case, whereas
// a stranger could itself be waiting for t. While a task with a priority is ready, only the first of
// those will do.
func (s *slot) descendant(t *Task) *Task {
	if s.nested >= nestMax {
		return nil
	}
	if s.Urgent() {
		return fromNode(s.PopUrgent(func(n *chain.Node) bool { return fromNode(n).startsUnder(t) }))
	}
	n := s.Pop()
	if n == nil || fromNode(n).startsUnder(t) {
		return fromNode(n)
	}
	s.Push(n)
	return nil
}

// startsUnder reports whether x, which is ready, has not started and is found to descend from t. A task with
// an OnReady is left to slot.loop.
func (x *Task) startsUnder(t *Task) bool {
	if x.node.Flags&(flagResuming|flagOnReady) != 0 {
		return false
	}
	a := x.parent()
	for range walkMax {
		if a == t || a == nil {
			break
		}
		a = a.parent()
	}
	return a == t
}

// parker is where the goroutine of a task waits for a slot.
type parker struct {
	wake xatomic.Chan[*slot]
	at   int             // place in run.blocked; -1 if not in it
	word *xatomic.Uint32 // what the task is blocked on
	what waiting         // owned by the body

	parked parked
}

var parkers = sync.Pool{New: func() any {
	p := &parker{wake: make(xatomic.Chan[*slot], 1), at: -1}
	p.enlist()
	return p
}}

// The methods in which a body waits, as a report names them.
const (
	opWait     = "Wait"
	opWaitOn   = "WaitOn"
	opChild    = "an undeferred Spawn"
	opWindow   = "Spawn, since the window is full"
	opBlock    = "Block"
	opBlockFor = "BlockFor"
	opSleep    = "Sleep"
	opAwait    = "Await"
	opBlocking = "Blocking"
	opLock     = "Mutex.Lock"
	opJoin     = "Detached.Join"
)

// waiting is what a body waits for.
type waiting struct {
	op   string    // the method
	what any       // that the caller has named, or what the method is about
	on   noted     // of a task that it waits for, if that is known
	lock *Mutex    // that it waits for
	due  time.Time // when it ends by itself; zero: never
}

// prepare makes t ready to be resumed. It comes before the announcement that t waits, for x.
func (t *Task) prepare(x waiting) {
	race.Hide()
	p := parkers.Get().(*parker)
	race.Show()
	p.what = x
	t.parker = p
	if rt := t.run.rt; rt.probe != nil && x.op != opWait {
		rt.probe.waits(t, &p.what)
	}
}

// unprepare takes prepare back, when there is nothing to wait for.
func (t *Task) unprepare() {
	if rt := t.run.rt; rt.probe != nil && t.parker.what.op != opWait {
		rt.probe.goesOn(t)
	}
	t.parker.what = waiting{}
	if !xatomic.Driven() { // else what a task waits on is new in each order, as in the last one
		race.Hide()
		t.parker.word = nil
		parkers.Put(t.parker)
		race.Show()
	}
	t.parker = nil
}

// park gives up slot s and returns when t has a slot again. Precondition: prepare, and
// the announcement after it, so that somebody will call resume.
func (t *Task) park(s *slot, reason uint64) {
	t.addIdle(1)
	t.giveSlot(s, reason)
	t.awaitSlot()
	t.addIdle(-1)
}

// giveSlot hands s to a spare goroutine; t's body runs without a slot from here on.
func (t *Task) giveSlot(s *slot, reason uint64) {
	if s.probe != nil {
		s.probe.gaveSlot(t, reason)
	}
	s.tell()
	s.settle(false)
	t.slot, t.outer, t.nested = nil, s.outer, s.nested
	s.cur.store(nil)
	s.outer, s.nested = nil, 0
	s.handOver()
}

// awaitSlot waits until t is given a slot.
func (t *Task) awaitSlot() {
	p := t.parker
	p.sleeps(t)
	s := p.wake.Recv()
	p.wakes()
	t.unprepare()
	s.take()
	s.cur.store(t)
	s.outer, s.nested = t.outer, t.nested
	t.slot, t.outer, t.nested = s, nil, 0
	if s.probe != nil {
		s.probe.gotSlot(t)
	}
}

// handOver starts a spare goroutine on s.
func (s *slot) handOver() {
	if s.probe != nil {
		s.probe.slotEvent(event.SlotGiven, nil)
	}
	s.Leave()
	s.rt.spares.run(s)
}

// resume queues t, whose goroutine waits for a slot.
func (rt *Runtime) resume(t *Task) {
	t.node.Flags |= flagResuming
	if s := rt.here(); s != nil {
		s.ready(t)
		return
	}
	rt.readyOff(t)
}

// readyOff is slot.ready for a caller without a slot.
func (rt *Runtime) readyOff(t *Task) { rt.readyBy(t, 0) }

// readyBy is readyOff for what the end of a task, which had a number, has made ready.
func (rt *Runtime) readyBy(t *Task, by uint64) {
	if rt.probe != nil {
		rt.probe.queuedBy(t, by)
	}
	rt.sched.Ready(&t.node, t.prio())
}
