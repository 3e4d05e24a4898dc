// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"time"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// Wants returns the kinds of events that a collector needs if it keeps graph tasks for the graph.
func Wants(graph int) event.Set {
	w := event.Of(event.Lost, event.Spawned, event.Again, event.Ready, event.Started, event.Skipped, event.Ended, event.Released, event.Completed,
		event.Blocked, event.Unblocked, event.Resumed, event.Parked, event.Unparked,
		event.SendPosted, event.RecvPosted, event.RequestDone, event.CollectiveBegun, event.EpochClosing, event.Bound, event.RunOfRank)
	if graph > 0 {
		w |= event.Of(event.Access, event.Matched)
	}
	return w
}

// New returns a collector that keeps the first graph tasks for the graph. Begin must be called
// before its first event.
func New(graph int) *Collector {
	return &Collector{
		live: map[uint64]*live{}, loops: map[uint64]*recorded{}, early: map[uint64]uint64{}, kinds: map[uint32]*Kind{}, slots: map[slotKey]*slot{},
		requests: map[uint64]request{}, ranks: map[uint64]int{}, releasePending: map[uint64]int64{},
		graph: kept{
			max: graph, byID: map[uint64]*live{}, senders: map[uint64]uint64{}, sends: map[replay.Message][]uint64{}, recvs: map[replay.Message][]uint64{},
		},
	}
}

// Begin implements event.Sink. r is the recording whose sink the collector is.
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

// seconds returns the time since the beginning.
func (c *Collector) seconds(ticks int64) float64 {
	return time.Duration(c.rec.Clock().Span(ticks - c.begun)).Seconds()
}

// task returns the state of a task, which is empty at the task's first event. It returns nil if
// there are maxLive tasks already. +checklocks:c.mu
func (c *Collector) task(id uint64) *live {
	for _, t := range &c.recent {
		if t != nil && t.id == id {
			return t
		}
	}
	t := c.live[id]
	if t == nil {
		switch {
		case len(c.live) >= maxLive:
			c.uncounted++
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
	c.recent[c.nextRecent&3] = t
	c.nextRecent++
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
	if r.A == 0 { // a task that is not recorded
		return
	}
	if kind == event.Released && len(c.releasePending) > 0 {
		if _, ok := c.releasePending[r.A]; ok {
			delete(c.releasePending, r.A)
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
			c.addRecorded(t)
		}
		if t.flags&event.SpawnedReady != 0 {
			t.seen |= sawReady
			t.ready = when
		}
	case event.Again:
		t.spawned, t.round = when, r.C
		c.linkRound(r.B, t)
	case event.Ready: // twice if the task's OnReady has bound events
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
			c.resumeBeneath(t)
		}
		if at != nil {
			t.first = at
			at.begin(t, when)
		}
		if t.moved {
			c.markMoved(c.live[t.outer])
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
		c.resumeBeneath(t)
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
		c.markMoved(t)
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

// markMoved marks t, and all bodies beneath t, as bodies whose goroutine may move to another slot.
// If a body is marked, those that are known to be beneath it are marked, too. +checklocks:c.mu
func (c *Collector) markMoved(t *live) {
	for ; t != nil && !t.moved; t = c.live[t.outer] {
		t.moved = true
	}
}

// settle counts t if all its events have certainly arrived, and reports whether they have.
// +checklocks:c.mu
func (c *Collector) settle(t *live) bool {
	certain := !t.moved && t.first == t.last && t.settled()
	if certain {
		c.done(t)
	}
	return certain
}

// lateLimit is how long after the end of its task an event may arrive, in ticks (some seconds). A
// writer may be delayed between reading the clock and writing the record, and publishes its last
// records late.
const lateLimit = 10e9

// endingsLocked handles the tasks that have ended before all sources were read, and are not
// counted. The end of a task's last event is not recorded if it coincides with the return of the
// body. So a task that lacks only this event is counted; if the event arrives later, it is skipped.
// The collector waits for other missing events until lateLimit, and then drops the task: they were
// lost. +checklocks:c.mu
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
			c.releasePending[e.task] = e.at
			continue
		}
		t.seen = before
		if m-e.at < lateLimit && !last {
			left = append(left, e)
			continue
		}
		if t.seen&sawSpawned != 0 || !c.rec.Samples() {
			// otherwise the task was recorded only because it ran on top of another one
			c.incomplete++
		}
		c.forget(t)
	}
	c.ending = left
	for task, at := range c.releasePending {
		if m-at > lateLimit {
			delete(c.releasePending, task)
		}
	}
}

// access adds an access for the graph. It arrives after the task's Spawned, at which the collector
// may have found that the task is over.
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

// resumeBeneath ends the interruption of the body beneath t, once both ends of t's body are known.
func (c *Collector) resumeBeneath(t *live) {
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

// kind returns the statistics of the tasks of an origin. +checklocks:c.mu
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
			c.rec.Thin() // sampling may begin: the graph has its tasks
		}
		c.drop(t)
		return
	}
	c.forget(t)
}

