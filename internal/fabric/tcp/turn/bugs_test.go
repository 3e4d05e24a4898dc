//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each step of ../README.md, left out or out of order, is found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "turn", plantedBugs) }

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
		New: `	if t.word.Or(called)&looking != 0 || !t.Enter() {
		t.fired.Store(true)
		return
	}
	t.fired.Store(true)
`,
	},
	{
		Name: "S2 looks before it calls", File: "turn.go", Test: "TestExploreTurn",
		At: "S1",
		New: `	t.fired.Store(true)
	if !t.Enter() {
		return
	}
`,
	},
	{
		Name: "C1 only if nobody looks", File: "turn.go", Test: "TestExploreTurn",
		At: "C1",
		New: `	if t.Enter() {
		t.serve()
		t.Leave(false)
	}
`,
	},
	{
		Name: "who looks for long forgets that he has disarmed", File: "turn.go", Test: "TestExploreTurn",
		At: "disarmed",
		New: `		t.k.Arm(false)
`,
	},
	{
		Name: "who leaves arms for ever", File: "turn.go", Test: "TestExploreTurn",
		At: "arm",
		New: `	switch {
	case t.armed:
	case !t.k.Soon(found):
		t.armed = true
		t.k.Arm(true)
	case !t.guarded:
		t.guarded = true
		t.k.Guard()
	}
`,
	},
	{
		Name: "no guard", File: "turn.go", Test: "TestExploreRapid",
		At: "arm",
		New: `	if !t.armed && (n >= patience || !t.k.Soon(found)) {
		t.armed = true
		t.k.Arm(true)
	}
`,
	},
	{
		Name: "who leaves is armed before he arms", File: "turn.go", Test: "TestExploreTurn",
		At: "arm",
		New: `	switch {
	case t.armed:
	case n < patience && !t.k.Soon(found):
		t.armed = true
	case !t.guarded:
		t.guarded = true
		t.k.Guard()
	}
`,
	},
	{
		Name: "the guard comes once", File: "turn.go", Test: "TestExploreRapid",
		At: "G1",
		New: `	if !t.Enter() {
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
