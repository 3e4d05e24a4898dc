//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs breaks each rule of README.md once. The exploration of its protocol finds that.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "sched", plantedBugs) }

var plantedBugs = []explore.Bug{
	// The deque.
	{
		Name: "D1 after D2: bottom before the cell", File: "deque.go", Test: "TestExploreDeque",
		At:  "D1",
		New: "\td.bottom.Store(b + 1)\n\tr.cells[b&r.mask].store(n)\n",
	}, {
		Name: "D4 before D3: an old top", File: "deque.go", Test: "TestExploreDeque",
		Decl: "var t int64",
		At:   "D3",
		New:  "\tt = d.top.Load()\n\td.bottom.Store(b)\n",
	}, {
		Name: "D6 before D5: an old bottom", File: "deque.go", Test: "TestExploreDeque",
		Decl: "var t, b int64",
		At:   "D5",
		New:  "\tb = d.bottom.Load()\n\tt = d.top.Load()\n",
	}, {
		Name: "D8 before D7: the cell after the contest", File: "deque.go", Test: "TestExploreDeque",
		At:  "D7",
		New: "\tif !d.top.CompareAndSwap(t, t+1) {\n\t\treturn nil, true\n\t}\n\tx = r.cells[t&r.mask].load()\n",
	}, {
		Name: "no contest for the last one", File: "deque.go", Test: "TestExploreDeque",
		At:  "last",
		New: "\t\td.top.Store(t + 1)\n",
	}, {
		Name: "bottom stays below top", File: "deque.go", Test: "TestExploreDeque",
		At:  "empty",
		New: "\tif t > b {\n\t\treturn nil\n\t}\n",
	}, {
		Name: "the new ring too early", File: "deque.go", Test: "TestExploreDeque",
		At:  "grow",
		New: "\td.buf.Store(n)\n\tfor i := d.top.Load(); i < b; i++ {\n\t\tn.cells[i&n.mask].store(r.cells[i&r.mask].load())\n\t}\n",
	},

	// The idle protocol.
	{
		Name: "P2 before P1", File: "scheduler.go", Test: "TestExploreIdle",
		At:  "P1",
		New: "\t\tq.idle.notify()\n\t\tq.inject.push(n)\n\t\treturn\n",
	}, {
		Name: "no S3", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, At: "S1",
		New: bugS1 + sleepS2,
	}, {
		Name: "S3 before S1", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, At: "S1",
		New: "\ti.mu.Unlock()\n\tif q.Work() {\n\t\treturn s.search(), false\n\t}\n\ti.mu.Lock()\n" + bugS1 + sleepS2,
	}, {
		Name: "S3 before S2", File: "idle.go", Test: "TestExploreIdle",
		Decl: sleepDecl, At: "S1",
		New: bugS1 + sleepS3 + sleepS2,
	}, {
		Name: "found without P2", File: "idle.go", Test: "TestExploreIdle",
		At:  "P2",
		New: "\ts.q.idle.hunting.Add(-1)\n",
	}, {
		Name: "no P3 again", File: "idle.go", Test: "TestExploreIdle/b_1_1",
		At:  "P3",
		New: "\t\ti.hunting.Add(-1)\n\t\treturn\n",
	}, {
		Name: "a woken slot that never stops hunting", File: "idle.go", Test: "TestExploreIdle",
		At:  "P4",
		New: "\ts.sema.wake()",
	},
	{
		Name: "a slot parks without searching the high priorities", File: "scheduler.go", Test: "TestExploreIdle",
		At:  "high",
		New: "\tif q.inject.n.Load() > 0 || q.low.n.Load() > 0 {\n\t\treturn true\n\t}\n",
	},
}

// The steps of Slot.sleep. In bugS1 the variables of sleepDecl are assigned, not declared.
const (
	sleepDecl = "var wasHunting bool\nvar parked int32\n"
	bugS1     = "\twasHunting = s.hunting\n\ts.hunting = false\n\ti.list = append(i.list, s)\n\tparked = i.parked.Add(1)\n\ti.mu.Unlock()\n"
	sleepS2   = "\tif wasHunting {\n\t\ti.hunting.Add(-1) // S2\n\t}\n"
	sleepS3   = "\tif q.Work() { // S3\n" +
		"\t\tif i.unpark(s) {\n\t\t\ts.hunting = true\n\t\t\ti.hunting.Add(1)\n\t\t\tq.host.Wakes()\n\t\t\treturn s.search(), false\n\t\t}\n\t}\n"
)
