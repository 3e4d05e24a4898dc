//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs breaks rules of README.md, "The schedules that each rule prevents", one at a
// time. The exploration has to find each bug.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "rma", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "reads the bits before it announces", File: "epoch.go", Test: "TestExploreEpochs",
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
		Name: "leave does not check the phase", File: "epoch.go", Test: "TestExploreEpochs",
		At: "phase",
		New: `	if w.state.Load()&stCount == 0 {
		w.sync()
	}
`,
	},
	{
		Name: "leave does not check for other operations", File: "epoch.go", Test: "TestExploreEpochs",
		At: "phase",
		New: `	if w.phase == waitingOps {
		w.sync()
	}
`,
	},
	{
		Name: "leave starts no fence", File: "epoch.go", Test: "TestExploreEpochs",
		At:  "phase",
		New: ``,
	},
	{
		Name: "the phase is set after the count is read", File: "epoch.go", Test: "TestExploreEpochs",
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
		Name: "busy is set after the fence has begun", File: "epoch.go", Test: "TestExploreEpochs",
		At: "busy",
		New: `	defer w.state.Or(set)
`,
	},
	{
		Name: "queues without a second check", File: "epoch.go", Test: "TestExploreEpochs",
		Decl: "var s uint64",
		At:   "queue",
		New:  "\t\ts = w.state.Load() | stBusy\n",
	},
	{
		Name: "busy is cleared before queued operations are done", File: "epoch.go", Test: "TestExploreEpochs",
		At: "drain",
		New: `	w.phase = moving
	w.state.And(^stBusy)
`,
	},
	{
		Name: "busy is never cleared", File: "epoch.go", Test: "TestExploreEpochs",
		At: "not-busy",
		New: `	w.queue = nil
`,
	},
	{
		Name: "the error of the flush is lost", File: "epoch.go", Test: "TestExploreEpochs",
		At: "error",
		New: `	err = w.opErr
`,
	},
}
