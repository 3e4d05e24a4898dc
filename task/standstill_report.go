// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"weft/internal/waits"
	"weft/task/internal/say"
)

const (
	maxBlockedSlots  = 8 // that a report lists
	maxBlockedFrames = 4 // of each, from where the body blocks; the body itself comes after them
)

// blockedBody is a body that blocks on a slot.
type blockedBody struct {
	slot  int
	label string
	site  string
	fn    string // name of its function
	task  string // its address, as a stack has it
}

func (x *blockedBody) name() string {
	if x.label != "" {
		return fmt.Sprintf("task %q (spawned at %s)", x.label, x.site)
	}
	return "task spawned at " + x.site
}

// describe writes what blocks; "" if something has moved meanwhile.
//
// +checklocks:w.mu
func (w *standstill) describe(now time.Time, ready bool) string {
	list := make([]blockedBody, 0, len(w.rt.slots.all))
	for i, v := range w.last {
		x := v.cur
		list = append(list, blockedBody{slot: i, label: x.label, site: x.site(), fn: x.bodyName(), task: fmt.Sprintf("%p", x)})
		w.rt.slots.all[i].cur.seen(x)
	}
	// While a body blocks, its task stays what it is, and what was read is true. A task whose body
	// is over may be another one's memory by now.
	if !w.view() {
		return ""
	}
	calls := runtime.FuncForPC(w.code.lo).Name() + "("
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
		fmt.Fprintf(&b, "  slot %d: %s", x.slot, x.name())
		writeStack(&b, stacks.take(calls+x.task, x.fn, calls))
	}
	b.WriteString("A body keeps its slot while it blocks in a channel, a lock or a system call; so call what blocks by Task.Blocking:\n" +
		"    t.Blocking(func() { v = <-ch })\n" +
		"Messages and requests of package comm have package tampi for this, and waits for tasks have Task.Wait, WaitOn and Await.\n")
	return b.String()
}

// describeSlots says what the bodies on the slots block in, and of which tasks they are.
func (rt *Runtime) describeSlots() (lines []string) {
	type seen struct {
		slotView
		blockedBody
	}
	before := make([]seen, len(rt.slots.all))
	for i, s := range rt.slots.all {
		if v := s.view(); v.cur != nil {
			before[i] = seen{v, blockedBody{label: v.cur.label, site: v.cur.site()}}
			s.cur.seen(v.cur)
		}
	}
	calls := runtime.FuncForPC(rt.still.code.lo).Name() + "("
	stacks := bodyStacks(calls)
	for i, s := range rt.slots.all {
		t := s.cur.load()
		if t == nil {
			continue
		}
		if len(lines) == maxBlockedSlots {
			return append(lines, "and more")
		}
		var b strings.Builder
		fmt.Fprintf(&b, "the body on slot %d", i)
		if s.view() == before[i].slotView { // otherwise that task is over, and what was read of it may be of two
			fmt.Fprintf(&b, ", of %s", before[i].name())
		}
		writeStack(&b, stacks.take(fmt.Sprintf("%s%p", calls, t), "", calls))
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

// bodyName returns the name of t's function.
func (t *Task) bodyName() string {
	if f := runtime.FuncForPC(codeOf(t.fn)); f != nil {
		return f.Name()
	}
	return ""
}

// report writes what a person must hear, to where that is wanted.
func (rt *Runtime) report(text string) {
	if rt.cfg.Watchdog == 0 && rt.cfg.logs {
		rt.cfg.Logger.Warn(strings.TrimPrefix(strings.TrimSuffix(text, "\n"), "weft: "))
		return
	}
	_, _ = io.WriteString(rt.cfg.Reports, text)
}

// bodies are the stacks of goroutines that run bodies, in the words of Go's runtime. They are for people only.
type bodies [][]string

// bodyStacks returns the lines of each goroutine that runs a body. calls begins the line of what calls bodies.
func bodyStacks(calls string) bodies {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < 64<<20 {
		buf = make([]byte, 2*n)
		n = runtime.Stack(buf, true)
	}
	var list bodies
	for _, g := range strings.Split(string(buf[:n]), "\n\n") {
		if strings.Contains(g, calls) {
			list = append(list, waits.Lines(strings.TrimSpace(g)))
		}
	}
	return list
}

// take takes out the stack of a body and returns it, from the body inwards: the one with a call that begins as
// given, or, where the compiler does not keep the address, one that runs the same function.
func (l bodies) take(call, fn, calls string) []string {
	at, k := l.find(func(_, caller string) bool { return strings.HasPrefix(caller, call) }, calls)
	if at < 0 {
		at, k = l.find(func(body, _ string) bool { return strings.HasPrefix(body, fn+"(") }, calls)
	}
	if at < 0 {
		return nil
	}
	lines := l[at][:k+2]
	l[at] = nil
	return lines
}

// find returns the first stack whose innermost body, and what calls it, match, and the line of the body.
func (l bodies) find(match func(body, caller string) bool, calls string) (at, line int) {
	for i, lines := range l {
		for k := 1; k+2 < len(lines); k += 2 {
			if strings.HasPrefix(lines[k+2], calls) {
				if match(lines[k], lines[k+2]) {
					return i, k
				}
				break
			}
		}
	}
	return -1, 0
}

// writeStack writes what a goroutine waits in: its state, and the functions below those of Go's
// runtime and the like, down to the body.
func writeStack(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		b.WriteByte('\n')
		return
	}
	state := lines[0]
	if i, j := strings.IndexByte(state, '['), strings.LastIndexByte(state, ']'); i >= 0 && j > i {
		state = state[i : j+1]
	}
	fmt.Fprintf(b, ", %s\n", state)
	n := 0
	for k := 1; k+1 < len(lines); k += 2 {
		body := k+3 >= len(lines)
		if strings.HasPrefix(lines[k], "runtime.") || strings.HasPrefix(lines[k], "internal/") || n >= maxBlockedFrames && !body {
			continue
		}
		at, _, _ := strings.Cut(strings.TrimSpace(lines[k+1]), " +")
		fmt.Fprintf(b, "    %s\n        %s\n", lines[k], at)
		n++
	}
}
