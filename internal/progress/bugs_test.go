//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: the exploration finds each step of README.md that is left out or out of order.
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
		Name: "S1 after S2", File: "turn.go", Test: "TestExploreTurn",
		At: "S1",
		New: `	if t.word.Or(called)&polling != 0 || !t.enter() {
		t.fired.Or(1 << source)
		return
	}
	t.fired.Or(1 << source)
`,
	},
	{
		Name: "S2 checks before it calls", File: "turn.go", Test: "TestExploreTurn",
		At: "S1",
		New: `	t.fired.Or(1 << source)
	if !t.enter() {
		return
	}
`,
	},
	{
		Name: "C1 only if no goroutine polls", File: "turn.go", Test: "TestExploreTurn",
		At: "C1",
		New: `	if t.enter() {
		t.serve()
		t.leaveBy(false, false)
	}
`,
	},
	{
		Name: "disarming is not recorded", File: "turn.go", Test: "TestExploreTurn",
		At: "disarmed",
		New: `		t.sources[bits.TrailingZeros32(sources)].Arm(false, fabric.LeavingInVain)
`,
	},
	{
		Name: "a leaving goroutine arms for ever", File: "turn.go", Test: "TestExploreTurn",
		At: "exhausted",
		New: `	return false
`,
	},
	{
		Name: "no guard", File: "turn.go", Test: "TestExploreRapid",
		At:  "guard",
		New: ``,
	},
	{
		Name: "a source counts as armed without arming", File: "turn.go", Test: "TestExploreTurn",
		At: "arm",
		New: `	return fabric.ArmedFully
`,
	},
	{
		Name: "a deferred source counts as armed", File: "turn.go", Test: "TestExploreRapid",
		At:  "deferred",
		New: ``,
	},
	{
		Name: "a frame that is there at arming stays", File: "turn.go", Test: "TestExploreMemory",
		At: "once-more",
		New: `		return false
`,
	},
	{
		Name: "a caller that may not poll leaves a frame", File: "turn.go", Test: "TestExploreMemory",
		At: "ring",
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
		Name: "the guard is assumed to come again", File: "turn.go", Test: "TestExploreRapid",
		At:  "again",
		New: ``,
	},
	{
		Name: "the guard does not arm", File: "turn.go", Test: "TestExploreRapid",
		At: "G3",
		New: `	t.word.Store(0)
`,
	},
}
