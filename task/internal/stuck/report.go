// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stuck

import (
	"fmt"
	"strings"
	"time"

	"weft/task/internal/say"
)

const (
	maxBlockedSlots = 8 // that a report lists
)

// describe writes what blocks; "" if something has moved meanwhile.
//
// +checklocks:w.mu
func (w *Watch) describe(now time.Time, ready bool) string {
	list := make([]Body, w.cfg.Slots)
	for i, v := range w.last {
		list[i] = w.host.Describe(v.task)
		w.host.Seen(i, v.task)
	}
	// While a body blocks, its task stays what it is, and what was read is true. A task whose body
	// is over may be another one's memory by now.
	if !w.view() {
		return ""
	}
	calls := w.cfg.Calls.name() + "("
	stacks := bodyStacks(calls)
	var b strings.Builder
	what := "no slot is free"
	if ready {
		what = "tasks are ready, and no slot takes them"
	}
	fmt.Fprintf(&b, "weft: %s: for %v the body on %s has been blocked:\n", what, say.Short(now.Sub(w.since)), eachOf(len(list)))
	for i, x := range list {
		if i == maxBlockedSlots {
			fmt.Fprintf(&b, "  and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(&b, "  slot %d: %s", i, x.Name)
		writeStack(&b, stacks.take(calls+x.Addr, x.Func, calls))
	}
	b.WriteString("A body keeps its slot while it blocks in a channel, a lock or a system call; so call what blocks by Task.Blocking:\n" +
		"    t.Blocking(func() { v = <-ch })\n" +
		"Messages and requests of package comm have package tampi for this, and waits for tasks have Task.Wait, WaitOn and Await.\n")
	return b.String()
}

// Slots says what the bodies on the slots block in, and of which tasks they are.
func (w *Watch) Slots() (lines []string) {
	type seen struct {
		view
		Body
	}
	before := make([]seen, w.cfg.Slots)
	for i := range before {
		if v := w.slot(i); v.task != nil {
			before[i] = seen{v, w.host.Describe(v.task)}
			w.host.Seen(i, v.task)
		}
	}
	calls := w.cfg.Calls.name() + "("
	stacks := bodyStacks(calls)
	for i, x := range before {
		now := w.slot(i)
		if now.task == nil {
			continue
		}
		if len(lines) == maxBlockedSlots {
			return append(lines, "and more")
		}
		var b strings.Builder
		fmt.Fprintf(&b, "the body on slot %d", i)
		addr := fmt.Sprintf("%p", now.task)
		if now == x.view { // otherwise that task is over, and what was read of it may be of two
			fmt.Fprintf(&b, ", of %s", x.Name)
		}
		writeStack(&b, stacks.take(calls+addr, "", calls))
		lines = append(lines, strings.TrimSuffix(b.String(), "\n"))
	}
	return lines
}

func eachOf(slots int) string {
	if slots == 1 {
		return "the only slot"
	}
	return fmt.Sprintf("each of the %d slots", slots)
}
