// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"weft/comm/internal/callback"
	"weft/comm/internal/wire"
	"weft/internal/event"
	"weft/internal/processors"
	"weft/internal/progress"
	"weft/internal/waits"
)

// Status tells what a receive or a probe found.
type Status struct {
	Source    int // rank of the sender in the communicator
	Tag       int
	Bytes     int // size of the message; when truncated, its full size
	Cancelled bool
}

// Count returns the number of whole elements of elemSize bytes, or Undefined if the message is not
// a whole number of them.
func (s Status) Count(elemSize int) int {
	if elemSize <= 0 || s.Bytes%elemSize != 0 {
		return Undefined
	}
	return s.Bytes / elemSize
}

// Request is an asynchronous operation under way. It is completed exactly once, by the goroutine
// that makes the last step: a sender's goroutine completes the receive that it matches, and so on.
// Any goroutine may call any method at any time.
//
// Callbacks of OnDone run on the goroutine that completes the request; if the request is already
// complete, on the goroutine that calls OnDone. If that goroutine is itself deep in callbacks, they
// run a little later, on a goroutine that is running callbacks then. They must not block; they may
// start operations, complete requests and register callbacks.
type Request struct {
	// st and err are written before the list ends, by the goroutine that completes, and are
	// constant from then on.
	list callback.List
	st   Status
	err  error

	// Constant after construction.
	owner  canceler         // nil: cannot be cancelled
	calls  *callback.Set    // runs the callbacks
	engine *progress.Engine // of the rank that waits for it; not nil before completion
	ev     *event.Shared    // nil: not recorded
	id     uint64           // its number in the recording
}

// canceler is the operation that a request belongs to.
type canceler interface{ cancel() bool }

type node = callback.Node

// parked is the node of a goroutine in Request.Wait.
type parked struct {
	node
	count *waits.Counter
}

// NewRequest returns a request that the caller completes, with the function that does so. Calls of
// complete after the first do nothing. The request is not tied to a run: an abort does not complete
// it.
func NewRequest() (r *Request, complete func(error)) {
	r = &Request{calls: anyCalls, engine: anyEngine.Load()}
	return r, func(err error) { r.complete(Status{}, err) }
}

// anyCalls is for requests that are tied to no rank.
var anyCalls = callback.NewSet(processors.Count())

// anyEngine is for requests that are tied to no rank: the engine of the rank that began last. That
// is a hint for polling; such a request completes without it too.
var anyEngine atomic.Pointer[progress.Engine]

func init() { anyEngine.Store(progress.New(nil, progress.Config{Ranks: 1})) }

// succeeded is the request of every operation that has succeeded at once, with an empty status. A
// complete request does not change.
var succeeded = Request{calls: anyCalls}

func init() { succeeded.list.End() }

// doneRequest returns a request that is complete.
func doneRequest(st Status, err error) *Request {
	if st == (Status{}) && err == nil {
		return &succeeded
	}
	r := &Request{st: st, err: err, calls: anyCalls}
	r.list.End()
	return r
}

// complete ends the request with a result. It returns false, and does nothing, if the request was
// complete already.
func (r *Request) complete(st Status, err error) bool {
	list, ok := r.list.Take()
	if !ok {
		return false
	}
	calls := r.calls
	r.st, r.err = st, err
	if r.ev != nil {
		r.recordDone(err)
	}
	r.list.End()
	calls.Tell(list, err)
	return true
}

// completeOwned is complete for a goroutine that alone may end the request, and has written its
// result.
func (r *Request) completeOwned() {
	calls, err := r.calls, r.err
	if r.ev != nil {
		r.recordDone(err)
	}
	calls.Tell(r.list.Close(), err)
}

// done reports whether the request is complete.
func (r *Request) done() bool { return r.list.Done() }

// Done reports whether the request is complete. As Test, it makes progress if it is not.
func (r *Request) Done() bool { return r.done() || r.progressed() }

// progressed makes progress, and reports whether the request is complete then.
func (r *Request) progressed() bool {
	r.engine.Try()
	return r.done()
}

// Status returns the status of a complete request, and the zero Status before.
func (r *Request) Status() Status {
	if !r.done() {
		return Status{}
	}
	return r.st
}

// Test reports whether the request is complete, and its result if so. If it is not, the call makes
// progress: it delivers what has come from other processes, so that a loop around Test gets on, and
// yields the processor now and then. So it may complete other requests of the rank, and run their
// callbacks.
func (r *Request) Test() (bool, Status, error) {
	if !r.Done() {
		return false, Status{}, nil
	}
	return true, r.st, r.err
}

// Peek is Test without progress: it delivers nothing, and runs no callbacks. For packages of this
// module whose callers may hold locks that callbacks take.
func (r *Request) Peek() (bool, Status, error) {
	if !r.done() {
		return false, Status{}, nil
	}
	return true, r.st, r.err
}

// OnDone calls f exactly once, with the request's error, when the request is complete; at once if
// it is. It may be called any number of times; callbacks run in the order of registration. See
// Request for the goroutine that runs them.
func (r *Request) OnDone(f func(error)) {
	n := &node{Func: f}
	if !r.list.Push(n) {
		n.Next = nil
		r.calls.Run(n, r.err)
	}
}

