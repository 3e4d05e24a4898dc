// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline converts recordings to a timeline in the format of Chrome's trace viewer, which
// Perfetto also reads.
//
//	err := timeline.Write(file, "run.weft")
//
//	in weft                            in the timeline
//	runtime, rank                      process
//	slot, window of a rank             thread
//	task on a slot                     slice; on top of another one if it runs while that task waits
//	parked slot                        slice
//	steal, durable epoch               mark
//	task without a slot                asynchronous slice
//	request                            asynchronous slice
//	epoch of a window                  slice
//	operation of a window              asynchronous slice
//	task that made another one ready   arrow from its end to the other's beginning
//	message                            arrow from where it was sent to where it was matched
//	collective                         arrow to a rank's end, from the last beginning that the
//	                                   rank waited for
//
// The writer streams: it keeps only open slices and arrows in memory. [Verify] checks a timeline
// against those rules of the format on which viewers depend. It is the oracle of the tests.
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

// Write writes the timeline of the recordings of one run. If a recording is cut, Write writes the
// timeline of its records, and returns an error that says so.
func Write(w io.Writer, names ...string) error {
	em := newEmitter(w)
	set, cut, err := walk(em, names)
	if err != nil {
		return err
	}
	other := map[string]any{"made by": "weft trace", "trace events lost": set.Lost(), "program": set.Head(0).Program}
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

// walk emits the elements of the timeline of some recordings. cut is the error of a recording that
// is cut.
func walk(em *emitter, names []string) (set *replay.Set, cut, err error) {
	if set, err = replay.Open(names...); err != nil {
		return nil, nil, err
	}
	defer set.Close() // the caller may still use what was read
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

// event adds the next record.
func (t *writer) event(e *replay.Event) {
	switch k := e.Kind(); {
	case k == event.Lost:
		p := t.trackOf(e)
		t.put(&entry{Name: fmt.Sprintf("%d trace events lost", e.A), Cat: "recording", Phase: "i", Scope: "t", Time: t.now, Pid: p.pid, Tid: p.tid})
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
