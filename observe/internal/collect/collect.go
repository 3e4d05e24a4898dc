// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package collect makes tasks out of events: it is a sink of a recording that keeps, of the tasks
// that are not over, what is known of each, and of those that are, statistics by kind of task; and,
// if that is wanted, every one of some first tasks, for the graph.
//
// # Order
//
// Events of one source come in their order, those of different sources do not. A task's events may
// be of several sources, so a task is put together of them in whatever order they come: see live.
// It is over for the collector when all its events have come, not when the last of its life has.
// Sorting would do as well, but costs more than all the rest. All have come, at the latest, when
// all sources have been asked after the last of its life has come: with the second Flush after it.
//
// # Memory
//
// Bounded: so many tasks for the graph as New is told, and mostLive tasks that are not over. What
// is beyond these is left out, and Notes say so. Kinds of tasks (label and place) take some KiB
// each.
//
// # Locks
//
// Collector.mu guards everything; the reader of the recording holds it while it hands events over,
// and whoever asks, while it copies. Tasks never wait for it.
package collect

import (
	"fmt"
	"time"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// Wants are the kinds of events that a collector needs that keeps so many tasks for the graph.
func Wants(graph int) event.Set {
	w := event.Of(event.Lost, event.Spawned, event.Again, event.Ready, event.Started, event.Skipped, event.Ended, event.Released, event.Completed,
		event.Blocked, event.Unblocked, event.Resumed, event.Parked, event.Unparked,
		event.SendPosted, event.RecvPosted, event.RequestDone, event.CollectiveBegun, event.EpochClosing, event.Bound, event.RunOfRank)
	if graph > 0 {
		w |= event.Of(event.Access, event.Matched)
	}
	return w
}

// New returns a collector that keeps so many tasks for the graph: the first ones. Begin comes
// before its first event.
func New(graph int) *Collector {
	return &Collector{
		live: map[uint64]*live{}, loops: map[uint64]*recorded{}, early: map[uint64]uint64{}, kinds: map[uint32]*Kind{}, slots: map[place]*slot{},
		requests: map[uint64]request{}, ranks: map[uint64]int{}, passed: map[uint64]int64{},
		graph: kept{
			most: graph, byID: map[uint64]*live{}, senders: map[uint64]uint64{}, sends: map[replay.Message][]uint64{}, recvs: map[replay.Message][]uint64{},
		},
	}
}

// Begin implements event.Sink: it says which recording the collector is a sink of.
func (c *Collector) Begin(r *event.Recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rec, c.begun = r, event.Ticks()
	c.end = c.begun
}

// Events implements event.Sink.
func (c *Collector) Events(s *event.Source, records []event.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at *slot
	if s.Location.Kind == event.SlotLocation {
		at = c.slot(s.Location)
	}
	for i := range records {
		c.eventLocked(s, at, &records[i])
	}
}

// Flush implements event.Sink.
func (c *Collector) Flush(m event.Moment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endingsLocked(m.Ticks, false)
	c.flushes++
	c.end = m.Ticks
	c.rate.add(c.seconds(m.Ticks), c.over)
	for _, s := range c.slots {
		s.flush(m.Ticks)
	}
	return nil
}

// Close implements event.Sink.
func (c *Collector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.endingsLocked(c.end, true)
	return nil
}

// seconds since the beginning.
func (c *Collector) seconds(ticks int64) float64 {
	return time.Duration(c.rec.Clock().Span(ticks - c.begun)).Seconds()
}

// task returns what is known of a task, which is nothing if this is its first event. It is nil if
// there is no room. +checklocks:c.mu
func (c *Collector) task(id uint64) *live {
	for _, t := range &c.recent {
		if t != nil && t.id == id {
			return t
		}
	}
	t := c.live[id]
	if t == nil {
		switch {
		case len(c.live) >= mostLive:
			c.crowded++
			return nil
		case len(c.free) > 0:
			t = c.free[len(c.free)-1]
			c.free = c.free[:len(c.free)-1]
		default:
			t = new(live)
		}
		t.id = id
		c.live[id] = t
	}
	c.recent[c.turn&3] = t
	c.turn++
	return t
}

// +checklocks:c.mu
func (c *Collector) eventLocked(s *event.Source, at *slot, r *event.Record) {
	when, kind := r.Ticks(), r.Kind()
	switch kind {
	case event.Lost:
		c.lost += r.A
		return
	case event.Parked, event.Unparked:
		if at != nil {
			at.parked = kind == event.Parked
		}
		return
	case event.SendPosted, event.RecvPosted, event.CollectiveBegun, event.EpochClosing:
		c.requests[r.A] = request{kind, r.B, r.C}
		c.graph.message(s, r)
		return
	case event.Matched:
		c.graph.message(s, r)
		return
	case event.RequestDone:
		delete(c.requests, r.A)
		return
	case event.RunOfRank:
		c.ranks[r.A] = int(int32(uint32(r.B)))
		return
	case event.Bound:
		c.graph.bound(r.A, r.B)
		if t := c.live[r.B]; t != nil {
			t.request = r.A
		}
		return
	case event.Access:
		c.access(r)
		return
	case event.Spawned, event.Again, event.Ready, event.Started, event.Skipped, event.Ended, event.Released, event.Completed, event.Blocked, event.Unblocked, event.Resumed:
	default:
		return
	}
	if r.A == 0 { // one that is not recorded
		return
	}
	if kind == event.Released && len(c.passed) > 0 {
		if _, ok := c.passed[r.A]; ok {
			delete(c.passed, r.A)
			return
		}
	}
	t := c.task(r.A)
	if t == nil {
		return
	}
	t.changed = max(t.changed, when)
	switch kind {
	case event.Spawned:
		t.seen |= sawSpawned
		t.spawned, t.parent, t.spec, t.flags = when, r.B, uint32(r.C), uint8(r.C>>48)
		t.weight = 1 << (r.C >> event.SpawnedSampled)
		if t.flags&(event.SpawnedMain|event.SpawnedLoop) == 0 {
			t.weight *= int64(c.rec.Sample())
		}
		k := c.kind(t.spec)
		k.recorded++
		k.begun += t.weight
		if t.flags&event.SpawnedLoop != 0 {
			c.records(t)
		}
		if t.flags&event.SpawnedReady != 0 {
			t.seen |= sawReady
			t.ready = when
		}
	case event.Again:
		t.spawned, t.round = when, r.C
		c.again(r.B, t)
	case event.Ready: // twice, if the task has an OnReady that has bound events
		t.seen |= sawReady
		t.ready, t.by = max(t.ready, when), r.B
	case event.Started, event.Skipped:
		t.seen |= sawStarted
		t.skipped = kind == event.Skipped
		t.started, t.outer = when, r.B
		t.run -= when
		t.running++
		if t.outer != 0 {
			if o := c.task(t.outer); o != nil {
				o.run += when
				o.running--
				o.inner++
				c.mark(o, when, leaves)
			}
			c.offTop(t)
		}
		if at != nil {
			t.first = at
			at.begin(t, when)
		}
		if t.moved {
			c.moves(c.live[t.outer])
		}
	case event.Ended:
		t.seen |= sawEnded
		t.ended = when
		t.run += when
		t.running--
		t.failed = r.C&event.EndedFailed != 0
		t.last = at
		if r.B == 0 {
			t.seen |= sawReleased
		}
		if r.C&event.EndedCompleted != 0 {
			t.seen |= sawOver
		}
		c.offTop(t)
		if at != nil {
			at.endOf(when)
			if o := c.live[t.outer]; o != nil {
				at.begin(o, when)
			}
		}
	case event.Released:
		t.seen |= sawReleased
		t.released = when
	case event.Completed:
		t.seen |= sawOver
	case event.Blocked:
		t.run += when
		t.blocked -= when
		t.running--
		t.stops++
		c.moves(t)
		t.reason = uint8(r.B)
		if t.reason == event.BlockedWait {
			c.mark(t, when, waits)
		} else {
			c.mark(t, when, acts)
			c.mark(t, when, leaves)
		}
		if at != nil {
			at.endOf(when)
		}
	case event.Unblocked:
		t.blocked += when
		t.queued -= when
		t.goes++
	case event.Resumed:
		t.queued += when
		t.run -= when
		t.running++
		t.returns++
		c.mark(t, when, returns)
		if at != nil {
			at.begin(t, when)
		}
	}
	if !c.settle(t) && (kind == event.Completed || kind == event.Ended && t.seen&sawOver != 0) {
		c.ending = append(c.ending, ending{t.id, when, c.flushes})
	}
}

// moves notes that the goroutine of t may go to another slot, with all bodies beneath t. Where one
// has been noted, so have those that are known to be beneath it. +checklocks:c.mu
func (c *Collector) moves(t *live) {
	for ; t != nil && !t.moved; t = c.live[t.outer] {
		t.moved = true
	}
}

// settle counts t, if it is certain that all its events have come, and reports whether it is.
// +checklocks:c.mu
func (c *Collector) settle(t *live) bool {
	certain := !t.moved && t.first == t.last && t.settled()
	if certain {
		c.done(t)
	}
	return certain
}

// patience is how long an event may come after the end of its task, in ticks (some seconds). A
// writer may be held up between the look at the clock and the record, and keeps its last records to
// itself for a while.
const patience = 10e9

// endingsLocked looks at the tasks whose lives had ended when all sources were asked, and that are
// not counted all the same. The end of the last event is not recorded if it came at the very moment
// in which the body returned; should it come after all, it is passed over. What else is missing is
// waited for, and then given up: it was lost. +checklocks:c.mu
func (c *Collector) endingsLocked(m int64, last bool) {
	left := c.ending[:0]
	for _, e := range c.ending {
		t := c.live[e.task]
		if t == nil || t.seen&sawOver == 0 {
			continue
		}
		if e.flushes == c.flushes && !last {
			left = append(left, e)
			continue
		}
		if t.settled() {
			c.done(t)
			continue
		}
		before := t.seen
		if t.seen |= sawReleased; t.settled() {
			c.done(t)
			c.passed[e.task] = e.at
			continue
		}
		t.seen = before
		if m-e.at < patience && !last {
			left = append(left, e)
			continue
		}
		if t.seen&sawSpawned != 0 || !c.rec.Samples() {
			// else it was only recorded because it ran on top of another
			c.broken++
		}
		c.forget(t)
	}
	c.ending = left
	for task, at := range c.passed {
		if m-at > patience {
			delete(c.passed, task)
		}
	}
}

// access notes one for the graph. It follows the task's Spawned, at which the task may be found to
// be over already.
func (c *Collector) access(r *event.Record) {
	t := c.live[r.A]
	if t == nil {
		t = c.graph.byID[r.A]
	}
	if t == nil {
		return
	}
	to := t.declared()
	*to = append(*to, access{uintptr(r.B & (1<<48 - 1)), uintptr(r.C), uint8(r.B >> 48), r.B>>56&1 != 0, r.B>>56&2 != 0})
}

// offTop lets the body beneath t go on, once both ends of t's body are known.
func (c *Collector) offTop(t *live) {
	if t.outer == 0 || t.seen&(sawStarted|sawEnded) != sawStarted|sawEnded {
		return
	}
	o := c.task(t.outer)
	if o == nil {
		return
	}
	o.run -= t.ended
	o.running++
	o.inner--
	what := endsOnTop
	if t.flags&event.SpawnedUndeferred != 0 {
		what = returns
	}
	c.mark(o, t.ended, what)
	c.settle(o)
}

// kind is what is known of the tasks of an origin. +checklocks:c.mu
func (c *Collector) kind(spec uint32) *Kind {
	k := c.kinds[spec]
	if k == nil {
		k = new(Kind)
		c.kinds[spec] = k
	}
	return k
}

// done counts a task that is over, and forgets it. +checklocks:c.mu
func (c *Collector) done(t *live) {
	k := c.kind(t.spec)
	x := t.times()
	w := uint64(t.weight)
	k.Deps.Add(int64(x.Deps), w)
	if t.skipped {
		k.Skipped += t.weight
	} else {
		k.Ready.Add(int64(x.Ready), w)
		k.Run.Add(int64(x.Run), w)
		if t.stops > 0 {
			k.Blocked.Add(int64(x.Blocked), w)
		}
		if t.released != 0 {
			k.Bound.Add(int64(x.Comm), w)
		}
	}
	if t.failed {
		k.Failed += t.weight
	}
	c.over += t.weight
	k.Sum.AddMany(&x, t.weight)
	if c.graph.keep(t, x) {
		if !c.graph.hasRoom() {
			c.rec.Thin() // nobody needs them all any more
		}
		c.drop(t)
		return
	}
	c.forget(t)
}

// drop takes t off the live tasks. +checklocks:c.mu
func (c *Collector) drop(t *live) {
	delete(c.live, t.id)
	for i := range c.recent {
		if c.recent[i] == t {
			c.recent[i] = nil
		}
	}
}

// forget is drop, and lets t's memory serve another task. +checklocks:c.mu
func (c *Collector) forget(t *live) {
	c.drop(t)
	*t = live{marks: t.marks[:0], accesses: t.accesses[:0]}
	if len(c.free) < 1<<12 {
		c.free = append(c.free, t)
	}
}

// notesLocked says what is missing. +checklocks:c.mu
func (c *Collector) notesLocked() (notes []string) {
	if n := c.rec.Sample(); n > 1 {
		notes = append(notes, fmt.Sprintf("One task in %d was looked at, by chance: numbers of tasks are exact, times are of these, multiplied.", n))
	} else if n, all := c.leftOut(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d tasks, which came quickly, were looked at, by chance: numbers of tasks are exact, times are of these, multiplied.", all-n, all))
	}
	if c.lost > 0 {
		notes = append(notes, fmt.Sprintf("%d events were lost, since the ring for them was full: their tasks are missing, or stay for ever.", c.lost))
	}
	if c.broken > 0 {
		notes = append(notes, fmt.Sprintf("%d tasks are not counted, since some of their events are missing.", c.broken))
	}
	if c.crowded > 0 {
		notes = append(notes, fmt.Sprintf("More than %d tasks were live: %d events of further ones are not counted.", mostLive, c.crowded))
	}
	if n := c.rec.Names().Unstacked(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d times a spawn had a new stack, and there was no room for more: its tasks are without one.", n))
	}
	return notes
}

// Idle implements event.Sink.
func (c *Collector) Idle() error { return nil }

// A recorded loop runs its tasks again and again. Each time is a task of its own, with another
// number; its Again names the one before, which has either a Spawned or an Again. The two are of
// different sources, if another slot went on, and so they come in any order.

// records notes that t, which has been spawned, is part of a loop. +checklocks:c.mu
func (c *Collector) records(t *live) {
	t.loop = &recorded{spec: t.spec, parent: t.parent, flags: t.flags &^ event.SpawnedReady, spawned: t.spawned, accesses: t.accesses}
	t.accesses = nil
	c.repeats(t)
}

// repeats notes that t, of which all is known, is part of a loop: the next round may come, or have
// come. +checklocks:c.mu
func (c *Collector) repeats(t *live) {
	for {
		o := t.loop
		next, ok := c.early[t.id]
		if !ok {
			c.loops[t.id] = o
			return
		}
		delete(c.early, t.id)
		if t = c.live[next]; t == nil { // given up
			return
		}
		c.learn(t, o)
		defer c.settle(t)
	}
}

// again notes that t is what the task with number old has become. +checklocks:c.mu
func (c *Collector) again(old uint64, t *live) {
	o, ok := c.loops[old]
	if !ok {
		if len(c.early) < mostLive { // else events were lost
			c.early[old] = t.id
		}
		return
	}
	delete(c.loops, old)
	c.learn(t, o)
	c.repeats(t)
}

// learn notes where t comes from. +checklocks:c.mu
func (c *Collector) learn(t *live, o *recorded) {
	t.seen |= sawSpawned
	t.loop, t.spec, t.parent, t.flags = o, o.spec, o.parent, o.flags
	t.weight = 1
	k := c.kind(t.spec)
	k.recorded++
	k.begun++
}
