// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"fmt"
	"strings"
	"time"

	"weft/task/internal/say"
)

// maxListed is how many tasks a report lists one by one.
const maxListed = 1000

// describe writes all tasks, and then the stuck tasks.
func (p *snapshot) describe(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", say.Plural(len(p.seen), "live task"))
	for i := range p.seen {
		if i == maxListed {
			fmt.Fprintf(b, "  and %d more\n", len(p.seen)-i)
			break
		}
		p.task(b, "  ", i)
	}
	if len(p.stuck) > 0 {
		p.describeStuck(b)
	}
}

// describeStuck writes the stuck tasks, and the tasks that wait for them.
func (p *snapshot) describeStuck(b *strings.Builder) {
	var cycles, overdue []int
	for _, i := range p.stuck {
		if p.seen[i].inCycle {
			cycles = append(cycles, i)
		} else {
			overdue = append(overdue, i)
		}
	}
	if len(cycles) > 0 {
		fmt.Fprintf(b, "%s wait for each other and can never go on:\n", say.Plural(len(cycles), "task"))
	}
	for _, i := range cycles {
		p.task(b, "  ", i)
	}
	if len(overdue) == 0 {
		return
	}
	fmt.Fprintf(b, "%s waited for %v or longer for something that no task of the runtime provides:\n", say.Count(len(overdue), "task has", "tasks have"), p.limit)
	waiting := map[int][]int{} // for each task the tasks that wait for it
	for i := range p.seen {
		for _, x := range p.seen[i].blockers {
			waiting[x.on] = append(waiting[x.on], i)
		}
	}
	for n, i := range overdue {
		if n == maxListed {
			fmt.Fprintf(b, "  and %d more\n", len(overdue)-n)
			return
		}
		p.task(b, "  ", i)
		p.dependents(b, waiting, i)
	}
}

// maxDependents is how many tasks a report names that wait for one stuck task.
const maxDependents = 8

// dependents writes the tasks that wait for task i, directly or not.
func (p *snapshot) dependents(b *strings.Builder, waiting map[int][]int, i int) {
	met := map[int]bool{i: true}
	list := []int{i}
	for k := 0; k < len(list); k++ {
		for _, v := range waiting[list[k]] {
			if !met[v] {
				met[v] = true
				list = append(list, v)
			}
		}
	}
	list = list[1:]
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "    %s for it:\n", say.Count(len(list), "task waits", "tasks wait"))
	for k, v := range list {
		if k == maxDependents {
			fmt.Fprintf(b, "      and %d more\n", len(list)-k)
			return
		}
		p.task(b, "      ", v)
	}
}

// task writes task i: its name, its state, and what it waits for.
func (p *snapshot) task(b *strings.Builder, indent string, i int) {
	x := &p.seen[i]
	fmt.Fprintf(b, "%s%s, %v old: ", indent, x.rec.name(), say.Short(p.at.Sub(x.rec.born)))
	state := say.Short(p.at.Sub(x.since))
	switch x.state {
	case stateSpawned:
		p.spawned(b, indent, x)
	case stateResting:
		b.WriteString("of a recorded loop, waits for its next turn\n")
	case stateRunning:
		fmt.Fprintf(b, "runs, for %v\n", state)
	case stateWaiting:
		p.waits(b, x, state)
	case stateReturned:
		if len(x.events) == 0 {
			fmt.Fprintf(b, "its body is over; it keeps its accesses until its descendants are over (%s), for %v\n", say.Count(len(x.blockers), "child", "children"), state)
			return
		}
		fmt.Fprintf(b, "its body is over, and it waits for %s:\n", say.Plural(len(x.events), "event"))
		p.events(b, indent, x)
	case stateReleased:
		fmt.Fprintf(b, "its body is over, and it waits for its descendants (%s)\n", say.Count(len(x.blockers), "child", "children"))
	}
}

func (p *snapshot) spawned(b *strings.Builder, indent string, x *seen) {
	switch {
	case len(x.events) > 0:
		fmt.Fprintf(b, "has its accesses; OnReady has bound %s:\n", say.Plural(len(x.events), "event"))
		p.events(b, indent, x)
	case len(x.blockers) == 0:
		b.WriteString("is ready, and waits for a slot\n")
	default:
		for k, w := range x.blockers {
			switch {
			case k > 0 && w.access == x.blockers[k-1].access:
				b.WriteString(", ")
			case k > 0:
				b.WriteString(", and ")
				fallthrough
			default:
				fmt.Fprintf(b, "waits for %v after ", w.access)
			}
			b.WriteString(p.seen[w.on].rec.name())
			if k == maxDependents-1 && len(x.blockers) > maxDependents {
				fmt.Fprintf(b, ", and for %d more", len(x.blockers)-maxDependents)
				break
			}
		}
		b.WriteByte('\n')
	}
}

func (p *snapshot) waits(b *strings.Builder, x *seen, state time.Duration) {
	fmt.Fprintf(b, "waits in %s at %s for %v", x.waits.Op, say.CallerPosition(x.site), state)
	if x.waits.What != nil {
		fmt.Fprintf(b, ", for %v", x.waits.What)
	}
	if !x.waits.Due.IsZero() {
		fmt.Fprintf(b, ", until %v", x.waits.Due.Format("15:04:05.000"))
	}
	for k, w := range x.blockers {
		switch k {
		case 0:
			b.WriteString(", for ")
		case maxDependents:
			fmt.Fprintf(b, " and %d more\n", len(x.blockers)-k)
			return
		default:
			b.WriteString(", ")
		}
		b.WriteString(p.seen[w.on].rec.name())
	}
	b.WriteByte('\n')
}

func (p *snapshot) events(b *strings.Builder, indent string, x *seen) {
	for k, e := range x.events {
		if k == maxDependents {
			fmt.Fprintf(b, "%s  and %d more\n", indent, len(x.events)-k)
			return
		}
		what := "a Hold"
		if e.what != nil {
			what = fmt.Sprint(e.what)
		}
		fmt.Fprintf(b, "%s  %s, bound at %s, %v ago\n", indent, what, say.CallerPosition(e.site), say.Short(p.at.Sub(e.since)))
	}
}

// name names r's task.
func (r *Record) name() string { return say.Task(r.parent == nil, r.label, say.Position(r.pc)) }
