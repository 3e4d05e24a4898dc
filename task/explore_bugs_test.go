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
	// The deque.
	{
		Name: "D1 after D2: bottom before the cell", File: "deque.go", Test: "TestExploreDeque",
		Old: "\tr.cells[b&r.mask].store(t)\n\td.bottom.Store(b + 1)\n",
		New: "\td.bottom.Store(b + 1)\n\tr.cells[b&r.mask].store(t)\n",
	}, {
		Name: "D4 before D3: an old top", File: "deque.go", Test: "TestExploreDeque",
		Decl: "var t int64",
		Old:  "\td.bottom.Store(b) // announce: thieves must not take b without a contest\n\tt := d.top.Load()\n",
		New:  "\tt = d.top.Load()\n\td.bottom.Store(b)\n",
	}, {
		Name: "D6 before D5: an old bottom", File: "deque.go", Test: "TestExploreDeque",
		Decl: "var t, b int64",
		Old:  "\tt := d.top.Load()\n\tb := d.bottom.Load()\n",
		New:  "\tb = d.bottom.Load()\n\tt = d.top.Load()\n",
	}, {
		Name: "D8 before D7: the cell after the contest", File: "deque.go", Test: "TestExploreDeque",
		Old: "\tif !d.top.CompareAndSwap(t, t+1) {\n\t\treturn nil, true\n\t}\n",
		New: "\tif !d.top.CompareAndSwap(t, t+1) {\n\t\treturn nil, true\n\t}\n\tx = r.cells[t&r.mask].load()\n",
	}, {
		Name: "no contest for the last one", File: "deque.go", Test: "TestExploreDeque",
		Old: "\t\tif d.top.CompareAndSwap(t, t+1) {\n\t\t\td.own++\n\t\t} else {\n\t\t\tx = nil\n\t\t}\n",
		New: "\t\td.top.Store(t + 1)\n",
	}, {
		Name: "bottom stays below top", File: "deque.go", Test: "TestExploreDeque",
		Old: "\tif t > b {\n\t\td.bottom.Store(b + 1)\n\t\treturn nil\n\t}\n",
		New: "\tif t > b {\n\t\treturn nil\n\t}\n",
	}, {
		Name: "the new ring too early", File: "deque.go", Test: "TestExploreDeque",
		Old: "\tfor i := d.top.Load(); i < b; i++ {\n\t\tn.cells[i&n.mask].store(r.cells[i&r.mask].load())\n\t}\n",
		New: "\td.buf.Store(n)\n\tfor i := d.top.Load(); i < b; i++ {\n\t\tn.cells[i&n.mask].store(r.cells[i&r.mask].load())\n\t}\n",
	},

	// The idle protocol.
	{
		Name: "P2 before P1", File: "wait.go", Test: "TestExploreIdle",
		Old: "\t\trt.inject.push(t)\n",
		New: "\t\trt.idle.notify()\n\t\trt.inject.push(t)\n\t\treturn\n",
	}, {
		Name: "no S3", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, Old: sleepS1 + sleepS2 + sleepS3,
		New: bugS1 + sleepS2,
	}, {
		Name: "S3 before S1", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, Old: sleepS1 + sleepS2 + sleepS3,
		New: "\ti.mu.Unlock()\n\tif rt.anyWork() {\n\t\treturn s.look(), false\n\t}\n\ti.mu.Lock()\n" + bugS1 + sleepS2,
	}, {
		Name: "S3 before S2", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, Old: sleepS1 + sleepS2 + sleepS3,
		New: bugS1 + sleepS3 + sleepS2,
	}, {
		Name: "found without P2", File: "idle.go", Test: "TestExploreIdle",
		Old: "\tif s.rt.idle.hunting.Add(-1) == 0 {\n\t\ts.rt.idle.notify()\n\t}\n",
		New: "\ts.rt.idle.hunting.Add(-1)\n",
	}, {
		Name: "no P3 again", File: "idle.go", Test: "TestExploreIdle/b_1_1",
		Old: "\t\tif i.hunting.Add(-1) != 0 || i.parked.Load() == 0 {\n\t\t\treturn\n\t\t}\n",
		New: "\t\ti.hunting.Add(-1)\n\t\treturn\n",
	}, {
		Name: "the hunting that nobody ends", File: "idle.go", Test: "TestExploreIdle",
		Old: "\ts.hunting = true\n\ts.sema.wake() // P4; the slot is hunting from here on\n",
		New: "\ts.sema.wake()",
	},
	{
		Name: "a slot parks without a look at the high priorities", File: "idle.go", Test: "TestExploreIdle",
		Old: "\tif rt.inject.n.Load() > 0 || rt.high.n.Load() > 0 || rt.low.n.Load() > 0 {\n\t\treturn true\n\t}\n",
		New: "\tif rt.inject.n.Load() > 0 || rt.low.n.Load() > 0 {\n\t\treturn true\n\t}\n",
	}, {
		Name: "a token stays after the Block that it ends", File: "run.go", Test: "TestExploreHandOver",
		Old: "\tw.CompareAndSwap(blockToken, blockNone)\n\tr.removeLocked(t.parker)\n",
		New: "\tr.removeLocked(t.parker)\n",
	},
	// Blocking, events, counters and the Mutex.
	{
		Name: "a task blocks after the run has failed", File: "run.go", Test: "TestExploreHandOver",
		Old: "\tif r.stopped.Load() {\n\t\treturn false\n\t}\n",
		New: "",
	}, {
		Name: "two end one wait", File: "block.go", Test: "TestExploreHandOver",
		Old: "\t\t\tif w.CompareAndSwap(blocked, blockNone) {\n\t\t\t\tt.run.dropBlocked(t)\n\t\t\t\tt.run.rt.resume(t)\n\t\t\t\treturn\n\t\t\t}\n",
		New: "\t\t\tw.Store(blockNone)\n\t\t\tt.run.dropBlocked(t)\n\t\t\tt.run.rt.resume(t)\n\t\t\treturn\n",
	}, {
		Name: "phase is not written before count is armed", File: "wait.go", Test: "TestExploreEvents",
		Old: "\t\tt.phase = phaseWait\n",
		New: "",
	}, {
		Name: "kept-back completions are not told", File: "slot.go", Test: "TestExploreEvents",
		Old: "\t\tif s.overOf != nil {\n\t\t\ts.tell() // may make a parent ready\n\t\t\ts.settle(true)\n\t\t\tcontinue\n\t\t}\n",
		New: "",
	}, {
		Name: "an event ends twice", File: "event.go", Test: "TestExploreEvents",
		Old: "\tif !h.done.CompareAndSwap(false, true) {\n\t\treturn\n\t}\n",
		New: "\tif h.done.Load() {\n\t\treturn\n\t}\n\th.done.Store(true)\n",
	}, {
		Name: "bodyOver looks first", File: "finish.go", Test: "TestExploreEvents",
		Old: "\t\tif t.holds.Add(bodyOver) != bodyOver {\n\t\t\treturn false\n\t\t}\n",
		New: "\t\tif t.holds.Load() != 0 {\n\t\t\tt.holds.Add(bodyOver)\n\t\t\treturn false\n\t\t}\n\t\tt.holds.Add(bodyOver)\n",
	}, {
		Name: "who arms count does not look", File: "finish.go", Test: "TestExploreEvents",
		Old: "\t\t\tif t.count.Add(t.spawned) != 0 {\n\t\t\t\treturn\n\t\t\t}\n",
		New: "\t\t\tt.count.Add(t.spawned)\n\t\t\treturn\n",
	}, {
		Name: "OnReady is called again", File: "onready.go", Test: "TestExploreEvents",
		Old: "\tt.node.Flags &^= flagOnReady // before somebody else may queue t\n",
		New: "",
	}, {
		Name: "a window that never stalls", File: "window.go", Test: "TestExploreEvents",
		Old: "\t\tw.postpone()\n",
		New: "",
	}, {
		Name: "the timer of a stall looks before it says that it is over", File: "window_later.go", Test: "TestExploreEvents",
		Old: "\tw.later.armed.Store(false) ",
		New: "\tif int(w.rt.idle.parked.Load()) != len(w.rt.slots.all) {\n\t\tw.later.armed.Store(false)\n\t\treturn\n\t}\n\tw.later.armed.Store(false) ",
	}, {
		Name: "the timer of a stall is started once only", File: "window_later.go", Test: "TestExploreEvents",
		Old: "\tw.later.armed.Store(false) ",
		New: "\t_ = 0 ",
	}, {
		Name: "a Mutex that came too late is kept", File: "mutex.go", Test: "TestExploreMutex",
		Old: "\t\t\tm.passAndUnlock()\n",
		New: "\t\t\tm.mu.Unlock()\n",
	}, {
		Name: "a Mutex is passed on without a holder", File: "mutex.go", Test: "TestExploreMutex",
		Old: "\tm.holder = w.t\n",
		New: "\tm.holder = nil\n",
	}, {
		Name: "the waiter looks first", File: "waitword.go", Test: "TestExploreWaitWord",
		Old: "return w.v.Add(wordWaiting)&wordDone == 0",
		New: "if w.v.Load()&wordDone != 0 {\n\t\treturn false\n\t}\n\tw.v.Add(wordWaiting)\n\treturn true",
	},

	// Recorded loops.
	{
		Name: "E2 after E4", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tif !last {\n\t\tp.round++\n\t\tr.again(p, t, s)\n\t}\n",
		New: "\tif !last {\n\t\tdefer func() {\n\t\t\tt.holds.Add(0) // a step that the next run sees\n\t\t\tp.round++\n\t\t\tr.again(p, t, s)\n\t\t}()\n\t}\n",
	}, {
		Name: "E4 does not see the cut", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tswitch v := p.state.Add(p.own); {\n\tcase v == 0:\n\t\tf.MakeReady(&p.task.node)\n\tcase v&cutOff != 0:\n\t\treturn loop\n\t}\n",
		New: "\tif p.state.Add(p.own) == 0 {\n\t\tf.MakeReady(&p.task.node)\n\t}\n",
	}, {
		Name: "C1 lets everybody through", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tif !r.cut.CompareAndSwap(false, true) {\n\t\treturn\n\t}\n",
		New: "\tr.cut.Store(true)\n",
	}, {
		Name: "C2 takes every part for one that waits", File: "replay.go", Test: "TestExploreReplay",
		Old: "\t\tif (r.parts[i].state.Add(cutOff)-cutOff)&ownHere != 0 {\n\t\t\twaiting++\n\t\t}\n",
		New: "\t\tif r.parts[i].state.Add(cutOff) != cutOff {\n\t\t\twaiting++\n\t\t}\n",
	}, {
		Name: "C2 takes no part for one that waits", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tloop.count.Add(int64(-waiting)) // does not make it zero: the caller's is left\n",
		New: "",
	}, {
		Name: "a part that is cut off is queued", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tif p.state.Add(arrival) != 0 {\n\t\treturn\n\t}\n",
		New: "\tif p.state.Add(arrival)&^cutOff != 0 {\n\t\treturn\n\t}\n",
	}, {
		Name: "a successor is told twice", File: "given.go", Test: "TestExploreReplay",
		Old: "\t\tif !g.passed[i] {\n\t\t\tr.arrive(to, f)\n\t\t}\n",
		New: "\t\tr.arrive(to, f)\n",
	}, {
		Name: "E3 before E4 in the control task", File: "replay.go", Test: "TestExploreReplay",
		Old: "\tif p.state.Add(p.own) == 0 {\n\t\tf.MakeReady(&p.task.node) // there are no tasks\n\t\treturn\n\t}\n",
		New: "\tdefer func() { if p.state.Add(p.own) == 0 { f.MakeReady(&p.task.node) } }()\n",
	}, {
		Name: "the control task overtakes", File: "given.go", Test: "TestExploreReplay",
		Old: "\t\tg.late = true\n\t\tr.parts[r.control].state.Add(^uint32(arrival - 1))\n",
		New: "",
	}, {
		Name: "an object is passed on with another one", File: "given.go", Test: "TestExploreReplay",
		Old: "\t\tif !g.uses[i] {\n\t\t\treturn i\n\t\t}\n",
		New: "",
	},
}

// The steps of slot.sleep, and the first one as it stands where the variables are declared.
const (
	sleepDecl = "var wasHunting bool\nvar n int32\n"
	bugS1     = "\twasHunting = s.hunting\n\ts.hunting = false\n\ti.list = append(i.list, s)\n\tn = i.parked.Add(1)\n\ti.mu.Unlock()\n"
	sleepS1   = "\twasHunting := s.hunting\n\ts.hunting = false\n\ti.list = append(i.list, s)\n\tn := i.parked.Add(1) // S1\n\ti.mu.Unlock()\n"
	sleepS2   = "\tif wasHunting {\n\t\ti.hunting.Add(-1) // S2\n\t}\n"
	sleepS3   = "\tif rt.anyWork() { // S3\n" +
		"\t\tif i.unpark(s) {\n\t\t\ts.hunting = true\n\t\t\ti.hunting.Add(1)\n\t\t\ti.still.wakes()\n\t\t\treturn s.look(), false\n\t\t}\n\t}\n"
)
