// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"strings"
	"time"

	"weft/deps"
)

// TaskInfo is what the watchdog knows of one live task.
type TaskInfo struct {
	ID       uint64 // of the task; another task never gets it
	Parent   uint64 // zero for the main task of a run
	Label    string
	Site     string // where it was spawned
	Age      time.Duration
	State    TaskState
	For      time.Duration // how long it is in this state
	Accesses []deps.Access
	Behind   []uint64 // tasks that it waits for
	Text     string   // all that Dump says of it, a few lines
	Stuck    bool     // it has waited for longer than Config.Watchdog, or is in a cycle
	Cycle    bool     // it is in a cycle: it waits for itself
}

// TaskState is how far a task is.
type TaskState string

// The states of a task.
const (
	TaskWaiting TaskState = "waiting" // for accesses
	TaskReady   TaskState = "ready"   // waits for a slot
	TaskHeld    TaskState = "held"    // OnReady has bound events
	TaskResting TaskState = "resting" // of a recorded loop, until its next turn
	TaskRunning TaskState = "running"
	TaskBlocked TaskState = "blocked" // the body waits
	TaskBound   TaskState = "bound"   // the body is over, but its events are not
	TaskParent  TaskState = "parent"  // only its descendants are left
)

// Tasks returns what the tasks of the runtime are doing, parents before their children; false if no list is kept
// ([Config.Watchdog]). Each is described as it was at some moment of the call; tasks go on meanwhile. Any goroutine may call it.
func (rt *Runtime) Tasks() ([]TaskInfo, bool) {
	if rt.cfg.Watchdog == 0 {
		return nil, false
	}
	p := rt.snapshot(rt.cfg.Watchdog)
	list := make([]TaskInfo, len(p.seen))
	for i := range p.seen {
		x := &p.seen[i]
		var b strings.Builder
		p.task(&b, "", i)
		list[i] = TaskInfo{ID: x.rec.id, Label: x.rec.label, Site: place(x.rec.pc), Age: p.at.Sub(x.rec.born), State: x.public(),
			For: p.at.Sub(x.since), Accesses: x.rec.accs, Text: b.String(), Stuck: !x.stuckSince.IsZero(), Cycle: x.inCycle}
		if x.parent >= 0 {
			list[i].Parent = x.rec.parent.id
		}
		for _, b := range x.behind {
			list[i].Behind = append(list[i].Behind, p.seen[b.on].rec.id)
		}
	}
	return list, true
}

func (x *seen) public() TaskState {
	switch x.state {
	case stateResting:
		return TaskResting
	case stateRunning:
		return TaskRunning
	case stateWaiting:
		return TaskBlocked
	case stateReturned:
		if len(x.events) > 0 {
			return TaskBound
		}
		return TaskParent
	case stateGiven:
		return TaskParent
	}
	switch {
	case len(x.events) > 0:
		return TaskHeld
	case len(x.behind) > 0:
		return TaskWaiting
	}
	return TaskReady
}
