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
		Old: "\t\tif !d.top.CompareAndSwap(t, t+1) {\n\t\t\tx = nil\n\t\t}\n",
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
}
