// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline makes of recorded events a timeline in the format of Chrome's trace viewer,
// which Perfetto reads, too.
//
//	err := timeline.Write(file, "run.weft")
//
// The runtimes and the ranks are processes of the timeline. Slots are threads: what a task does on
// a slot is a slice, one on top of another where a task runs in the wait of another; a parked slot
// has a slice that says so; a steal is a mark. The time in which a task has no slot is an
// asynchronous slice, and so is a request, from its beginning to its end. A window has a thread of
// its rank's, on which its epochs are slices, and what is durable is a mark; its operations are
// asynchronous slices. An arrow leads from the end of a task to the beginning of the one that it
// made ready, and from where a message was sent to where it was matched; in a collective, to where
// a rank is done, from where the last one begins that it had to wait for.
//
// The writer streams: it has what is open in memory, and nothing else. [Verify] checks a timeline
// against the rules of the format, as far as viewers depend on them; it is the oracle of the tests.
package timeline

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/replay"
)

// Write makes a timeline of the traces of one run. What a trace that is cut still has is written;
// the error says then that it is cut.
func Write(w io.Writer, names ...string) error {
	em := newEmitter(w)
	set, cut, err := walk(em, names)
	if err != nil {
		return err
	}
	other := map[string]any{"made by": "weft trace", "events lost": set.Lost(), "program": set.Head(0).Program}
	if c := set.Clocks(); c != nil {
		other["clocks"] = c
	}
	if r := set.Missing(); r != nil {
		other["ranks without a recording"] = r
	}
	if cut != nil {
		other["cut"] = cut.Error()
	}
	return cmp.Or(em.end(other), cut)
}

// walk puts the elements of the timeline of some traces. If one of them is cut, the second result
// says so.
func walk(em *emitter, names []string) (set *replay.Set, cut, err error) {
	if set, err = replay.Open(names...); err != nil {
		return nil, nil, err
	}
	defer set.Close() // what was read of it stays
	t := &writer{emitter: em, set: set, tracks: map[trackKey]*track{}, tasks: map[key]*task{}, requests: map[key]*request{},
		sent: map[replay.Message][]arrowEnd{}, matched: map[replay.Message][]arrowEnd{}, ranks: map[key]int{}, windows: map[windowKey]*window{}, collectives: map[collectiveKey]*collective{}, parts: map[key]collectivePart{}}
	for e, err := range set.Events() {
		if err != nil {
			if !errors.Is(err, journal.ErrCut) {
				return nil, nil, err
			}
			cut = err
			break
		}
		if t.start == 0 {
			t.start = e.Time
		}
		t.now = micros(e.Time - t.start)
		t.event(e)
	}
	t.closeOpen()
	return set, cut, nil
}

// event takes the next event.
func (t *writer) event(e *replay.Event) {
	switch k := e.Kind(); {
	case k == event.Lost:
		p := t.trackOf(e)
		t.put(&entry{Name: fmt.Sprintf("%d events lost", e.A), Cat: "recording", Phase: "i", Scope: "t", Time: t.now, Pid: p.pid, Tid: p.tid})
	case k == event.RunOfRank:
		t.ranks[key{e.Process, e.A}] = int(int32(uint32(e.B)))
	case k >= event.Spawned && k <= event.RunFailed, k == event.Refused:
		t.taskEvent(e)
	case k >= event.SlotTaken && k <= event.Unparked:
		t.slotEvent(e)
	default:
		t.messageEvent(e)
	}
}

func (t *writer) slotEvent(e *replay.Event) {
	p := t.trackOf(e)
	switch e.Kind() {
	case event.Parked:
		p.parked = t.now
	case event.Unparked:
		if p.parked >= 0 {
			t.slice(p, "parked", "slot", p.parked, nil)
		}
		p.parked = -1
	case event.Stolen:
		t.put(&entry{Name: "steal", Cat: "slot", Phase: "i", Scope: "t", Time: t.now, Pid: p.pid, Tid: p.tid,
			Args: map[string]any{"from slot": e.B, "tasks": e.C, "first": e.A}})
	}
}
