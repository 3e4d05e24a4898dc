//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each rule of README.md, broken, is found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "meet", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "no look before the sleep", File: "run.go", Test: "TestExplore", At: "sleep",
		New: `	p.state.Store(stateOf(seq, ph))
`,
	},
	{
		Name: "the look before it says that it sleeps", File: "run.go", Test: "TestExplore", At: "sleep",
		New: `	if s.goesOn(d, seq) {
		return true, nil
	}
	p.state.Store(stateOf(seq, ph))
`,
	},
	{
		Name: "the last one tells nobody", File: "run.go", Test: "TestExplore", At: "told",
		New: `		return false
`,
	},
	{
		Name: "two end what waits", File: "place.go", Test: "TestExplore", At: "claim",
		New: `	_, ok := p.waits(seq)
	if ok {
		p.state.Store(stateOf(seq, claimed))
	}
	return ok
`,
	},
	{
		Name: "a place is always free", File: "queue.go", Test: "TestExplore", At: "free",
		New: `	return true
`,
	},
	{
		Name: "no look behind the queue", File: "run.go", Test: "TestExplore", At: "late-drain", New: "",
	},
	{
		Name: "a place is given back in silence", File: "run.go", Test: "TestExplore", At: "late-over",
		New: `	return
`,
	},
	{
		Name: "no nudge", File: "run.go", Test: "TestExplore", At: "nudge", New: "",
	},
	{
		Name: "given back without a look", File: "run.go", Test: "TestExplore", At: "give-back",
		New: `		p.state.Store(was)
		return
`,
	},
	{
		Name: "a large one given back without a look", File: "run.go", Test: "TestExplore", At: "give-back-large",
		New: `			p.state.Store(was)
			return
`,
	},
	{
		Name: "who makes it of messages is not looked for", File: "windows.go", Test: "TestExplore", At: "mixed",
		New: `		if false {
			return true
		}
`,
	},
	{
		Name: "combined before all have shown", File: "windows.go", Test: "TestExplore", At: "all-have-shown", New: "",
	},
	{
		Name: "copied before all have combined", File: "windows.go", Test: "TestExplore", At: "all-have-combined", New: "",
	},
	{
		Name: "a step without a nudge", File: "windows.go", Test: "TestExplore", At: "tell-step", New: "",
	},
}
