// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/replay"
)

// New returns a checker.
func New(o Options) *Checker {
	o.Slack = cmp.Or(o.Slack, Slack)
	o.Most = cmp.Or(o.Most, 20)
	if o.Name == nil {
		o.Name = func(_ int, spec uint32) string { return fmt.Sprintf("origin %d", spec) }
	}
	return &Checker{opt: o, tasks: map[key]*task{}, gone: map[key]uint64{}, failed: map[key]bool{}, slots: map[slotKey]*slot{}, requests: map[key]*request{}, inFlight: map[replay.Message]int{}, windows: map[windowKey]*window{}}
}

// Event checks the next record.
func (c *Checker) Event(e *replay.Event) {
	if c.seen++; c.seen == 1 {
		c.start = e.Time
	}
	c.expire(e.Time)
	if c.mustWait(e, len(c.deferred)) {
		c.deferred = append(c.deferred, waiting{*e, nil})
		return
	}
	if why := c.step(e); why != nil {
		c.deferred = append(c.deferred, waiting{*e, why})
		return
	}
	c.retry()
}

// mustWait reports whether a record of e's source is among the first n deferred ones. Then e must
// wait, too, since the order within a source is certain.
func (c *Checker) mustWait(e *replay.Event, n int) bool {
	return slices.ContainsFunc(c.deferred[:n], func(w waiting) bool { return w.e.Process == e.Process && w.e.Source.ID == e.Source.ID })
}

// retry applies the deferred records that have become legal.
func (c *Checker) retry() {
	for i := 0; i < len(c.deferred); i++ {
		w := &c.deferred[i]
		if c.mustWait(&w.e, i) {
			continue
		}
		if w.why = c.step(&w.e); w.why == nil {
			c.deferred = slices.Delete(c.deferred, i, i+1)
			i = -1
		}
	}
}

// expire reports the records that have been deferred for longer than Slack.
func (c *Checker) expire(now int64) {
	for len(c.deferred) > 0 && now-c.deferred[0].e.Time > int64(c.opt.Slack) {
		w := c.deferred[0]
		c.deferred = c.deferred[1:]
		c.find(&w.e, w.why)
		c.retry()
	}
}

// find reports a record as a finding.
func (c *Checker) find(e *replay.Event, why error) {
	what := event.Sentence(&e.Record, func(spec uint32) string { return c.opt.Name(e.Process, spec) })
	c.keep(fmt.Errorf("at %v, %s %d%s: %s: %w", time.Duration(e.Time-c.start), e.Source.Location.Kind, e.Source.Location.Index,
		of(e.Process), what, why))
}

// keep stores a finding, unless there are Most already.
func (c *Checker) keep(found error) {
	if len(c.found) >= c.opt.Most {
		c.more++
		return
	}
	c.found = append(c.found, found)
}

// The kinds of trace events by their groups in the table.
var (
	tasks    = event.Spawned.Group()
	slots    = event.SlotTaken.Group()
	messages = event.SendPosted.Group()
	windows  = event.Put.Group()
)

// step applies a record if it is legal. Otherwise it changes nothing and returns the reason.
func (c *Checker) step(e *replay.Event) error {
	switch k := e.Kind(); {
	case k == event.Lost:
		c.opt.Partial = true
		return nil
	case c.opt.Partial:
		return c.partially(e)
	case tasks.Has(k):
		return c.taskEvent(e)
	case slots.Has(k):
		return c.slotEvent(e)
	case messages.Has(k):
		return c.requestEvent(e)
	case windows.Has(k):
		return c.windowEvent(e)
	}
	return nil
}

// partially is step for a recording with losses: nothing may happen to a task that is complete, and
// a number is given to one task only.
func (c *Checker) partially(e *replay.Event) error {
	if !tasks.Has(e.Kind()) || e.Kind() == event.RunFailed {
		return nil
	}
	id := key{e.Process, e.A}
	t := c.task(id)
	switch {
	case t != nil && t.state == over:
		return t.illegal("nothing may follow")
	case t != nil && (e.Kind() == event.Spawned || e.Kind() == event.Again):
		return t.illegal("the number is in use or was used before")
	case e.Kind() == event.Completed, e.Kind() == event.Refused, e.Kind() == event.Ended && e.C&event.EndedCompleted != 0:
		c.forget(id)
	case t == nil:
		c.tasks[id] = &task{id: id}
	}
	return nil
}

// End reports the deferred records and everything unfinished. It must follow the last record.
func (c *Checker) End() {
	c.expire(math.MaxInt64)
	if c.opt.Partial {
		return
	}
	for _, why := range c.unfinished() {
		c.keep(fmt.Errorf("at the end: %w", why))
	}
}

// Err returns the findings, joined; nil if there are none.
func (c *Checker) Err() error {
	err := errors.Join(c.found...)
	if c.more > 0 {
		err = errors.Join(err, fmt.Errorf("and %d more", c.more))
	}
	return err
}

// Sink returns a sink that checks a recording while it is made; its recorder's Close returns the
// findings. If records were lost, it returns none: the lost records may have caused a
// contradiction.
func Sink(o Options) *replay.Sink {
	c := New(o)
	return &replay.Sink{Out: c.Event, Over: func() error {
		if c.End(); c.opt.Partial {
			return nil
		}
		return c.Err()
	}}
}

// Files checks the recordings of one run. It returns the number of records, whether some are known
// to be missing, and the findings or the error of a file. If a cut file gives findings, the check
// is repeated up to the last certain time: after that time, records of some sources are in the file
// and those of others are not.
func Files(o Options, names ...string) (seen int, partial bool, err error) {
	until := int64(math.MaxInt64)
	for {
		c, certain, err := files(o, until, names)
		switch cut := errors.Is(err, journal.ErrCut); {
		case c == nil:
			return 0, o.Partial, err
		case err != nil && !cut:
			return c.seen, o.Partial, errors.Join(c.Err(), err)
		case c.opt.Partial && !o.Partial:
			// once more from the beginning: missing records may have caused the findings
			o.Partial = true
		case cut && c.Err() != nil && certain < until:
			until = certain
		case cut && c.Err() == nil:
			return c.seen, o.Partial, fmt.Errorf("%w; the %d trace events before the cut are legal", err, c.seen)
		default:
			return c.seen, o.Partial, errors.Join(c.Err(), err)
		}
	}
}

// files checks the recordings once, up to the time until. c is nil if they cannot be opened. The
// error is that of a file; with journal.ErrCut, certain is the time up to which no record is
// missing.
func files(o Options, until int64, names []string) (c *Checker, certain int64, err error) {
	set, err := replay.Open(names...)
	if err != nil {
		return nil, 0, err
	}
	defer set.Close()
	if o.Name == nil {
		o.Name = set.Name
	}
	if uncertainty, ok := set.Uncertainty(); ok {
		o.Slack = cmp.Or(o.Slack, Slack+2*uncertainty)
		there := map[int]bool{}
		for i := range set.Processes() {
			there[set.Head(i).Rank] = true
		}
		o.Has = func(rank int) bool { return there[rank] }
	}
	c = New(o)
	defer func() { c.opt.Partial = c.opt.Partial || set.Lost() > 0 }()
	for e, err := range set.Events() {
		if err != nil {
			c.expire(until)
			return c, set.Certain(), err
		}
		if e.Time <= until {
			c.Event(e)
		}
	}
	c.End()
	return c, 0, nil
}
