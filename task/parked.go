// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"strings"
	"sync"
	"weak"

	"weft/internal/race"
	"weft/internal/waits"
)

// parked is what others may see of a task that waits without a slot: how many do, for deadlocks, and which, where
// a run ends while they wait. The body shows it just before it sleeps, and takes it back just after; so a task
// that is seen here stays what it is while mu is held.
type parked struct {
	mu    sync.Mutex
	t     *Task     // nil: nobody waits. +checklocks:mu
	state parkState // +checklocks:mu
	what  waiting   // +checklocks:mu
	turns uint64    // changes with state. +checklocks:mu
	_     [64]byte

	told race.Clock // released by the bodies that show themselves, acquired by a goroutine that says what they wait for
}

// parkState is what wakes the goroutine of a task that waits.
type parkState uint8

const (
	parkAsleep  parkState = iota // somebody, by a slot
	parkTimed                    // a time, too
	parkOutside                  // it is in the function of Blocking
)

// allParkers are all that there are. They belong to no runtime, so they are few: as many as tasks have waited at a time.
var allParkers struct {
	mu   sync.Mutex
	list []weak.Pointer[parker] // +checklocks:mu
	room int                    // length at which those that the collector has taken are dropped. +checklocks:mu
}

// enlist is called once for a new parker. In lint mode the caller hides it.
func (p *parker) enlist() {
	a := &allParkers
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) >= a.room {
		live := make([]weak.Pointer[parker], 0, len(a.list)+1) // others may walk the old one
		for _, w := range a.list {
			if w.Value() != nil {
				live = append(live, w)
			}
		}
		a.list, a.room = live, max(64, 2*len(live))
	}
	a.list = append(a.list, weak.Make(p))
}

// sleeps says that t is about to sleep until it is given a slot.
func (p *parker) sleeps(t *Task) {
	state := parkAsleep
	if p.what.op == opWindow || !p.what.due.IsZero() {
		state = parkTimed // a window never holds a program up
	}
	p.show(t, state)
}

// leaves says that t is about to call the function of Blocking.
func (p *parker) leaves(t *Task) { p.show(t, parkOutside) }

// wakes takes that back.
func (p *parker) wakes() { p.show(nil, parkAsleep) }

// show notes that t waits; nil: nobody. In lint mode the lock is hidden: it would order bodies.
func (p *parker) show(t *Task, state parkState) {
	k := &p.parked
	if t != nil {
		race.Release(&k.told)
	}
	race.Hide()
	defer race.Show()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.t, k.state, k.what = t, state, waiting{}
	if t != nil {
		k.what = p.what
	}
	k.turns++
}

// eachParked calls f for each parker, while it stays as it is.
func eachParked(f func(k *parked)) {
	a := &allParkers
	race.Hide()
	a.mu.Lock()
	list := a.list[:len(a.list):len(a.list)]
	a.mu.Unlock()
	race.Show()
	for _, w := range list {
		if p := w.Value(); p != nil {
			race.Hide()
			p.parked.mu.Lock()
			race.Show()
			f(&p.parked)
			race.Hide()
			p.parked.mu.Unlock()
			race.Show()
		}
	}
}

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
		line := "the main task (" + k.t.site() + ")"
		if k.t.node.Parent != nil || k.t.label != "" {
			line = "task at " + k.t.site()
			if k.t.label != "" {
				line = fmt.Sprintf("task %q (spawned at %s)", k.t.label, k.t.site())
			}
		}
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

// locksInVain reports whether tasks of this runtime wait for a Mutex that, as far as can be seen,
// nobody will let go of: its holder waits for one that it holds itself, over others maybe, or for
// tasks, none of which waits for anything but tasks. A holder in Blocking, say, comes back.
func (rt *Runtime) locksInVain() bool {
	all := map[*Task]waiting{} // of all runtimes, which may share a Mutex
	var lockers []*Task
	others := false // some wait for more than tasks
	eachParked(func(k *parked) {
		if k.t == nil {
			return
		}
		race.Acquire(&k.told)
		for t := k.t; t != nil; t = t.outer { // those beneath it on the stack cannot go on before it
			all[t] = k.what
		}
		switch k.what.op {
		case opLock:
			if k.t.run.rt == rt {
				lockers = append(lockers, k.t)
			}
		case opWait, opWaitOn, opChild, opWindow, opJoin:
		default:
			others = true
		}
	})
	for _, t := range lockers {
		x, seen := all[t]
		steps := 0
		for ; x.op == opLock && steps <= len(all); steps++ {
			x, seen = all[x.lock.heldBy()]
		}
		if steps > len(all) || seen && !others {
			return true
		}
	}
	return false
}