// drop removes t from the live tasks. +checklocks:c.mu
func (c *Collector) drop(t *live) {
	delete(c.live, t.id)
	for i := range c.recent {
		if c.recent[i] == t {
			c.recent[i] = nil
		}
	}
}

// forget drops t, and keeps its memory for another task. +checklocks:c.mu
func (c *Collector) forget(t *live) {
	c.drop(t)
	*t = live{marks: t.marks[:0], accesses: t.accesses[:0]}
	if len(c.free) < 1<<12 {
		c.free = append(c.free, t)
	}
}

// notesLocked returns a sentence for each thing that is missing. +checklocks:c.mu
func (c *Collector) notesLocked() (notes []string) {
	if n := c.rec.Sample(); n > 1 {
		notes = append(notes, fmt.Sprintf("One task in %d was observed, chosen at random: numbers of tasks are exact, times are those of the observed tasks, multiplied.", n))
	} else if n, all := c.leftOut(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d tasks were observed, chosen at random because spawns were frequent: numbers of tasks are exact, times are those of the observed tasks, multiplied.", all-n, all))
	}
	if c.lost > 0 {
		notes = append(notes, fmt.Sprintf("%d events were lost because their rings were full: their tasks are missing, or seem to be live for ever.", c.lost))
	}
	if c.incomplete > 0 {
		notes = append(notes, fmt.Sprintf("%d tasks are not counted because some of their events are missing.", c.incomplete))
	}
	if c.uncounted > 0 {
		notes = append(notes, fmt.Sprintf("More than %d tasks were live: %d events of further tasks are not counted.", maxLive, c.uncounted))
	}
	if n := c.rec.Names().Unstacked(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d times there was no room for the new stack of a spawn: its tasks have no stack.", n))
	}
	return notes
}

// Idle implements event.Sink.
func (c *Collector) Idle() error { return nil }

// A recorded loop runs its tasks in several rounds. In each round, each of them is a task with a
// new number. The Again of a task names the same task of the previous round, which has a Spawned or
// an Again. The two events have different sources if different slots made them, so they arrive in
// any order.

// addRecorded marks t, which has been spawned, as part of a loop. +checklocks:c.mu
func (c *Collector) addRecorded(t *live) {
	t.loop = &recorded{spec: t.spec, parent: t.parent, flags: t.flags &^ event.SpawnedReady, spawned: t.spawned, accesses: t.accesses}
	t.accesses = nil
	c.addRound(t)
}

// addRound adds t, whose origin is known, to its loop. The task of the next round may arrive later,
// or has arrived. +checklocks:c.mu
func (c *Collector) addRound(t *live) {
	for {
		o := t.loop
		next, ok := c.early[t.id]
		if !ok {
			c.loops[t.id] = o
			return
		}
		delete(c.early, t.id)
		if t = c.live[next]; t == nil { // dropped as incomplete
			return
		}
		c.setOrigin(t, o)
		defer c.settle(t)
	}
}

// linkRound makes t the next round of the task with number old. +checklocks:c.mu
func (c *Collector) linkRound(old uint64, t *live) {
	o, ok := c.loops[old]
	if !ok {
		if len(c.early) < maxLive { // it is full only if events were lost
			c.early[old] = t.id
		}
		return
	}
	delete(c.loops, old)
	c.setOrigin(t, o)
	c.addRound(t)
}

// setOrigin gives t the origin of its loop's task. +checklocks:c.mu
func (c *Collector) setOrigin(t *live, o *recorded) {
	t.seen |= sawSpawned
	t.loop, t.spec, t.parent, t.flags = o, o.spec, o.parent, o.flags
	t.weight = 1
	k := c.kind(t.spec)
	k.recorded++
	k.begun++
}