// Cancel withdraws a receive that no message has matched yet. It returns true if it did; the
// request then completes with ErrCancelled and Status.Cancelled. Other operations cannot be
// cancelled.
func (r *Request) Cancel() bool { return r.owner != nil && r.owner.cancel() }

// Wait waits until the request is complete and returns its result. If ctx ends first, Wait returns
// an error that wraps the context's cause; the operation itself goes on. A nil ctx waits for the
// request only.
func (r *Request) Wait(ctx context.Context) (Status, error) {
	if r.done() {
		return r.st, r.err
	}
	if err := r.park(ctx, false); err != nil {
		return Status{}, err
	}
	return r.st, r.err
}

// waiters holds nodes that are in no list, with empty channels.
var waiters = sync.Pool{New: func() any { return &parked{node{Ch: make(chan struct{}, 1)}, waits.NewCounter()} }}

// park blocks until the request is done or ctx ends. entered: the caller has the right to poll;
// park gives it up.
func (r *Request) park(ctx context.Context, entered bool) error {
	n := waiters.Get().(*parked)
	if !r.list.Push(&n.node) {
		n.Next = nil
		waiters.Put(n)
		if entered {
			r.engine.Leave()
		}
		return nil
	}
	r.engine.PollChannel(n.Ch, entered)
	if ctx == nil || ctx.Done() == nil {
		n.count.Sleep()
		<-n.Ch
		n.count.Wake()
	} else {
		count := counted(ctx, n.count)
		select {
		case <-n.Ch:
			count.Wake()
		case <-ctx.Done():
			count.Wake()
			if r.list.Remove(&n.node) {
				n.Next = nil
				waiters.Put(n)
				return waitError(ctx)
			}
			<-n.Ch // completed meanwhile: the token is on its way
		}
	}
	n.Next = nil
	waiters.Put(n)
	return nil
}

func waitError(ctx context.Context) error {
	return &Error{Op: "wait", Rank: NoPeer, Peer: NoPeer, Tag: NoPeer, Err: waits.Cause(ctx)}
}

// anyWaits counts goroutines that wait for one of several requests, which is rare.
var anyWaits = waits.NewCounter()

// counted counts a wait that ctx may end, and returns the counter whose Wake ends it. A wait with a
// deadline counts as timed: it ends by itself.
func counted(ctx context.Context, count *waits.Counter) *waits.Counter {
	if _, ok := ctx.Deadline(); ok {
		count = waits.Timed()
	}
	count.Sleep()
	return count
}

// WaitAll waits until all requests are complete and returns the error of the first, in the order of
// the arguments, that has one. Nil requests are skipped. If ctx ends, WaitAll returns early with
// its cause.
func WaitAll(ctx context.Context, reqs ...*Request) error {
	var first error
	for _, r := range reqs {
		if r == nil || r.done() {
			continue
		}
		if err := r.park(ctx, false); err != nil {
			return err
		}
	}
	for _, r := range reqs {
		if r != nil && r.err != nil {
			first = r.err
			break
		}
	}
	return first
}

// WaitAny waits until one of the requests is complete and returns its index and result. Nil
// requests are skipped; if all are nil, it returns Undefined at once. If ctx ends first, it returns
// Undefined and the context's cause.
func WaitAny(ctx context.Context, reqs ...*Request) (int, Status, error) {
	live := false
	for i, r := range reqs {
		if r == nil {
			continue
		}
		live = true
		if r.done() {
			return i, r.st, r.err
		}
	}
	if !live {
		return Undefined, Status{}, nil
	}
	ch := make(chan struct{}, 1)
	nodes := make([]node, len(reqs))
	registered := 0
	for i, r := range reqs {
		nodes[i].Ch = ch
		if r != nil && !r.list.Push(&nodes[i]) {
			break
		}
		registered = i + 1
	}
	var err error
	if registered == len(reqs) {
		for _, r := range reqs {
			if r != nil {
				r.engine.PollChannel(ch, false)
				break
			}
		}
		if ctx == nil {
			anyWaits.Sleep()
			<-ch
			anyWaits.Wake()
		} else {
			count := counted(ctx, anyWaits)
			select {
			case <-ch:
			case <-ctx.Done():
				err = waitError(ctx)
			}
			count.Wake()
		}
	}
	for i, r := range reqs[:registered] {
		if r != nil {
			r.list.Remove(&nodes[i])
		}
	}
	for i, r := range reqs {
		if r != nil && r.done() {
			return i, r.st, r.err
		}
	}
	if err == nil {
		panic(fmt.Sprintf("comm: bug: WaitAny was woken with none of %d requests done", len(reqs)))
	}
	return Undefined, Status{}, err
}

func statusOf(h *wire.Header) Status {
	return Status{Source: int(h.Src), Tag: int(h.Tag), Bytes: int(h.Length)}
}

// recordDone records that r is complete. It runs before any goroutine can see that.
func (r *Request) recordDone(err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	r.ev.Put(event.RequestDone, r.id, flags, 0)
}

// wait waits without a context, as blocking collectives do: an abort completes the request.
func wait(r *Request) error {
	entered := false
	return waitEntered(r, &entered)
}

// waitEntered is wait for a caller that may have the right to poll (*entered); the waiting gives it
// up.
func waitEntered(r *Request, entered *bool) error {
	if !r.done() {
		polls := *entered
		*entered = false
		_ = r.park(context.Background(), polls) // fails only if its context ends
	}
	return r.err
}
