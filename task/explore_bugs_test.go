//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each rule of README.md, broken, is found by the exploration of its protocol.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "task", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "a token stays after the Block that it ends", File: "run.go", Test: "TestExploreHandOver",
		At:  "token",
		New: "\tr.removeLocked(t.parker)\n",
	},
	// Blocking, events, counters and the Mutex.
	{
		Name: "a task blocks after the run has failed", File: "run.go", Test: "TestExploreHandOver",
		At:  "failed",
		New: "",
	}, {
		Name: "two end one wait", File: "block.go", Test: "TestExploreHandOver",
		At:  "end-once",
		New: "\t\t\tw.Store(blockNone)\n\t\t\tt.run.dropBlocked(t)\n\t\t\tt.run.rt.resume(t)\n\t\t\treturn\n",
	}, {
		Name: "phase is not written before count is armed", File: "wait.go", Test: "TestExploreEvents",
		At:  "phase",
		New: "",
	}, {
		Name: "kept-back completions are not told", File: "slot.go", Test: "TestExploreEvents",
		At:  "kept-back",
		New: "",
	}, {
		Name: "an event ends twice", File: "event.go", Test: "TestExploreEvents",
		At:  "end-once",
		New: "\tif h.done.Load() {\n\t\treturn\n\t}\n\th.done.Store(true)\n",
	}, {
		Name: "bodyOver looks first", File: "finish.go", Test: "TestExploreEvents",
		At:  "body-over",
		New: "\t\tif t.holds.Load() != 0 {\n\t\t\tt.holds.Add(bodyOver)\n\t\t\treturn false\n\t\t}\n\t\tt.holds.Add(bodyOver)\n",
	}, {
		Name: "who arms count does not look", File: "finish.go", Test: "TestExploreEvents",
		At:  "arm-count",
		New: "\t\t\tt.count.Add(t.spawned)\n\t\t\treturn\n",
	}, {
		Name: "OnReady is called again", File: "onready.go", Test: "TestExploreEvents",
		At:  "once",
		New: "",
	}, {
		Name: "a window that never stalls", File: "window.go", Test: "TestExploreEvents",
		At:  "stall",
		New: "",
	}, {
		Name: "the timer of a stall looks before it says that it is over", File: "window.go", Test: "TestExploreEvents",
		At:  "L2",
		New: "\tif int(w.rt.sched.Parked()) != len(w.rt.slots.all) {\n\t\tw.later.armed.Store(false)\n\t\treturn\n\t}\n\tw.later.armed.Store(false) ",
	}, {
		Name: "the timer of a stall is started once only", File: "window.go", Test: "TestExploreEvents",
		At:  "L2",
		New: "\t_ = 0 ",
	}, {
		Name: "a Mutex that came too late is kept", File: "mutex.go", Test: "TestExploreMutex",
		At:  "late",
		New: "\t\t\tm.mu.Unlock()\n",
	}, {
		Name: "a Mutex is passed on without a holder", File: "mutex.go", Test: "TestExploreMutex",
		At:  "holder",
		New: "\tm.holder = nil\n",
	}, {
		Name: "the waiter looks first", File: "layout.go", Test: "TestExploreWaitWord",
		At:  "look",
		New: "if w.v.Load()&wordDone != 0 {\n\t\treturn false\n\t}\n\tw.v.Add(wordWaiting)\n\treturn true",
	},

	// Recorded loops.
	{
		Name: "E2 after E4", File: "replay.go", Test: "TestExploreReplay",
		At:  "E2",
		New: "\tif !last {\n\t\tdefer func() {\n\t\t\tt.holds.Add(0) // a step that the next run sees\n\t\t\tp.round++\n\t\t\tr.again(p, t, s)\n\t\t}()\n\t}\n",
	}, {
		Name: "E4 does not see the cut", File: "replay.go", Test: "TestExploreReplay",
		At:  "E4",
		New: "\tif p.state.Add(p.own) == 0 {\n\t\tf.MakeReady(&p.task.node)\n\t}\n",
	}, {
		Name: "C1 lets everybody through", File: "replay.go", Test: "TestExploreReplay",
		At:  "C1",
		New: "\tr.cut.Store(true)\n",
	}, {
		Name: "C2 takes every part for one that waits", File: "replay.go", Test: "TestExploreReplay",
		At:  "C2-waits",
		New: "\t\tif r.parts[i].state.Add(cutOff) != cutOff {\n\t\t\twaiting++\n\t\t}\n",
	}, {
		Name: "C2 takes no part for one that waits", File: "replay.go", Test: "TestExploreReplay",
		At:  "C2-counts",
		New: "",
	}, {
		Name: "a part that is cut off is queued", File: "given.go", Test: "TestExploreReplay",
		At:  "cut-off",
		New: "\tif p.state.Add(arrival)&^cutOff != 0 {\n\t\treturn\n\t}\n",
	}, {
		Name: "a successor is told twice", File: "given.go", Test: "TestExploreReplay",
		At:  "once",
		New: "\t\tr.arrive(to, f)\n",
	}, {
		Name: "E3 before E4 in the control task", File: "replay.go", Test: "TestExploreReplay",
		At:  "E3",
		New: "\tdefer func() { if p.state.Add(p.own) == 0 { f.MakeReady(&p.task.node) } }()\n",
	}, {
		Name: "the control task overtakes", File: "given.go", Test: "TestExploreReplay",
		At:  "control",
		New: "",
	}, {
		Name: "an object is passed on with another one", File: "given.go", Test: "TestExploreReplay",
		At:  "object",
		New: "",
	},
}
