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

// Counter counts goroutines that sleep in a wait of ours: from just before they sleep until just
// after. It belongs to an object that serves one wait at a time, so it is seldom contended.
type Counter struct {
	// word grows with each call: the upper half counts calls, the lower one is the goroutines that
	// sleep.
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

// counters are all there are: a power of two.
var counters [64]Counter

var nextCounter atomic.Uint32

// NewCounter returns a counter for a new object.
func NewCounter() *Counter { return &counters[nextCounter.Add(1)%uint32(len(counters))] }

// calls counts the waits for the ends of runs and of runtimes, which are rare.
var calls Counter

// Call calls f, which only waits until others are done: for the end of a run.
func Call(f func()) {
	calls.Sleep()
	defer calls.Wake()
	f()
}

var services, timed Counter

// Service returns f as the function of a goroutine of ours that begins no communication and runs no
// function of the program: one that reads what a fabric brings, say. What it has taken
// and not delivered yet, its owner counts as under way.
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

// Party is something with waits that it counts itself, or that can say who waits for what: a run of
// ranks, a runtime of tasks.
type Party struct {
	// Asleep returns how many goroutines sleep in waits of the party that no Counter counts, how
	// many more in such that a time will end, and a number that changes when one of them is woken
	// or goes to sleep. It does not block for long. nil: none.
	Asleep func() (goroutines, timed int, version uint64)
	// Outside reports whether something that is no goroutine of this process may wake one of the
	// party: a frame of another process. nil: no.
	Outside func() bool
	// Describe returns lines that say who waits for what. Any goroutine may call it at any time.
	Describe func() []string
}

var parties struct {
	mu  sync.Mutex
	all []*Party // guarded by mu: in the order of Join
}

// Join has p counted and described until leave is called.
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
	return parties.all[:len(parties.all):len(parties.all)] // what is there is not changed in place
}

// Describe returns what all parties say, but for one that says it itself.
func Describe(but *Party) (lines []string) {
	for _, p := range joined() {
		if p != but && p.Describe != nil {
			lines = append(lines, p.Describe()...)
		}
	}
	return lines
}

// Ended is the end of a context, with what was going on then.
type Ended struct {
	Cause error    // of the context, which matches its Err too
	Waits []string // who waited for what
}

// Error has all of it.
func (e *Ended) Error() string {
	if len(e.Waits) == 0 {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%v; when it ended:\n%s", e.Cause, strings.Join(e.Waits, "\n"))
}

// Unwrap returns the cause.
func (e *Ended) Unwrap() error { return e.Cause }

// Cause is [context.Cause] of a context that has ended, which matches [context.DeadlineExceeded]
// where a deadline has ended it, also if the program has given that a cause of its own.
func Cause(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// Explained reports whether an error says already why a run has ended: by a run around this one.
func Explained(err error) bool {
	var e interface{ EndsRun() bool }
	return errors.As(err, &e) && e.EndsRun()
}

// EndsRun makes Ended an error that says why a run has ended.
func (e *Ended) EndsRun() bool { return true }

// End returns the cause of a context that has ended, with lines that say who waits for what, if the
// cause does not explain itself.
func End(ctx context.Context, lines func() []string) error {
	cause := Cause(ctx)
	if Explained(cause) {
		return cause
	}
	return &Ended{Cause: cause, Waits: lines()}
}
