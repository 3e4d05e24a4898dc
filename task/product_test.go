// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/deps"
)

// The product of lifecycles: every way for a task to end, in every state of its run, with every
// kind of event, child and wait, and with every way to be spawned.
var (
	lifeResults = []string{"ok", "error", "panic", "panicvalue", "goexit"}
	lifeRuns    = []string{"normal", "cancelled before", "cancelled in the body", "sibling failed"}
	lifeEvents  = []string{"none", "released in the body", "released by a goroutine", "released by a task", "error by a goroutine"}
	lifeNested  = []string{"none", "waited for", "not waited for", "waited on", "wait attribute", "loop", "loop, waited for"}
	lifeBlocked = []string{"no", "early", "late", "by a goroutine", "by a task", "Blocking", "Await",
		"Sleep", "BlockFor, time", "BlockFor, unblocked", "Mutex"}
	lifeSpawns = []string{"deferred", "undeferred", "undeferred, not ready", "final", "included"}
	lifeReady  = []string{"none", "ok", "event", "error", "panic", "event error"} // OnReady
	lifeLocks  = []string{"none", "unlocked", "not unlocked"}
)

// The values that should make no difference are drawn at random for each element of the product.
var (
	lifeLaunches = []string{"Run", "detached", "detached, joined"}
	lifeHints    = []Attrs{{}, {Priority: 2}, {Priority: -2}, {Cost: 7}}
	lifeDebug    = []bool{false, true}
)

var (
	errBody    = errors.New("body failed")
	errEvent   = errors.New("event failed")
	errReady   = errors.New("OnReady failed")
	errSibling = errors.New("sibling failed")
	errCancel  = errors.New("cancelled by the test")
)

// lifeCase is one element of the product.
type lifeCase struct {
	result, run, events, nested, blocked, spawn, ready, lock string
	// the run ends before the subject blocks, not after
	cancelFirst bool

	launch string
	hints  Attrs
	debug  bool
}

// draw chooses the values of the case that do not follow from its index k in the product.
func (c *lifeCase) draw(k int) {
	h := uint64(k) * 0x9E3779B97F4A7C15 >> 40
	c.launch = lifeLaunches[h%3]
	c.hints = lifeHints[h/3%4]
	c.debug = lifeDebug[h/12%2]
}

// readyFails reports whether OnReady ends the run.
func (c lifeCase) readyFails() bool {
	return c.run != "cancelled before" && (c.ready == "error" || c.ready == "panic" || c.ready == "event error")
}

func (c lifeCase) String() string {
	return fmt.Sprintf("result %s, run %s, events %s, nested %s, blocked %s, spawn %s, OnReady %s, lock %s, cancel first %v, launch %s, hints %+v, debug %v",
		c.result, c.run, c.events, c.nested, c.blocked, c.spawn, c.ready, c.lock, c.cancelFirst, c.launch, c.hints, c.debug)
}

// lifetime is one run of a case.
type lifetime struct {
	lifeCase
	n      notes
	cancel context.CancelCauseFunc
	main   *Task

	x, gate int   // objects
	m, own  Mutex // m: the helper holds it at first; own: no other task uses it

	failSibling chan struct{} // closed by the subject to make the sibling fail
	work        chan func()   // for the helper task, which runs it in its body
	foreign     chan func()   // for a goroutine

	started, bodyOver, childOver, released, gateOver, readyOver atomic.Bool
	after, after2, before, chunks                               atomic.Int32
}

