//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs breaks each rule of README.md in turn. The exploration has to find every bug.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "smcoll", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "no check before the sleep", File: "run.go", Test: "TestExplore", At: "sleep",
		New: `	p.state.Store(stateOf(seq, ph))
`,
	},
	{
		Name: "the check before the state says waiting", File: "run.go", Test: "TestExplore", At: "sleep",
		New: `	if s.canContinue(d, seq) {
		return true, nil
	}
	p.state.Store(stateOf(seq, ph))
`,
	},
	{
		Name: "the last rank notifies nobody", File: "run.go", Test: "TestExplore", At: "notify",
		New: `		return false
`,
	},
	{
		Name: "two goroutines end one operation", File: "cell.go", Test: "TestExplore", At: "take",
		New: `	_, ok := p.isWaiting(seq)
	if ok {
		p.state.Store(stateOf(seq, taken))
	}
	return ok
`,
	},
	{
		Name: "a cell is always free", File: "queue.go", Test: "TestExplore", At: "cell-free",
		New: `	return true
`,
	},
	{
		Name: "no check after queueing", File: "run.go", Test: "TestExplore", At: "queued-drain", New: "",
	},
	{
		Name: "no drain after a cell becomes free", File: "run.go", Test: "TestExplore", At: "queued-finish",
		New: `	return
`,
	},
	{
		Name: "no nudge", File: "run.go", Test: "TestExplore", At: "nudge", New: "",
	},
	{
		Name: "given back without a check", File: "run.go", Test: "TestExplore", At: "give-back",
		New: `		p.state.Store(was)
		return
`,
	},
	{
		Name: "a large one given back without a check", File: "run.go", Test: "TestExplore", At: "give-back-large",
		New: `			p.state.Store(was)
			return
`,
	},
	{
		Name: "a rank that uses messages is overlooked", File: "staging.go", Test: "TestExplore", At: "any-uses-messages",
		New: `		if false {
			return true
		}
`,
	},
	{
		Name: "combined before all have filled", File: "staging.go", Test: "TestExplore", At: "all-have-filled", New: "",
	},
	{
		Name: "copied before all have combined", File: "staging.go", Test: "TestExplore", At: "all-have-combined", New: "",
	},
	{
		Name: "a step without a nudge", File: "staging.go", Test: "TestExplore", At: "notify-step", New: "",
	},
}
