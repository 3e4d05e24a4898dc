// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// windowThreads is the number of the first thread of a window.
const windowThreads = 16

func (t *writer) windowEvent(e *replay.Event) {
	rank := t.trackOf(e)
	number := uint32(e.Get(e.Kind().Info().Field("window")))
	k := windowKey{trackKey{e.Process, e.Source.Location}, number}
	w := t.windows[k]
	if w == nil {
		tid := windowThreads
		for o := range t.windows {
			if o.rank == k.rank {
				tid++
			}
		}
		w = &window{track: track{pid: rank.pid, tid: tid, parked: -1}, number: number, name: fmt.Sprintf("window %d", number), since: t.now,
			ops: map[uint32]string{}, did: map[event.Kind]int{}}
		t.windows[k] = w
	}
	switch e.Kind() {
	case event.WindowMade:
		w.since = t.now // the number may be that of a freed window
		return
	case event.WindowNamed:
		w.name = fmt.Sprintf("window %d: %s", number, t.set.Origin(e.Process, uint32(e.C)).Label)
		return
	}
	if !w.named {
		w.named = true
		t.put(&entry{Name: "thread_name", Phase: "M", Pid: w.pid, Tid: w.tid, Args: map[string]any{"name": w.name}})
	}
	switch e.Kind() {
	case event.EpochClosing:
		t.begin(key{e.Process, e.A}, rank, fmt.Sprintf("fence of window %d, epoch %d", number, e.C))
	case event.EpochClosed:
		t.closeEpoch(w, e.C)
	case event.Put, event.Get, event.Accumulate:
		op := uint32(e.B >> 32)
		w.ops[op] = fmt.Sprintf("%v, rank %d", e.Kind(), int32(uint32(e.A)))
		w.did[e.Kind()]++
		w.bytes += e.C
		t.operation("b", w, op, map[string]any{"epoch": e.A >> 32, "bytes": e.C})
	case event.OperationDone:
		t.finishOperation(w, uint32(e.B>>32))
	case event.Durable:
		w.durable = e.B
		t.instant(w, fmt.Sprintf("epoch %d is durable", e.B))
	case event.WindowFreed:
		t.instant(w, "freed")
	case event.WindowRemoved:
		t.instant(w, "memory released")
	}
}

// closeEpoch writes the slice of an epoch, which begins at the end of the epoch before it.
func (t *writer) closeEpoch(w *window, epoch uint64) {
	args := map[string]any{"window": w.number, "bytes": w.bytes}
	for k, n := range w.did {
		args[k.String()] = n
	}
	if w.durable >= epoch {
		args["durable"] = true
	}
	t.slice(&w.track, fmt.Sprintf("epoch %d", epoch), "window", w.since, args)
	w.since, w.bytes = t.now, 0
	clear(w.did)
}

func (t *writer) instant(w *window, what string) {
	t.put(&entry{Name: what, Cat: "window", Phase: "i", Scope: "t", Time: t.now, Pid: w.pid, Tid: w.tid})
}

// operation writes one end of an operation's asynchronous slice.
func (t *writer) operation(phase string, w *window, op uint32, args map[string]any) {
	t.put(&entry{Name: w.ops[op], Cat: "operation", Phase: phase, Time: t.now, Pid: w.pid, Tid: w.tid, ID: fmt.Sprintf("operation %d.%d.%d", w.pid, w.number, op), Args: args})
}

func (t *writer) finishOperation(w *window, op uint32) {
	if _, ok := w.ops[op]; !ok {
		return // the record of its beginning was lost
	}
	t.operation("e", w, op, nil)
	delete(w.ops, op)
}

// closeWindows ends all open operations at the end of the timeline.
func (t *writer) closeWindows() {
	order := func(a, b *window) int { return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid)) }
	for _, w := range slices.SortedFunc(maps.Values(t.windows), order) {
		for _, op := range slices.Sorted(maps.Keys(w.ops)) {
			t.finishOperation(w, op)
		}
	}
}