func TestProductOfLifecycles(t *testing.T) {
	if !*everyCase {
		watch(t) // else go test's own limit has to do
	}
	step, k, cases := 151, 0, 0
	switch { // the steps are coprime to every length, so that each pair of values comes up
	case testing.Short():
		step = 4001
	case underRace:
		step = 1009
	}
	if *everyCase {
		step = 1
	}
	for _, workers := range []int{1, 3} {
		for _, result := range lifeResults {
			for _, run := range lifeRuns {
				for _, events := range lifeEvents {
					for _, nested := range lifeNested {
						for _, blocked := range lifeBlocked {
							for _, spawn := range lifeSpawns {
								for _, ready := range lifeReady {
									for _, lock := range lifeLocks {
										for _, first := range []bool{true, false} {
											if !first && (blocked == "no" || run == "normal" || run == "cancelled before") {
												continue
											}
											if k++; k%step != 0 {
												continue
											}
											cases++
											c := lifeCase{result: result, run: run, events: events, nested: nested, blocked: blocked,
												spawn: spawn, ready: ready, lock: lock, cancelFirst: first}
											c.draw(k)
											if !c.test(t, workers) {
												t.Fatalf("workers %d: %v", workers, c)
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cases", cases)
}

// everyCase takes ten minutes.
var everyCase = flag.Bool("task.product", false, "test every element of the product of lifecycles, not a sample")

// test runs the case on its own runtime and reports whether all was right.
func (c lifeCase) test(t *testing.T, workers int) bool {
	base := runtime.NumGoroutine()
	var said warnings
	rt := openTest(t, Config{Workers: workers, Debug: c.debug, Logger: said.logger()})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	l := &lifetime{lifeCase: c, cancel: cancel,
		failSibling: make(chan struct{}), work: make(chan func(), 2), foreign: make(chan func(), 2)}

	stop := make(chan struct{})
	gone := make(chan struct{})
	go func() { // the foreign goroutine
		defer close(gone)
		for {
			select {
			case f := <-l.foreign:
				f()
			case <-stop:
				return
			}
		}
	}()
	err := l.start(rt, ctx)
	close(stop)
	<-gone

	l.checkError(err)
	l.checkRuns(err)
	lines := said.take()
	l.n.check(len(lines) == 0, "the log has %q", lines)

	// The runtime can still be used.
	sum := 0
	again := rt.Run(context.Background(), func(t *Task) error {
		for i := range 10 {
			t.Spawn(func(*Task) error { sum += i; return nil }, deps.InOut(&sum))
		}
		return nil
	})
	l.n.check(again == nil && sum == 45, "a later run: error %v, sum %d", again, sum)
	closeTest(t, rt, base)
	for _, s := range l.n.bad {
		t.Error(s)
	}
	return len(l.n.bad) == 0
}

// start runs the program of the case.
func (l *lifetime) start(rt *Runtime, ctx context.Context) error {
	switch l.launch {
	case "detached":
		return rt.Spawn(ctx, l.body).Wait(bg)
	case "detached, joined":
		var err error
		outer := rt.Run(bg, func(t *Task) error { err = rt.Spawn(ctx, l.body).Join(t); return nil })
		l.n.check(outer == nil, "the run that joins: %v", outer)
		return err
	}
	return rt.Run(ctx, l.body)
}

// stopped waits, without a slot, until the run has ended for the bodies.
func (l *lifetime) stopped(t *Task) {
	t.Blocking(func() { until(t.run.stopped.Load) })
}

// body is the main task.
func (l *lifetime) body(t *Task) error {
	l.main = t
	helper := make(chan struct{})
	noMore := make(chan struct{}) // the subject is over, or never runs
	t.SpawnWith(Attrs{Label: "helper"}, func(t *Task) error {
		close(helper)
		for {
			var f func()
			t.Blocking(func() { f = l.nextWork(noMore) })
			if f == nil {
				return nil
			}
			f()
		}
	})
	t.Blocking(func() { <-helper })

	if l.spawn == "undeferred, not ready" {
		ran := make(chan func(error), 1)
		t.SpawnWith(Attrs{Label: "gate"}, func(t *Task) error { ran <- t.Hold(); return nil }, deps.InOut(&l.gate))
		var end func(error)
		t.Blocking(func() { end = <-ran })
		waiting := int32(3) // the helper, the gate and the creator
		if l.run == "sibling failed" {
			waiting++
		}
		l.foreign <- func() {
			until(func() bool { return t.idle.Load() >= waiting || t.run.stopped.Load() })
			l.gateOver.Store(true)
			end(nil)
		}
	}
	t.Spawn(func(t *Task) error { l.before.Add(1); return nil }, deps.InOut(&l.x))
	t.Blocking(func() { until(func() bool { return l.before.Load() != 0 }) })
	if l.run == "sibling failed" {
		in := make(chan struct{})
		t.SpawnWith(Attrs{Label: "sibling"}, func(t *Task) error {
			t.Blocking(func() {
				close(in)
				select {
				case <-l.failSibling:
				case <-t.Context().Done(): // OnReady failed
				}
			})
			return errSibling
		})
		t.Blocking(func() { <-in })
	}
	if l.run == "cancelled before" {
		l.cancel(errCancel)
		l.stopped(t)
	}

	// The creator is a separate task, so that the test sees it wait.
	create := func(t *Task) error {
		defer close(noMore)
		attrs := Attrs{Label: "subject", Undeferred: strings.HasPrefix(l.spawn, "undeferred"), Final: l.spawn == "final",
			Wait: l.nested == "wait attribute", Priority: l.hints.Priority, Cost: l.hints.Cost}
		if l.ready != "none" {
			attrs.OnReady = l.onReady
		}
		accs := []deps.Access{deps.InOut(&l.x)}
		if l.spawn == "undeferred, not ready" {
			accs = append(accs, deps.In(&l.gate))
		}
		t.SpawnWith(attrs, func(t *Task) error { return l.subject(t) }, accs...)
		if attrs.Undeferred || t.InFinal() {
			l.n.check(l.bodyOver.Load() || !l.started.Load(), "the undeferred subject is not over")
			l.n.check(l.bodyOver.Load() || l.run == "cancelled before" || l.readyFails(), "the undeferred subject did not run")
		}
		t.SpawnWith(Attrs{Label: "after"}, func(t *Task) error { l.follow(); l.after.Add(1); return nil }, deps.In(&l.x))
		t.SpawnWith(Attrs{Label: "after2"}, func(t *Task) error {
			l.follow()
			l.n.check(l.after.Load() == 1, "after2 runs before after")
			l.after2.Add(1)
			return nil
		}, deps.InOut(&l.x))
		if (l.spawn == "deferred" || l.spawn == "final") && l.run != "cancelled before" {
			t.Wait() // for the subject, so that the helper does not end early
		}
		return nil
	}
	if l.run == "cancelled before" {
		return create(t) // a creator would not start any more
	}
	t.SpawnWith(Attrs{Label: "creator", Final: l.spawn == "included"}, create, deps.InOut(&l.x).Weak(), deps.In(&l.gate).Weak())
	return nil
}

// nextWork returns the next function for the helper; nil when there will be none.
func (l *lifetime) nextWork(noMore chan struct{}) func() {
	select {
	case f := <-l.work:
		return f
	case <-noMore:
	}
	select {
	case f := <-l.work:
		return f
	default:
		return nil
	}
}

// follow is what must hold when a successor of the subject runs.
func (l *lifetime) follow() {
	l.n.check(l.bodyOver.Load(), "a successor runs before the subject's body is over")
	l.n.check(l.events == "none" || l.released.Load(), "a successor runs before the subject's event is over")
	l.n.check(l.nested == "none" || l.childOver.Load(), "a successor runs before the subject's child is over")
}

// onReady is the subject's OnReady.
func (l *lifetime) onReady(t *Task) error {
	l.n.check(!l.readyOver.Load() && !l.started.Load(), "OnReady is called late")
	l.n.check(l.before.Load() == 1, "OnReady is called before the predecessor is over")
	if !strings.HasPrefix(l.ready, "event") {
		l.readyOver.Store(true)
	}
	switch l.ready {
	case "event", "event error":
		end := t.Hold()
		l.foreign <- func() {
			until(func() bool { return t.holds.Load() >= startHeld })
			l.readyOver.Store(true)
			if l.ready == "event" {
				end(nil)
			}
			end(errReady)
		}
	case "error":
		return errReady
	case "panic":
		panic(errReady)
	}
	return nil
}

// subject is the body of the task that the case is about.
func (l *lifetime) subject(t *Task) error {
	l.n.check(!l.started.Swap(true), "the subject runs twice")
	defer l.bodyOver.Store(true)
	l.n.check(l.ready == "none" || l.readyOver.Load(), "the subject runs before OnReady is over")
	l.n.check(t.Cost() == l.hints.Cost, "Cost is %d", t.Cost())
	l.n.check(t.holds.Load() == 0, "the subject starts with events: %d", t.holds.Load())
	l.n.check(t.InFinal() == (l.spawn == "final" || l.spawn == "included"), "InFinal is %v", t.InFinal())
	if l.lock != "none" {
		l.n.check(l.own.Lock(t) == nil, "a free Mutex was not locked")
	}
	l.n.check(l.before.Load() == 1, "the subject runs before its predecessor")
	l.n.check(l.spawn != "undeferred, not ready" || l.gateOver.Load(), "the subject runs before the gate is open")

	inBody := l.bindEvent(t)
	if l.cancelFirst {
		l.endRun(t)
	}
	l.block(t)
	if !l.cancelFirst {
		l.endRun(t)
	}
	l.nest(t)
	if l.lock == "unlocked" {
		l.own.Unlock(t)
	}
	inBody()

	switch l.result {
	case "error":
		return errBody
	case "panic":
		panic(errBody)
	case "panicvalue":
		panic(7)
	case "goexit":
		runtime.Goexit()
	}
	return nil
}

// endRun makes the run end for a reason other than the subject.
func (l *lifetime) endRun(t *Task) {
	switch l.run {
	case "cancelled in the body":
		l.cancel(errCancel)
		l.stopped(t)
	case "sibling failed":
		close(l.failSibling)
		l.stopped(t)
	}
}

// bindEvent binds the event of the case and returns what the body does about it last.
func (l *lifetime) bindEvent(t *Task) (inBody func()) {
	if l.events == "none" {
		return func() {}
	}
	end := t.Hold()
	late := func() { until(func() bool { return t.holds.Load() >= bodyOver }) }
	finish := func(err error) {
		l.released.Store(true)
		end(err)
		end(errors.New("a second call counts for nothing"))
	}
	switch l.events {
	case "released in the body":
		return func() { finish(nil) }
	case "released by a goroutine":
		l.foreign <- func() { late(); finish(nil) }
	case "error by a goroutine":
		l.foreign <- func() { late(); finish(errEvent) }
	case "released by a task":
		return func() {
			l.work <- func() {
				h := l.helperTask()
				h.Blocking(late)
				finish(nil)
			}
		}
	}
	return func() {}
}

// helperTask returns the task whose body the caller is.
func (l *lifetime) helperTask() *Task { return l.main.run.rt.here().cur.load() }

// block blocks and is unblocked as the case says.
func (l *lifetime) block(t *Task) {
	r := t.run // t may be over before the goroutine reads it
	blockedOrOver := func() {
		until(func() bool { return t.block.Load() == blocked || r.stopped.Load() })
	}
	switch l.blocked {
	case "no":
		return
	case "early":
		t.Unblock()
		t.Unblock() // is the same as one
	case "late":
		go func() { blockedOrOver(); t.Unblock() }()
	case "by a goroutine":
		go t.Unblock()
	case "by a task":
		l.work <- func() {
			l.helperTask().Blocking(blockedOrOver)
			t.Unblock()
		}
	case "Blocking":
		c := make(chan int)
		go func() { c <- 1 }()
		t.Blocking(func() { <-c })
		return
	}
	var err error
	long := time.Duration(20_000) // if it is to pass
	if l.cancelFirst && l.run != "normal" {
		long = time.Hour
	}
	switch l.blocked {
	case "Await":
		err = t.Await(func(done func()) { go func() { done(); done() }() })
	case "Sleep":
		err = t.Sleep(long)
	case "BlockFor, time":
		var unblocked bool
		unblocked, err = t.BlockFor(long)
		l.n.check(!unblocked || err != nil, "BlockFor returned true without an Unblock")
	case "BlockFor, unblocked":
		go func() { blockedOrOver(); t.Unblock() }()
		var unblocked bool
		unblocked, err = t.BlockFor(time.Hour)
		l.n.check(unblocked || err != nil, "BlockFor returned before its time")
	case "Mutex":
		locked := make(chan bool)
		l.work <- func() {
			h := l.helperTask()
			locked <- l.m.Lock(h) == nil
			h.Blocking(func() {
				until(func() bool {
					l.m.mu.Lock()
					defer l.m.mu.Unlock()
					return l.m.queue.first != nil || r.stopped.Load()
				})
			})
			l.m.Unlock(h)
		}
		t.Blocking(func() { l.n.check(<-locked, "the helper has no Mutex") })
		if err = l.m.Lock(t); err == nil {
			l.m.Unlock(t)
			return
		}
	default:
		err = t.Block()
	}
	l.n.check(err == t.run.cause() || err == nil, "Block returned %v; the run's error is %v", err, t.run.cause())
	if l.run == "normal" {
		l.n.check(err == nil, "Block returned %v", err)
	} else if l.cancelFirst {
		l.n.check(err != nil, "Block returned no error after the run had ended")
	}
}

// nest makes the child of the case.
func (l *lifetime) nest(t *Task) {
	if l.nested == "none" {
		return
	}
	child := func(t *Task) error { l.childOver.Store(true); return nil }
	chunk := func(n int32) func(*Task, int, int) error {
		return func(*Task, int, int) error {
			if l.chunks.Add(1) == n {
				l.childOver.Store(true)
			}
			return nil
		}
	}
	switch l.nested {
	case "wait attribute":
		t.Spawn(child)
	case "loop":
		t.LoopWith(LoopAttrs{Grain: 1}, 0, 3, chunk(3), deps.InOut(&l.x))
	case "loop, waited for": // in a tree, unless it is final
		t.LoopWith(LoopAttrs{Grain: 1}, 0, 40, chunk(40))
	default:
		t.Spawn(child, deps.InOut(&l.x))
	}
	if strings.Contains(l.nested, "waited") && l.nested != "not waited for" {
		wait := t.Wait
		if l.nested == "waited on" {
			wait = func() error { return t.WaitOn(deps.InOut(&l.x)) }
		}
		err := wait()
		l.n.check(l.childOver.Load() == (l.run == "normal"), "after the wait, child over: %v", l.childOver.Load())
		l.n.check((err == nil) == (l.run == "normal"), "the wait returned %v", err)
	}
}
