//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"strconv"
	"strings"

	"weft/internal/xatomic"
)

// Failure is an order of steps in which the program fails.
type Failure struct {
	Why   string
	Stack string // of a panic
	Steps []string

	script []int
}

// Script returns the order, for Replay: numbers of goroutines, each with a count if it takes
// several steps.
func (f *Failure) Script() string {
	var b strings.Builder
	for i := 0; i < len(f.script); {
		k := i
		for k < len(f.script) && f.script[k] == f.script[i] {
			k++
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(f.script[i]))
		if k-i > 1 {
			fmt.Fprintf(&b, "*%d", k-i)
		}
		i = k
	}
	return b.String()
}

func parseScript(s string) (list []int, err error) {
	for _, w := range strings.Fields(s) {
		name, times, many := strings.Cut(w, "*")
		p, err := strconv.Atoi(name)
		n := 1
		if many && err == nil {
			n, err = strconv.Atoi(times)
		}
		if err != nil || p < 0 || p >= maxProcs || n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("explore: %q is not part of a script; a script is numbers of goroutines below %d, each optionally followed by *COUNT", w, maxProcs)
		}
		for range n {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("explore: the script is empty")
	}
	return list, nil
}

func (f *Failure) String() string {
	s := f.Why + "\n" + strings.Join(f.Steps, "\n") + "\nscript: " + f.Script()
	if f.Stack != "" {
		s += "\n" + f.Stack
	}
	return s
}

// describe records the steps of the run in f.
func (e *engine) describe(f *Failure) {
	names := e.run.resolve()
	count := map[string]int{}
	for i := range e.trace {
		ev := &e.trace[i]
		name := e.procs[ev.proc].name
		if ev.x == nil {
			f.Steps = append(f.Steps, fmt.Sprintf("%4d  %-12s %s", i, name, kindName(ev.kind)))
			continue
		}
		what, ok := names[ev.x]
		if !ok {
			typ := strings.TrimPrefix(fmt.Sprintf("%T", ev.x), "*")
			typ, _, _ = strings.Cut(strings.TrimPrefix(typ, "xatomic."), "[")
			count[typ]++
			what = fmt.Sprintf("%s#%d", typ, count[typ])
			names[ev.x] = what
		}
		line := fmt.Sprintf("%4d  %-12s %-7s %-24s %s", i, name, kindName(ev.kind), what, outcome(ev))
		if i < len(e.sites) {
			line = fmt.Sprintf("%-70s %s", line, e.sites[i])
		}
		f.Steps = append(f.Steps, line)
	}
}

func kindName(k xatomic.Kind) string {
	if k == start {
		return "starts"
	}
	return k.String()
}

// outcome returns the value that a step has read or written.
func outcome(ev *event) string {
	switch {
	case ev.kind == xatomic.Lock || ev.kind == xatomic.Unlock:
		return ""
	case ev.kind == xatomic.CAS && !ev.wrote:
		return fmt.Sprintf("not %d", ev.val)
	case ev.kind == xatomic.Load, ev.kind == xatomic.Swap:
		return fmt.Sprintf("is %d", ev.val)
	}
	return fmt.Sprintf("to %d", ev.val)
}
