// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"errors"
	"fmt"
	"io"

	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/replay"
)

// Write makes a timeline of the traces of one run. What a trace that is cut still has is written; the error says then that it is cut.
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
	if err := em.end(other); err != nil {
		return err
	}
	return cut
}

// walk puts the elements of the timeline of some traces. If one of them is cut, the second result says so.
func walk(em *emitter, names []string) (set *replay.Set, cut, err error) {
	if set, err = replay.Open(names...); err != nil {
		return nil, nil, err
	}
	defer set.Close() // what was read of it stays
	t := &writer{emitter: em, set: set, places: map[placeKey]*place{}, tasks: map[key]*task{}, requests: map[key]*request{},
		sent: map[replay.Message][]arrival{}, came: map[replay.Message][]arrival{}, ranks: map[key]int{}, windows: map[windowKey]*window{}, gatherings: map[gatheringKey]*gathering{}, joined: map[key]joined{}}
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
	t.shut()
	return set, cut, nil
}

type key struct {
	process int
	id      uint64
}

// writer has what is open.
type writer struct {
	*emitter
	set      *replay.Set
	start    int64
	now      micros
	places   map[placeKey]*place
	pids     int
	flows    int
	tasks    map[key]*task
	requests map[key]*request
	ranks    map[key]int // of runs, by main task
	sent     map[replay.Message][]arrival
	came     map[replay.Message][]arrival
	windows  map[windowKey]*window

	gatherings map[gatheringKey]*gathering // collectives that are not over everywhere
	joined     map[key]joined              // their requests
}

type placeKey struct {
	process int
	kind    event.PlaceKind
	group   int
	index   int
}

// place is a thread of the timeline.
type place struct {
	pid, tid int
	cur      *task  // what runs on a slot
	parked   micros // since when; -1 if not
	last     ending // the end of a task that was recorded here last
	mark     micros // when the last mark of a message was
}

// ending is where an arrow begins.
type ending struct {
	task     uint64
	at       micros
	pid, tid int
}

// task is one that is not over.
type task struct {
	id    key
	name  string
	where string
	main  key
	outer *task
	loop  bool   // part of a recorded loop, kept until it is run again
	since micros // when the slice began that is open
	after ending // of the task that made this one ready
	end   ending
	cause string // why it is blocked
	from  *place // of the slot that it has, or had
}

// place returns the thread of an event.
func (t *writer) place(e *replay.Event) *place {
	p := e.Source.Place
	k := placeKey{e.Process, p.Kind, p.Group, p.Index}
	if x := t.places[k]; x != nil {
		return x
	}
	// Slots, and the goroutines beside them, are threads of one process.
	home := placeKey{e.Process, event.SlotPlace, p.Group, -1}
	x := &place{tid: p.Index + 1, parked: -1}
	name, thread := fmt.Sprintf("runtime %d", p.Group), fmt.Sprintf("slot %d", p.Index)
	switch p.Kind {
	case event.OtherPlace:
		x.tid, thread = 1<<16, "other goroutines"
	case event.RankPlace:
		home = placeKey{e.Process, event.RankPlace, p.Group, p.Index}
		name, thread = fmt.Sprintf("rank %d: messages", p.Index), "messages"
		x.tid = 1
	}
	if h := t.set.Head(e.Process); h.Rank >= 0 && p.Kind != event.RankPlace {
		name = fmt.Sprintf("rank %d: %s", h.Rank, name)
	}
	h := t.places[home]
	if h == nil {
		t.pids++
		h = &place{pid: t.pids, parked: -1}
		t.places[home] = h
		t.put(&entry{Name: "process_name", Phase: "M", Pid: h.pid, Args: map[string]any{"name": name}})
		t.put(&entry{Name: "process_sort_index", Phase: "M", Pid: h.pid, Args: map[string]any{"sort_index": sortIndex(e.Process, p)}})
	}
	x.pid = h.pid
	if k != home {
		t.places[k] = x
	} else {
		h.tid, h.parked, x = 1, -1, h
	}
	t.put(&entry{Name: "thread_name", Phase: "M", Pid: x.pid, Tid: x.tid, Args: map[string]any{"name": thread}})
	return x
}

// sortIndex is where viewers show a process of the timeline: those of one process of the system together, its runtimes above its ranks, and these in their
// order, whichever had the first event.
func sortIndex(process int, p event.Place) int {
	const kinds, places = 2, 1 << 12 // more ranks than that share a place
	i := process * kinds * places
	if p.Kind == event.RankPlace {
		return i + places + min(p.Index, places-1)
	}
	return i + min(p.Group, places-1)
}

// slice writes a slice that ends now.
func (t *writer) slice(p *place, name, cat string, since micros, args map[string]any) {
	d := t.now - since
	t.put(&entry{Name: name, Cat: cat, Phase: "X", Time: since, Dur: &d, Pid: p.pid, Tid: p.tid, Args: args})
}

// arrow writes an arrow. Its ends are bound to the slices in which their times are.
func (t *writer) arrow(cat string, from ending, at micros, to *place) {
	t.flows++
	id := fmt.Sprint(t.flows)
	t.put(&entry{Name: cat, Cat: cat, Phase: "s", Time: from.at, Pid: from.pid, Tid: from.tid, ID: id})
	t.put(&entry{Name: cat, Cat: cat, Phase: "f", Bind: "e", Time: max(at, from.at), Pid: to.pid, Tid: to.tid, ID: id})
}

// event takes the next event.
func (t *writer) event(e *replay.Event) {
	switch k := e.Kind(); {
	case k == event.Lost:
		p := t.place(e)
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
	p := t.place(e)
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
