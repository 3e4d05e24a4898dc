// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// gatheringKey names a collective in a run.
type collectiveKey struct {
	process int // whose ranks they are; -1 for those of the job
	group   int
	comm    uint64
	number  uint64
}

// gathering is a collective that is not over everywhere.
type collective struct {
	name string
	kind int
	root int
	size int
	done int
	from map[int]arrowEnd // by rank of the run: where it begins
	rank map[int]int    // of a scan: places in the communicator, by rank of the run
	to   map[int]arrowEnd // and where it is over
}

// joined is a request that is a rank's part of a collective.
type collectivePart struct {
	key  collectiveKey
	rank int
}

// request is one that is not done.
type request struct {
	name string
	p    *track
}

func (k key) text() string { return fmt.Sprintf("request %d.%d", k.process, k.id) }

type windowKey struct {
	rank   trackKey
	number uint32
}

// window is a rank's part of a window: a thread of the rank's process.
type window struct {
	track
	name    string
	number  uint32
	named    bool   // the thread has its name
	since   micros // when the last epoch was closed
	ops     map[uint32]string
	did     map[event.Kind]int // operations of this rank in the epochs that are not closed
	bytes   uint64
	durable uint64
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
	tracks   map[trackKey]*track
	pids     int
	flows    int
	tasks    map[key]*task
	requests map[key]*request
	ranks    map[key]int // of runs, by main task
	// whose other end has not been seen. The arrival may be seen first, as clocks have it
	sent    map[replay.Message][]arrowEnd
	matched    map[replay.Message][]arrowEnd
	windows map[windowKey]*window

	collectives map[collectiveKey]*collective // collectives that are not over everywhere
	parts     map[key]collectivePart              // their requests
}

type trackKey struct {
	process int
	location   event.Location
}

// place is a thread of the timeline.
type track struct {
	pid, tid int
	cur      *task  // what runs on a slot
	parked   micros // since when; -1 if not
	last     arrowEnd // the end of a task that was recorded here last
	mark     micros // when the last mark of a message was
}

// ending is one end of an arrow.
type arrowEnd struct {
	task uint64 // that ends there; zero if none does
	at   micros
	p    *track
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
	after arrowEnd // of the task that made this one ready
	end   arrowEnd
	cause string // why it is blocked
	from  *track // of the slot that it has, or had
}

// place returns the thread of an event.
func (t *writer) trackOf(e *replay.Event) *track {
	p := e.Source.Location
	k := trackKey{e.Process, p}
	if x := t.tracks[k]; x != nil {
		return x
	}
	// Slots, and the goroutines beside them, are threads of one process.
	home := trackKey{e.Process, event.Location{Kind: event.SlotLocation, Group: p.Group, Index: -1}}
	x := &track{tid: p.Index + 1, parked: -1}
	name, thread := fmt.Sprintf("runtime %d", p.Group), fmt.Sprintf("slot %d", p.Index)
	switch p.Kind {
	case event.OtherLocation:
		x.tid, thread = 1<<16, "other goroutines"
	case event.RankLocation:
		home = k
		name, thread = fmt.Sprintf("rank %d: messages", p.Index), "messages"
		x.tid = 1
	}
	if h := t.set.Head(e.Process); h.Rank >= 0 && p.Kind != event.RankLocation {
		name = fmt.Sprintf("rank %d: %s", h.Rank, name)
	}
	h := t.tracks[home]
	if h == nil {
		t.pids++
		h = &track{pid: t.pids, parked: -1}
		t.tracks[home] = h
		t.put(&entry{Name: "process_name", Phase: "M", Pid: h.pid, Args: map[string]any{"name": name}})
		t.put(&entry{Name: "process_sort_index", Phase: "M", Pid: h.pid, Args: map[string]any{"sort_index": sortIndex(e.Process, p)}})
	}
	x.pid = h.pid
	if k != home {
		t.tracks[k] = x
	} else {
		h.tid, h.parked, x = 1, -1, h
	}
	t.put(&entry{Name: "thread_name", Phase: "M", Pid: x.pid, Tid: x.tid, Args: map[string]any{"name": thread}})
	return x
}

// sortIndex is where viewers show a process of the timeline: those of one process of the system
// together, its runtimes above its ranks, and these in their order, whichever had the first event.
func sortIndex(process int, p event.Location) int {
	const kinds, places = 2, 1 << 12 // more ranks than that share a place
	i := process * kinds * places
	if p.Kind == event.RankLocation {
		return i + places + min(p.Index, places-1)
	}
	return i + min(p.Group, places-1)
}

// slice writes a slice that ends now.
func (t *writer) slice(p *track, name, cat string, since micros, args map[string]any) {
	t.put(&entry{Name: name, Cat: cat, Phase: "X", Time: since, Dur: new(t.now - since), Pid: p.pid, Tid: p.tid, Args: args})
}

// arrow writes an arrow. Its ends are bound to the slices in which their times are.
func (t *writer) arrow(cat string, from, to arrowEnd) {
	t.flows++
	id := fmt.Sprint(t.flows)
	t.put(&entry{Name: cat, Cat: cat, Phase: "s", Time: from.at, Pid: from.p.pid, Tid: from.p.tid, ID: id})
	t.put(&entry{Name: cat, Cat: cat, Phase: "f", Bind: "e", Time: max(to.at, from.at), Pid: to.p.pid, Tid: to.p.tid, ID: id})
}

// entry is an element of traceEvents.
type entry struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat,omitempty"`
	Phase string         `json:"ph"`
	Time  micros         `json:"ts"`
	Dur   *micros        `json:"dur,omitempty"`
	Pid   int            `json:"pid"`
	Tid   int            `json:"tid"`
	ID    string         `json:"id,omitempty"`
	Bind  string         `json:"bp,omitempty"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// micros is a time in nanoseconds, written in microseconds, as the format has them.
type micros int64

// MarshalJSON writes microseconds with three decimals.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// emitter writes the elements, or hands them to take.
type emitter struct {
	take func(*entry) // nil: they are written

	w *bufio.Writer // it keeps the first error
	n int
}

func newEmitter(w io.Writer) *emitter {
	e := &emitter{w: bufio.NewWriterSize(w, 1<<16)}
	e.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	return e
}

func (e *emitter) text(s string) { _, _ = e.w.WriteString(s) }

func (e *emitter) object(x any) {
	b, err := json.Marshal(x)
	if err != nil {
		panic(fmt.Sprintf("timeline: bug: %v", err))
	}
	_, _ = e.w.Write(b)
}

func (e *emitter) put(x *entry) {
	if e.take != nil {
		e.take(x)
		return
	}
	if e.n++; e.n > 1 {
		e.text(",")
	}
	e.text("\n")
	e.object(x)
}

// end writes what comes after the elements.
func (e *emitter) end(other map[string]any) error {
	e.text("\n],\"otherData\":")
	e.object(other)
	e.text("}\n")
	return e.w.Flush()
}
