//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each step of README.md, left out or out of order, is found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "progress", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "L1 left out", File: "turn.go", Test: "TestExploreTurn",
		At:  "L1",
		New: ``,
	},
	{
		Name: "L2 does not see a call", File: "turn.go", Test: "TestExploreTurn",
		At: "L2",
		New: `		if t.word.Swap(0) != 0 {
			return
		}
`,
	},
	{
		Name: "L3 takes no note of fired", File: "turn.go", Test: "TestExploreTurn",
		At:  "L3",
		New: ``,
	},
	{
		Name: "S1 behind S2", File: "turn.go", Test: "TestExploreTurn",
		At: "S1",
		New: `	if t.word.Or(called)&polling != 0 || !t.enter() {
		t.fired.Or(1 << source)
		return
	}
	t.fired.Or(1 << source)
`,
	},
	{
		Name: "S2 looks before it calls", File: "turn.go", Test: "TestExploreTurn",
		At: "S1",
		New: `	t.fired.Or(1 << source)
	if !t.enter() {
		return
	}
`,
	},
	{
		Name: "C1 only if nobody looks", File: "turn.go", Test: "TestExploreTurn",
		At: "C1",
		New: `	if t.enter() {
		t.serve()
		t.leaveBy(false, false)
	}
`,
	},
	{
		Name: "who looks for long forgets that he has disarmed", File: "turn.go", Test: "TestExploreTurn",
		At: "disarmed",
		New: `		t.sources[bits.TrailingZeros32(sources)].Arm(false, fabric.LeavingInVain)
`,
	},
	{
		Name: "who leaves arms for ever", File: "turn.go", Test: "TestExploreTurn",
		At: "tired",
		New: `	return false
`,
	},
	{
		Name: "no guard", File: "turn.go", Test: "TestExploreRapid",
		At:  "guard",
		New: ``,
	},
	{
		Name: "who leaves is armed before he arms", File: "turn.go", Test: "TestExploreTurn",
		At: "arm",
		New: `	return fabric.ArmedFully
`,
	},
	{
		Name: "what is put off counts as armed", File: "turn.go", Test: "TestExploreRapid",
		At:  "put-off",
		New: ``,
	},
	{
		Name: "what is here when it is armed lies", File: "turn.go", Test: "TestExploreQuiet",
		At: "once-more",
		New: `		return false
`,
	},
	{
		Name: "a caller that may not poll leaves what is here", File: "turn.go", Test: "TestExploreQuiet",
		At: "knock",
		New: `			return false
`,
	},
	{
		Name: "the guard comes once", File: "turn.go", Test: "TestExploreRapid",
		At: "G1",
		New: `	if !t.enter() {
		return true
	}
`,
	},
	{
		Name: "the guard is thought to come again", File: "turn.go", Test: "TestExploreRapid",
		At:  "again",
		New: ``,
	},
	{
		Name: "the guard does not look", File: "turn.go", Test: "TestExploreRapid",
		At: "G3",
		New: `	t.word.Store(0)
`,
	},
}
