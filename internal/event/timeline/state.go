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
	"weft/internal/names"
)

// collectiveKey identifies a collective in a run.
type collectiveKey struct {
	process int // the process of the ranks; -1 if ranks are processes
	group   int
	comm    uint64
	number  uint64
}

// collective is a collective that is not done at all ranks.
type collective struct {
	names.Collective
	root int
	size int
	done int
	from map[int]arrowEnd // its beginning, by rank of the run
	rank map[int]int      // of a scan: rank in the communicator, by rank of the run
	to   map[int]arrowEnd // its end, by rank of the run
}

// collectivePart is one rank's part of a collective.
type collectivePart struct {
	key  collectiveKey
	rank int
}

// request is a request that is not done.
type request struct {
	name string
	p    *track
}

func (k key) text() string { return fmt.Sprintf("request %d.%d", k.process, k.id) }

type windowKey struct {
	rank   trackKey
	number uint32
}

// window is a window at one rank: a thread of the rank's process.
type window struct {
	track
	name   string
	number uint32
	named  bool   // the name of the thread is written
	since  micros // the end of the last epoch
	ops    map[uint32]string
	// number of operations of this rank in the epochs that are not closed
	did     map[event.Kind]int
	bytes   uint64
	durable uint64
}

type key struct {
	process int
	id      uint64
}

// writer holds the open slices and arrows.
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
	ranks    map[key]int // ranks of runs, by main task
	// begins and ends of message arrows whose other end is not known yet. Clocks differ, so the end
	// may come first
	sent    map[replay.Message][]arrowEnd
	matched map[replay.Message][]arrowEnd
	windows map[windowKey]*window

	collectives map[collectiveKey]*collective // collectives that are not done at all ranks
	parts       map[key]collectivePart        // requests of collectives
}

type trackKey struct {
	process  int
	location event.Location
}

// track is a thread of the timeline.
type track struct {
	pid, tid int
	cur      *task    // the innermost task on a slot
	parked   micros   // the time at which the slot parked; -1 if it is not parked
	last     arrowEnd // the last end of a task that was recorded here
	mark     micros   // time of the last mark of a message
}

// arrowEnd is one end of an arrow.
type arrowEnd struct {
	task uint64 // the task that ends there; 0 if it is not the end of a task
	at   micros
	p    *track
}

// task is a task that is not over.
type task struct {
	id    key
	name  string
	where string
	main  key
	outer *task
	loop  bool     // of a recorded loop: kept until it is run again
	since micros   // beginning of the open slice
	after arrowEnd // end of the task that made this task ready
	end   arrowEnd
	cause string // why it is blocked; "" if it is not
	from  *track // track of its slot, or its last slot
}

// trackOf returns the track of a record.
func (t *writer) trackOf(e *replay.Event) *track {
	p := e.Source.Location
	k := trackKey{e.Process, p}
	if x := t.tracks[k]; x != nil {
		return x
	}
	// The slots of a runtime, and the goroutines without a slot, are threads of one process.
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

// sortIndex is the position at which viewers show a process of the timeline. The processes of one
// operating-system process are together: first its runtimes, then its ranks, each sorted by number.
func sortIndex(process int, p event.Location) int {
	const kinds, most = 2, 1 << 12 // further ranks share a position
	i := process * kinds * most
	if p.Kind == event.RankLocation {
		return i + most + min(p.Index, most-1)
	}
	return i + min(p.Group, most-1)
}

// slice writes a slice that ends now.
func (t *writer) slice(p *track, name, cat string, since micros, args map[string]any) {
	t.put(&entry{Name: name, Cat: cat, Phase: "X", Time: since, Dur: new(t.now - since), Pid: p.pid, Tid: p.tid, Args: args})
}

// arrow writes an arrow. The format binds each end to the slice around its time.
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

// micros is a time in nanoseconds. The format has microseconds.
type micros int64

// MarshalJSON writes microseconds with three decimals.
func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// emitter writes the elements, or passes them to take.
type emitter struct {
	take func(*entry) // nil: the elements are written to w

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

// end writes the part of the document after the elements.
func (e *emitter) end(other map[string]any) error {
	e.text("\n],\"otherData\":")
	e.object(other)
	e.text("}\n")
	return e.w.Flush()
}
