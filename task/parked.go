// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"strings"

	"weft/internal/race"
	"weft/internal/waits"
	"weft/task/internal/say"
)

// parkedTasks counts the tasks of all runtimes that wait without a slot.
var parkedTasks = waits.Party{Asleep: func() (asleep, timed int, version uint64) {
	eachParked(func(k *parked) {
		version += k.turns
		switch {
		case k.t == nil:
		case k.state == parkAsleep:
			asleep++
		case k.state == parkTimed:
			timed++
		}
	})
	return asleep, timed, version
}}

func init() { waits.Join(&parkedTasks) }

// newParty returns what the runtime is for package waits: its slots, and who can say what its tasks wait for.
func (rt *Runtime) newParty() *waits.Party {
	return &waits.Party{
		Asleep: func() (asleep, timed int, version uint64) {
			asleep, version = rt.sched.Parks()
			return asleep, 0, version
		},
		Describe: rt.describeWaits,
	}
}

// Bounds of what the end of a run says of a runtime's tasks: tasks, and lines where a watchdog has a list of them.
const (
	maxWaits  = 16
	maxDumped = 100
)

// describeWaits says which tasks wait, for what.
func (rt *Runtime) describeWaits() []string {
	if rt.cfg.Watchdog > 0 {
		var b strings.Builder
		rt.dump(&b)
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) > maxDumped {
			lines = append(lines[:maxDumped], "and more")
		}
		return lines
	}
	return describeParked(func(k *parked) bool { return k.t.run.rt == rt })
}

// describeParked says which of the tasks that wait without a slot wait for what.
func describeParked(of func(*parked) bool) (lines []string) {
	n := 0
	eachParked(func(k *parked) {
		if k.t == nil || !of(k) {
			return
		}
		race.Acquire(&k.told) // in lint mode, the body's writes to what is printed here
		if n++; n > maxWaits {
			return
		}
		line := say.Task(k.t.node.Parent == nil, k.t.label, k.t.site())
		line += " waits in " + k.what.op
		if k.what.what != nil {
			line += fmt.Sprintf(", for %v", k.what.what)
		}
		lines = append(lines, line)
	})
	if n > maxWaits {
		lines = append(lines, fmt.Sprintf("and %d more tasks wait", n-maxWaits))
	}
	return lines
}

// heldEvents is what a run waits for that has no task which waits.
const heldEvents = "tasks have events that nobody has completed (Hold); Config.Watchdog would list them"

// waitingRuns are the runs with tasks that wait without a slot. Where a run has none, it waits for events only, which
// nothing but their ends can complete.
func (rt *Runtime) waitingRuns() (all []*run) {
	seen := map[*run]bool{}
	eachParked(func(k *parked) {
		if k.t != nil && k.t.run.rt == rt && !seen[k.t.run] {
			seen[k.t.run] = true
			all = append(all, k.t.run)
		}
	})
	return all
}
