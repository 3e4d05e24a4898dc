// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"

	"weft/internal/waits"
)

// Spawn starts main as the main task of a run, as Run does, and returns at once. Unlike
// Run it may be called from a task too. The new run has nothing to do with that task: nobody waits
// for it but Close and those who ask the handle, and its errors end no other run. It
// ends early when ctx does; a task's own context ends with that task's run, so
// what is to outlast it needs another one. No window bounds the number of detached tasks.
//
// A runtime that is closed, or a context that has ended, is an error of the handle: [ErrClosed], or
// the cause of the context. While Close waits, tasks, OnReady and OnDone's functions may still
// spawn, and Close waits for what they do; everybody else gets ErrClosed.
func (rt *Runtime) Spawn(ctx context.Context, main func(*Task) error) *Detached {
	return rt.spawn(ctx, rt.traced(), &Attrs{}, main)
}

// SpawnWith is Spawn with attributes. Wait is always there; with Undeferred it
// panics, since there is no creator that could wait.
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

// end is called once, when the main task of r is over. The caller is in the middle of
// its bookkeeping, as with the end of an event: what follows must not block.
func (d *Detached) end(r *run) {
	p := d.rt.probe
	if p != nil {
		p.Acquire(false) // the context is made by who has spawned the task
	}
	unhooked := r.unhook()
	if p != nil {
		p.RunOver(d.main, r.first.Load() != nil)
	}
	err := r.first.Load()
	r.cancel(nil)
	d.complete(err)
	// Close goes on now, since d's callbacks have been called; but not before the function is over
	// that the end of the context has started.
	if unhooked {
		d.rt.life.leave()
	} else if r.hookOver = d.rt.life.leave; !r.hook.wait() {
		d.rt.life.leave()
	}
}

// complete ends d.
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

// OnDone calls f once, with the error of the run, when that is over: at once if it is, else
// on the goroutine that ends it. f must not block or panic. Package tampi binds a Detached to a
// task by this.
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

// call calls f, which comes after all that the run has done.
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

// Wait returns the error of the run when that is over, or the cause of ctx if that ends
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
// It panics if t belongs to d, which would wait for itself.
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
