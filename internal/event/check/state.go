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

// Slack is by how much the times of records of different sources may contradict their order. (The
// clocks of the processors of one machine differ by less than a microsecond.)
const Slack = 20 * time.Microsecond

// Options configure a checker. The zero value is valid.
type Options struct {
	// Slack replaces the constant if it is not zero: clocks of several machines differ by more.
	Slack time.Duration
	// Partial says that records are missing, so that references to unknown tasks are legal.
	Partial bool
	// Name describes an origin of tasks in findings; nil for no names.
	Name func(process int, spec uint32) string
	// Has reports whether the recording of a rank of the job is checked, too; nil: not known. Only
	// if it is, a matched message that the rank has not sent is a finding. For ranks within one
	// process, messages are always checked.
	Has func(rank int) bool
	// Most is the largest number of findings that are kept. 0 means 20.
	Most int
}

// A Checker holds the states of all tasks, slots, requests and windows.
type Checker struct {
	opt      Options
	tasks    map[key]*task
	gone     map[key]uint64 // numbers of tasks that are over: 64 bits to a word
	failed   map[key]bool   // runs that have failed, by main task
	slots    map[slotKey]*slot
	requests map[key]*request
	inFlight map[replay.Message]int // number of messages that were sent and not matched
	windows  map[windowKey]*window
	// records that are illegal unless another record comes within Slack; oldest first
	deferred []waiting
	start    int64 // time of the first event
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

// errUnknown is the reason if a record refers to something without an earlier record.
var errUnknown = errors.New("not recorded before")

// request is the state of a request that is not done.
type request struct {
	kind    event.Kind // the kind of the record that posted it
	matched bool
	fence   *window // if it is a fence
	epoch   uint64
}

// has reports whether the recording of the sender of m is checked.
func (c *Checker) has(m replay.Message) bool {
	return m.Process >= 0 || c.opt.Has != nil && c.opt.Has(m.From)
}

// pending lists the requests that are not done.
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
	process  int
	location event.Location
}

// slot is the state of a slot.
type slot struct {
	state slotState
	cur   *task // the innermost task on its stack
}

// taskState is the state of a task: see doc.go.
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

// task is the state of a task.
type task struct {
	id       key
	spec     uint32
	state    taskState
	parent   *task
	main     *task // the main task of its run
	loop     bool  // part of a recorded loop: it counts as a child from ready to over
	children int   // children that are not over
	holds    int   // events bound and not ended
	outer    *task
	woken    bool // unblocked was recorded, and blocked or resumed not yet
}

// illegal returns the reason why a record is not legal for t.
func (t *task) illegal(format string, args ...any) error {
	return fmt.Errorf("task %d is %v: %s", t.id.id, t.state, fmt.Sprintf(format, args...))
}

// task returns the state of a task; nil if it is unknown.
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
	process  int
	location event.Location
	id       uint32
}

// window is the state of a window at one rank.
type window struct {
	called, closed uint64 // number of fences that were called, and of those that are complete
	durable        uint64 // the last durable epoch
	// for each epoch that is not closed: whether operations are legal in it
	open           map[uint64]bool
	pending        map[uint32]uint64 // the epoch of each operation that is not done
	freed, removed bool
	last           bool // the fence of Free has been called
}

func (c *Checker) requestEvent(e *replay.Event) error {
	id := key{e.Process, e.A}
	r := c.requests[id]
	switch e.Kind() {
	case event.SendPosted, event.RecvPosted, event.CollectiveBegun, event.EpochClosing:
		if r != nil && e.A != 0 {
			return fmt.Errorf("request %d is pending: the number is in use", e.A)
		}
		if e.Kind() == event.SendPosted {
			c.inFlight[replay.MessageOf(e)]++
		}
		if e.A == 0 {
			return nil // a blocking call, to which no record refers
		}
		c.requests[id] = &request{kind: e.Kind()}
	case event.Matched:
		m := replay.MessageOf(e)
		switch {
		case c.inFlight[m] == 0 && c.has(m):
			return fmt.Errorf("rank %d has not sent rank %d this message: all messages with tag %d of communicator %d are matched", m.From, m.To, m.Tag, m.Comm)
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
		if c.inFlight[m]--; c.inFlight[m] <= 0 {
			delete(c.inFlight, m)
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
