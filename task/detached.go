// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"

	"weft/internal/waits"
)

// Spawn starts main as the main task of a run, as Run does, and returns at once. Unlike
// Run it may be called from a task too. The new run is independent of that task: only Close and
// callers of the handle's methods wait for it, and its errors end no other run. It
// ends early when ctx does. The context of a task ends with the task's run, so a
// detached task that is to outlast that run needs another context. The number of detached tasks is
// not bounded.
//
// If the runtime is closed, or ctx has ended, the handle has an error: [ErrClosed], or
// the cause of the context. While Close waits, tasks, OnReady and OnDone's functions may still
// spawn, and Close waits for what they spawn; all other callers get ErrClosed.
func (rt *Runtime) Spawn(ctx context.Context, main func(*Task) error) *Detached {
	return rt.spawn(ctx, rt.traced(), &Attrs{}, main)
}

// SpawnWith is Spawn with attributes. Wait is always set. SpawnWith panics if Undeferred is set,
// since there is no creator that could wait.
func (rt *Runtime) SpawnWith(ctx context.Context, a Attrs, main func(*Task) error) *Detached {
	if a.Undeferred {
		panic("task: a detached task cannot be undeferred; use Run, or Task.SpawnWith")
	}
	return rt.spawn(ctx, rt.traced(), &a, main)
}

func (rt *Runtime) spawn(ctx context.Context, pc uintptr, a *Attrs, main func(*Task) error) *Detached {
	mustCall("Spawn", "of", main != nil)
	rt.vet("Spawn", ctx)
	d := &Detached{rt: rt, done: make(chan struct{})}
	if !rt.begin() {
		d.complete(ErrClosed)
		return d
	}
	if ctx.Err() != nil {
		rt.life.leave()
		d.complete(waits.Cause(ctx))
		return d
	}
	r := &run{rt: rt, handle: d}
	r.begin(ctx, r.main(pc, main), a, &d.main)
	return d
}

// end is called once, when the main task of r is over. The caller is in the middle of deepDone, as
// at the end of an event: end must not block.
func (d *Detached) end(r *run) {
	p := d.rt.probe
	if p != nil {
		p.Acquire(false) // the goroutine that has spawned the task has made the context
	}
	unhooked := r.unhook()
	if p != nil {
		p.RunOver(d.main, r.first.Load() != nil)
	}
	err := r.first.Load()
	r.cancel(nil)
	d.complete(err)
	// d's callbacks have been called, so Close may go on now; but not before contextEnds is over,
	// if it has been started.
	if unhooked {
		d.rt.life.leave()
	} else if r.hookOver = d.rt.life.leave; !r.hook.wait() {
		d.rt.life.leave()
	}
}

// complete ends d and calls the callbacks.
func (d *Detached) complete(err error) {
	d.mu.Lock()
	d.over, d.err = true, err
	calls := d.calls
	d.calls = nil
	d.mu.Unlock()
	close(d.done)
	for _, f := range calls {
		d.call(func(err error) {
			defer d.rt.guests.Leave(d.rt.guests.Enter("a callback of a detached task", nil))
			f(err)
		}, err)
	}
}

// OnDone calls f once, with the error of the run, when the run is over: at once if it is over, else
// on the goroutine that ends the run. f must not block or panic. Package tampi uses OnDone to bind
// a Detached to a task.
func (d *Detached) OnDone(f func(error)) {
	mustCall("OnDone", "of", f != nil)
	d.mu.Lock()
	if !d.over {
		d.calls = append(d.calls, f)
		d.mu.Unlock()
		return
	}
	err := d.err
	d.mu.Unlock()
	d.call(f, err)
}

// call calls f. In lint mode f is ordered after everything that the run has done.
func (d *Detached) call(f func(error), err error) {
	if d.rt.probe == nil {
		f(err)
		return
	}
	d.rt.probe.Joins(d.main, func() { f(err) })
}

// Done returns a channel that is closed when the run is over.
func (d *Detached) Done() <-chan struct{} { return d.done }

// Err returns the error of the run: nil while it is not over.
func (d *Detached) Err() error {
	if d.rt.probe != nil {
		defer d.rt.probe.Joined(d.main, true)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Wait returns the error of the run when the run is over, or the cause of ctx if ctx ends
// before. It must not be called from a task of the same runtime: Join is for tasks.
func (d *Detached) Wait(ctx context.Context) error {
	if d.rt.here() != nil {
		panic("task: Wait for a detached task inside a task, whose slot it would keep; use Join")
	}
	select {
	case <-d.done:
		return d.Err()
	default:
	}
	k := waits.In(ctx)
	k.Sleep()
	defer k.Wake()
	select {
	case <-d.done:
		return d.Err()
	case <-ctx.Done():
		return waits.Cause(ctx)
	}
}

// Join is Wait for a task: t, whose body is the caller, gives up its slot until d is over or
// t's own run has failed or was cancelled. It returns d's error if d is over, else that of t's run.
//
// Join panics if t belongs to d, since d would wait for itself.
func (d *Detached) Join(t *Task) error {
	t.enter("Join")
	if t.run.handle == d {
		panic("task: Join by " + t.name() + " of the detached task that it belongs to, which is not over before it; use Wait, for the children")
	}
	err := t.await("Join", waiting{op: opJoin, on: d.main}, func(done func()) { d.OnDone(func(error) { done() }) })
	select {
	case <-d.done:
		return d.Err()
	default:
		return err
	}
}
