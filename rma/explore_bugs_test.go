//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each rule of README.md, "The schedules that each rule prevents", broken, is
// found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "rma", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "looks before it announces", File: "epoch.go", Test: "TestExploreEpochs",
		Decl: "var s uint64",
		At:   "announce",
		New: `	s = w.state.Load()
	w.state.Add(1)
	if s&(stFreed|stOpen|stBusy) == stOpen {
		return true
	}
`,
	},
	{
		Name: "leaves without a look for the phase", File: "epoch.go", Test: "TestExploreEpochs",
		At: "phase",
		New: `	if w.state.Load()&stCount == 0 {
		w.sync()
	}
`,
	},
	{
		Name: "leaves without a look for others", File: "epoch.go", Test: "TestExploreEpochs",
		At: "phase",
		New: `	if w.phase == waitingOps {
		w.sync()
	}
`,
	},
	{
		Name: "leaves and starts nothing", File: "epoch.go", Test: "TestExploreEpochs",
		At:  "phase",
		New: ``,
	},
	{
		Name: "the phase after the look at the count", File: "epoch.go", Test: "TestExploreEpochs",
		At: "fence",
		New: `			if w.state.Load()&stCount == 0 {
				w.phase = waitingOps
				w.sync()
			} else {
				w.mu.Unlock()
				w.mu.Lock()
				w.phase = waitingOps
			}
			return
`,
	},
	{
		Name: "busy after the fence has begun", File: "epoch.go", Test: "TestExploreEpochs",
		At: "busy",
		New: `	defer w.state.Or(set)
`,
	},
	{
		Name: "queues without a second look", File: "epoch.go", Test: "TestExploreEpochs",
		Decl: "var s uint64",
		At:   "queue",
		New:  "\t\ts = w.state.Load() | stBusy\n",
	},
	{
		Name: "busy is cleared before what is queued is done", File: "epoch.go", Test: "TestExploreEpochs",
		At: "drain",
		New: `	w.phase = moving
	w.state.And(^stBusy)
`,
	},
	{
		Name: "busy for ever", File: "epoch.go", Test: "TestExploreEpochs",
		At: "not-busy",
		New: `	w.queue = nil
`,
	},
	{
		Name: "the error of the flush gets lost", File: "epoch.go", Test: "TestExploreEpochs",
		At: "error",
		New: `	err = w.opErr
`,
	},
}
