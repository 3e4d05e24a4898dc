//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs breaks each rule of README.md; the exploration of its protocol finds each
// mistake.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "task", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "an early Unblock stays after the Block that it ends", File: "run.go", Test: "TestExploreHandOver",
		At:  "early",
		New: "\tr.removeLocked(t.parker)\n",
	},
	// Blocking, events, counters and the Mutex.
	{
		Name: "a task blocks after the run has failed", File: "run.go", Test: "TestExploreHandOver",
		At:  "failed",
		New: "",
	}, {
		Name: "one wait ends twice", File: "block.go", Test: "TestExploreHandOver",
		At:  "end-once",
		New: "\t\t\tw.Store(blockNone)\n\t\t\tt.run.dropBlocked(t)\n\t\t\tt.run.rt.resume(t)\n\t\t\treturn\n",
	}, {
		Name: "phase is not written before count is armed", File: "wait.go", Test: "TestExploreEvents",
		At:  "phase",
		New: "",
	}, {
		Name: "delayed completions are not flushed", File: "slot.go", Test: "TestExploreEvents",
		At:  "delayed",
		New: "",
	}, {
		Name: "an event ends twice", File: "event.go", Test: "TestExploreEvents",
		At:  "end-once",
		New: "\tif h.done.Load() {\n\t\treturn\n\t}\n\th.done.Store(true)\n",
	}, {
		Name: "bodyOver loads holds before it adds", File: "finish.go", Test: "TestExploreEvents",
		At:  "body-over",
		New: "\t\tif t.holds.Load() != 0 {\n\t\t\tt.holds.Add(bodyOver)\n\t\t\treturn false\n\t\t}\n\t\tt.holds.Add(bodyOver)\n",
	}, {
		Name: "the result of arming count is ignored", File: "finish.go", Test: "TestExploreEvents",
		At:  "arm-count",
		New: "\t\t\tt.count.Add(t.spawned)\n\t\t\treturn\n",
	}, {
		Name: "OnReady is called again", File: "onready.go", Test: "TestExploreEvents",
		At:  "once",
		New: "",
	}, {
		Name: "throttled creators are never resumed when all slots park", File: "throttle.go", Test: "TestExploreEvents",
		At:  "all-parked",
		New: "",
	}, {
		Name: "the backoff timer checks the slots before it disarms", File: "throttle.go", Test: "TestExploreEvents",
		At:  "L2",
		New: "\tif int(th.rt.sched.Parked()) != len(th.rt.slots.all) {\n\t\tth.backoff.armed.Store(false)\n\t\treturn\n\t}\n\tth.backoff.armed.Store(false) ",
	}, {
		Name: "the backoff timer never disarms", File: "throttle.go", Test: "TestExploreEvents",
		At:  "L2",
		New: "\t_ = 0 ",
	}, {
		Name: "a Mutex that a failed waiter was given is kept", File: "mutex.go", Test: "TestExploreMutex",
		At:  "late",
		New: "\t\t\tm.mu.Unlock()\n",
	}, {
		Name: "a Mutex is passed on without a holder", File: "mutex.go", Test: "TestExploreMutex",
		At:  "holder",
		New: "\tm.holder = nil\n",
	}, {
		Name: "the waiter loads the word before it announces itself", File: "layout.go", Test: "TestExploreWaitWord",
		At:  "announce",
		New: "if w.v.Load()&wordDone != 0 {\n\t\treturn false\n\t}\n\tw.v.Add(wordWaiting)\n\treturn true",
	},

	// Recorded loops.
	{
		Name: "E2 after E4", File: "replay.go", Test: "TestExploreReplay",
		At:  "E2",
		New: "\tif !last {\n\t\tdefer func() {\n\t\t\tt.holds.Add(0) // a step that the next run sees\n\t\t\tp.round++\n\t\t\tr.again(p, t, s)\n\t\t}()\n\t}\n",
	}, {
		Name: "E4 ignores the cut-off bit", File: "replay.go", Test: "TestExploreReplay",
		At:  "E4",
		New: "\tif p.state.Add(p.own) == 0 {\n\t\tf.MakeReady(&p.task.node)\n\t}\n",
	}, {
		Name: "C1 lets every part through", File: "replay.go", Test: "TestExploreReplay",
		At:  "C1",
		New: "\tr.cut.Store(true)\n",
	}, {
		Name: "C2 counts every part as waiting", File: "replay.go", Test: "TestExploreReplay",
		At:  "C2-waits",
		New: "\t\tif r.parts[i].state.Add(cutOff) != cutOff {\n\t\t\twaiting++\n\t\t}\n",
	}, {
		Name: "C2 counts no part as waiting", File: "replay.go", Test: "TestExploreReplay",
		At:  "C2-counts",
		New: "",
	}, {
		Name: "a part that is cut off is queued", File: "replay_release.go", Test: "TestExploreReplay",
		At:  "cut-off",
		New: "\tif p.state.Add(arrival)&^cutOff != 0 {\n\t\treturn\n\t}\n",
	}, {
		Name: "a successor gets two arrivals", File: "replay_release.go", Test: "TestExploreReplay",
		At:  "once",
		New: "\t\tr.arrive(to, f)\n",
	}, {
		Name: "E3 before E4 in the control task", File: "replay.go", Test: "TestExploreReplay",
		At:  "E3",
		New: "\tdefer func() { if p.state.Add(p.own) == 0 { f.MakeReady(&p.task.node) } }()\n",
	}, {
		Name: "the control task starts before a run that used Release is over", File: "replay_release.go", Test: "TestExploreReplay",
		At:  "control",
		New: "",
	}, {
		Name: "an edge is followed before all of its objects are released", File: "replay_release.go", Test: "TestExploreReplay",
		At:  "object",
		New: "",
	},
}
