// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// Slack is how much the times of events of different sources may contradict their order. (The
// clocks of the processors of one machine differ by less than a microsecond.)
const Slack = 20 * time.Microsecond

// Options set a checker up. The zero value is good.
type Options struct {
	// Slack is taken in the place of the constant if it is not zero: between machines, clocks
	// differ by more.
	Slack time.Duration
	// Partial says that events are missing, so that what is unknown is no finding.
	Partial bool
	// Name tells where tasks come from, for messages; nil for no names.
	Name func(process int, spec uint32) string
	// Has says whether the recording of a rank of the job is among those that are checked; nil: it
	// is not known. Only then a message that such a rank is said to have sent, and has not, is a
	// finding. Ranks of one process are always there.
	Has func(rank int) bool
	// Most is how many findings are kept. 0 means 20.
	Most int
}

// A Checker has the states of all things that it has been told of.
type Checker struct {
	opt      Options
	tasks    map[key]*task
	gone     map[key]uint64 // numbers of tasks that are over, 64 to a word
	failed   map[key]bool   // runs that have, by main task
	slots    map[slotKey]*slot
	requests map[key]*request
	under    map[replay.Message]int // messages that were sent and are not matched
	windows  map[windowKey]*window
	late     []waiting // events that wait for another one to make them legal, oldest first
	start    int64     // time of the first event
	seen     int
	found    []error
	more     int // findings that were not kept
}

// key is a number that is unique in its process.
type key struct {
	process int
	id      uint64
}

type waiting struct {
	e   replay.Event
	why error
}

func of(process int) string {
	if process == 0 {
		return ""
	}
	return fmt.Sprintf(" of process %d", process)
}

// errUnknown is why an event names something that was never heard of.
var errUnknown = errors.New("never heard of")

// request is what is known of a request, until it is done.
type request struct {
	kind    event.Kind // that it was posted with
	matched bool
	fence   *window // of a fence
	epoch   uint64
}

// has says whether all sendings of such messages are in what is checked.
func (c *Checker) has(m replay.Message) bool {
	return m.Process >= 0 || c.opt.Has != nil && c.opt.Has(m.From)
}

// pending lists requests that are not done.
func (c *Checker) pending() (l []error) {
	ids := slices.SortedFunc(maps.Keys(c.requests), func(a, b key) int { return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.id, b.id)) })
	for _, id := range ids {
		l = append(l, fmt.Errorf("request %d%s is never complete", id.id, of(id.process)))
	}
	return l
}

type slotState uint8

const (
	free slotState = iota
	held
	parked
)

func (s slotState) String() string { return [...]string{"free", "held", "parked"}[s] }

type slotKey struct {
	process int
	place   event.Location
}

// slot is what is known of a slot.
type slot struct {
	state slotState
	cur   *task // what runs on it, the innermost
}

// taskState is where a task is in its life.
type taskState uint8

const (
	unready taskState = iota
	ready
	prepared
	running
	blocked
	ended
	over
)

func (s taskState) String() string {
	return [...]string{"waiting", "ready", "prepared", "running", "blocked", "ended", "over"}[s]
}

// task is what is known of a task.
type task struct {
	id       key
	spec     uint32
	state    taskState
	parent   *task
	main     *task // of its run
	loop     bool  // part of a recorded loop: it counts as a child from ready to over
	children int   // that are not over
	holds    int   // events bound and not ended
	outer    *task
	woken    bool // unblocked has come, blocked or resumed not yet
}

// illegal says why an event is not legal for t.
func (t *task) illegal(format string, args ...any) error {
	return fmt.Errorf("task %d is %v: %s", t.id.id, t.state, fmt.Sprintf(format, args...))
}

// task returns what is known of a task; nil if nothing is.
func (c *Checker) task(id key) *task {
	if t := c.tasks[id]; t != nil {
		return t
	}
	if c.gone[key{id.process, id.id >> 6}]>>(id.id&63)&1 != 0 {
		return &task{id: id, state: over}
	}
	return nil
}

type windowKey struct {
	process int
	place   event.Location
	id      uint32
}

// window is what is known of a rank's part of a window.
type window struct {
	called, closed uint64 // fences: called, and complete
	durable        uint64 // the last epoch that was said to be
	// epochs that are not closed: whether operations are legal in them
	open           map[uint64]bool
	pending        map[uint32]uint64 // the epochs of operations that are not done
	freed, removed bool
	last           bool // the fence of Free has been called
}

func (c *Checker) requestEvent(e *replay.Event) error {
	id := key{e.Process, e.A}
	r := c.requests[id]
	switch e.Kind() {
	case event.SendPosted, event.RecvPosted, event.CollectiveBegun, event.EpochClosing:
		if r != nil && e.A != 0 {
			return fmt.Errorf("request %d is pending: a number is given once", e.A)
		}
		if e.Kind() == event.SendPosted {
			c.under[replay.MessageOf(e)]++
		}
		if e.A == 0 {
			return nil // a blocking call that nobody can name
		}
		c.requests[id] = &request{kind: e.Kind()}
	case event.Matched:
		m := replay.MessageOf(e)
		switch {
		case c.under[m] == 0 && c.has(m):
			return fmt.Errorf("rank %d has sent rank %d no such message: all with tag %d of communicator %d are matched", m.From, m.To, m.Tag, m.Comm)
		case e.A == 0:
		case r == nil:
			return fmt.Errorf("%w: request %d is not pending", errUnknown, e.A)
		case r.kind != event.RecvPosted:
			return fmt.Errorf("request %d is not a receive", e.A)
		case r.matched:
			return fmt.Errorf("request %d has matched a message before", e.A)
		default:
			r.matched = true
		}
		if c.under[m]--; c.under[m] <= 0 {
			delete(c.under, m)
		}
	case event.RequestDone:
		if r == nil {
			return fmt.Errorf("%w: request %d is not pending", errUnknown, e.A)
		}
		if r.kind == event.RecvPosted && !r.matched && e.B&event.EndedFailed == 0 {
			return fmt.Errorf("request %d has not matched a message", e.A)
		}
		if r.fence != nil && r.fence.closed < r.epoch {
			return fmt.Errorf("request %d is a fence, and epoch %d is not closed", e.A, r.epoch)
		}
		delete(c.requests, id)
	case event.Bound:
		t := c.task(key{e.Process, e.B})
		if t == nil {
			return fmt.Errorf("%w: task %d", errUnknown, e.B)
		}
		if t.state != running && t.state != prepared && t.holds == 0 {
			return t.illegal("only a body, or OnReady, binds a request")
		}
	}
	return nil
}
