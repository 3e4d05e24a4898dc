// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"

	"weft/internal/event"
	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/probe"
)

// Run runs main as the main task of a dependency domain of its own and returns
// when it and all its descendants are over. It may be called from several
// goroutines at once; the runs share the slots. It must not be called from a task.
//
// The first error or panic of a body or an event, or the end of ctx, ends the run, as does
// [ErrDeadlock]: tasks that have not started are skipped, their accesses are released in order, and
// blocked ones are resumed; events that are pending are waited for. Run returns that error: an
// [*Error] if a task is to blame, or the cause of ctx. Where that is a deadline, or a cancellation
// without a cause of its own, the error wraps it and says which tasks waited for what; it matches
// [context.DeadlineExceeded] for a deadline, whatever its cause. Cancelling does not interrupt a
// body; a body can check [Task.Context].
func (rt *Runtime) Run(ctx context.Context, main func(*Task) error) error {
	mustCall("Run", "of", main != nil)
	rt.vet("Run", ctx)
	if rt.here() != nil {
		panic("task: Run inside a task, whose slot it would keep; use Spawn and Wait")
	}
	if !rt.begin() {
		return ErrClosed
	}
	defer rt.life.leave()

	if ctx.Err() != nil {
		return waits.Cause(ctx)
	}
	r := &run{rt: rt, done: make(chan struct{})}
	var n probe.Notes
	r.begin(ctx, r.main(rt.traced(), main), &Attrs{}, &n)
	defer r.cancel(nil)
	defer r.unfollow()
	k := waits.In(ctx)
	k.Sleep()
	<-r.done
	k.Wake()
	if rt.probe != nil {
		rt.probe.Joined(n, true)
		rt.probe.RunOver(n, r.first.Load() != nil)
	}
	return r.first.Load()
}

// begin starts r, of which t is the main task. It fills n with what the observers keep of t before
// r can end.
func (r *run) begin(ctx context.Context, t *Task, a *Attrs, n *probe.Notes) {
	p := r.rt.probe
	if p != nil {
		r.id = p.NewID()
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.unhook = context.AfterFunc(ctx, func() { r.contextEnds(ctx) })
	t.setAttrs(a)
	if p != nil {
		t.tellMain(p)
		*n = t.notes()
	}
	r.rt.readyOutside(t)
}

// contextEnds is the function that r registers with ctx.
func (r *run) contextEnds(ctx context.Context) {
	r.fail(r.ended(ctx))
	if r.hook.done() {
		r.hookOver()
	}
}

// unfollow unregisters contextEnds. It returns when contextEnds does not run any more, so the
// caller of Run may then unload what it reads.
func (r *run) unfollow() {
	if r.unhook() {
		return
	}
	over := make(chan struct{})
	if r.hookOver = func() { close(over) }; r.hook.wait() {
		<-over
	}
}

// main returns the main task, which runs fn. pc is the spawn site, or zero.
func (r *run) main(pc uintptr, fn func(*Task) error) *Task {
	t := &Task{fn: fn, run: r}
	t.node.Flags = flagMain
	if pc != 0 {
		t.pc = pc
		t.node.Flags |= flagRare | flagLongSpawn
	}
	t.node.Register(&t.node, nil, nil)
	return t
}

// end is called once, when the main task is over, by the goroutine that ended it.
func (r *run) end() {
	r.overdue.stop()
	if r.handle != nil {
		r.handle.end(r)
		return
	}
	close(r.done)
}

// ended returns the cause of ctx, which has ended, with what the tasks wait for now, before they
// are resumed. A cause that the program has given to a cancellation is returned as it is.
func (r *run) ended(ctx context.Context) error {
	if cause := context.Cause(ctx); ctx.Err() == context.Canceled && cause != context.Canceled {
		return cause
	}
	return waits.End(ctx, func() []string {
		return append(r.rt.describeWaits(), waits.Describe(r.rt.party)...)
	})
}

// fail ends the run because of err, if it is the first reason to do so.
func (r *run) fail(err error) {
	if !r.first.CompareAndSwap(nil, err) {
		return
	}
	p := r.rt.probe
	if p != nil {
		p.Acquire(false) // the caller of Run has made the context
	}
	r.overdue.start(r, err)
	r.cancel(plain(err))
	if p != nil {
		p.Put(event.RunFailed, r.id, 0, 0)
	}
	r.mu.Lock()
	r.stopped.Store(true)
	l := r.blocked
	r.blocked = nil
	n := 0
	for _, t := range l {
		// Under the lock: a concurrent Unblock takes t off the list before it resumes t, so t and
		// its parker do not change here.
		t.parker.at = -1
		if t.parker.word.CompareAndSwap(blocked, blockNone) {
			l[n] = t
			n++
		}
	}
	r.mu.Unlock()
	for _, t := range l[:n] {
		r.rt.resume(t)
	}
}

// cause returns why the run ended early; nil if it did not.
func (r *run) cause() error {
	if !r.stopped.Load() {
		return nil
	}
	return plain(r.first.Load())
}

// addBlocked announces that t, which is prepared, is blocked on w. It returns false if t
// has no reason to wait: it has been unblocked, or the run has failed.
func (r *run) addBlocked(t *Task, w *xatomic.Uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped.Load() { //bug:failed
		return false
	}
	// t is on the list before the announcement, where unblock finds it.
	t.parker.at, t.parker.word = len(r.blocked), w
	r.blocked = append(r.blocked, t)
	if w.CompareAndSwap(blockNone, blocked) {
		return true
	}
	w.CompareAndSwap(blockWoken, blockNone) //bug:early
	r.removeLocked(t.parker)                //bug:early
	return false
}

// dropBlocked takes t off the list. t has been unblocked and is not resumed yet.
func (r *run) dropBlocked(t *Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(t.parker)
}

func (r *run) removeLocked(p *parker) {
	i := p.at
	if i < 0 {
		return
	}
	last := len(r.blocked) - 1
	r.blocked[i] = r.blocked[last]
	r.blocked[i].parker.at = i
	r.blocked[last] = nil
	r.blocked = r.blocked[:last]
	p.at = -1
}
