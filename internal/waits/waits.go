// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Counter counts goroutines that sleep in a wait of weft's, from just before they sleep until just
// after. Each object with a counter serves one wait at a time, so a counter is seldom contended.
type Counter struct {
	// word changes with each call: the upper half is the number of calls, the lower half that of
	// the goroutines that sleep.
	word atomic.Uint64
	_    [56]byte
}

const (
	call  = 1 << 32
	sleep = call + 1
	wake  = call - 1
)

// Sleep is called by a goroutine that is about to sleep until another goroutine, or a frame, wakes
// it, and does nothing else until then.
func (c *Counter) Sleep() { c.word.Add(sleep) }

// Wake is called by a goroutine that was asleep, before it does anything else.
func (c *Counter) Wake() { c.word.Add(wake) }

// counters are shared by all objects; their number is a power of two.
var counters [64]Counter

var nextCounter atomic.Uint32

// NewCounter returns a counter for a new object.
func NewCounter() *Counter { return &counters[nextCounter.Add(1)%uint32(len(counters))] }

// calls counts the waits for the ends of runs and of runtimes, which are rare.
var calls Counter

// Call calls f, which must do nothing but wait for others, such as for the end of a run, and counts
// the goroutine as asleep meanwhile.
func Call(f func()) {
	calls.Sleep()
	defer calls.Wake()
	f()
}

var services, timed Counter

// Service wraps f, the function of a goroutine of weft's, so that the goroutine is counted as a
// service for all its life. f must begin no communication and run no function of the program; a
// fabric's reader is an example. The owner must count data that f has read and not yet delivered as
// under way.
func Service(f func()) func() {
	return func() {
		services.Sleep()
		defer services.Wake()
		f()
	}
}

// In returns a counter for a wait that ctx may end.
func In(ctx context.Context) *Counter {
	if _, ok := ctx.Deadline(); ok {
		return &timed
	}
	return NewCounter()
}

// Timed is the counter of waits that a time will end.
func Timed() *Counter { return &timed }

// Party is an owner of waits, such as a run of ranks or a runtime of tasks, that counts them itself
// or can describe them.
type Party struct {
	// Asleep returns how many goroutines sleep in waits of the party that no Counter counts, and
	// how many more sleep in waits that a time will end. version changes when one of them goes to
	// sleep or is woken. Asleep does not block for long. nil: none.
	Asleep func() (goroutines, timed int, version uint64)
	// Outside reports whether a frame of another process may wake a goroutine of the party. nil:
	// no.
	Outside func() bool
	// Describe returns lines that say which goroutine or rank waits for what. Any goroutine may
	// call it at any time. nil: no lines.
	Describe func() []string
}

var parties struct {
	mu  sync.Mutex
	all []*Party // guarded by mu: in the order of Join
}

// Join adds p to the parties that are counted and described, until leave is called.
func Join(p *Party) (leave func()) {
	parties.mu.Lock()
	defer parties.mu.Unlock()
	parties.all = append(parties.all, p)
	return func() {
		parties.mu.Lock()
		defer parties.mu.Unlock()
		parties.all = slices.DeleteFunc(slices.Clone(parties.all), func(q *Party) bool { return q == p })
	}
}

func joined() []*Party {
	parties.mu.Lock()
	defer parties.mu.Unlock()
	return parties.all[:len(parties.all):len(parties.all)] // elements are never changed in place
}

// Describe returns the lines of all parties except but, whose caller reports its own.
func Describe(but *Party) (lines []string) {
	for _, p := range joined() {
		if p != but && p.Describe != nil {
			lines = append(lines, p.Describe()...)
		}
	}
	return lines
}

// Ended is the error of a run that its context has ended, with the waits at that time.
type Ended struct {
	Cause error    // of the context; it matches the context's Err too
	Waits []string // lines that say which goroutine or rank waited for what
}

// Error returns the cause and the waits.
func (e *Ended) Error() string {
	if len(e.Waits) == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%v; when it ended:\n%s", e.Cause, strings.Join(e.Waits, "\n"))
}

// Unwrap returns the cause.
func (e *Ended) Unwrap() error { return e.Cause }

// Cause returns [context.Cause] of a context that has ended. If a deadline has ended the context,
// the error matches [context.DeadlineExceeded] even where the program has set another cause.
func Cause(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// Explained reports whether an error says already why a run has ended: an enclosing run has made
// it.
func Explained(err error) bool {
	var e interface{ EndsRun() bool }
	return errors.As(err, &e) && e.EndsRun()
}

// EndsRun makes Ended an error that says why a run has ended.
func (e *Ended) EndsRun() bool { return true }

// End returns the cause of a context that has ended. Unless the cause is [Explained], it adds
// lines, which say which goroutine or rank waits for what.
func End(ctx context.Context, lines func() []string) error {
	cause := Cause(ctx)
	if Explained(cause) {
		return cause
	}
	return &Ended{Cause: cause, Waits: lines()}
}
