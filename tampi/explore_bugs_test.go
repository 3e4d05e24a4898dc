//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs leaves out or moves steps of a binding, one at a time. The exploration has to
// find each bug.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "tampi", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "the event is made after the bit is added", File: "iwait.go", Test: "TestExploreIwait",
		At: "start",
		New: `	if b.state.Add(bound)&complete != 0 {
		race.Acquire(&b.state)
		return b.err
	}
	b.release = t.HoldFor(c)
`,
	},
	{
		Name: "Iwait does not check the completion", File: "iwait.go", Test: "TestExploreIwait",
		At: "start",
		New: `	b.release = t.HoldFor(c)
	b.state.Add(bound)
`,
	},
	{
		Name: "the error is reported twice", File: "iwait.go", Test: "TestExploreIwait",
		At: "start",
		New: `	b.release = t.HoldFor(c)
	if b.state.Add(bound)&complete != 0 {
		b.release(b.err)
		return b.err
	}
`,
	},
	{
		Name: "the event is not ended", File: "iwait.go", Test: "TestExploreIwait",
		At: "start",
		New: `	b.release = t.HoldFor(c)
	if b.state.Add(bound)&complete != 0 {
		return b.err
	}
`,
	},
	{
		Name: "the completion always ends the event", File: "iwait.go", Test: "TestExploreIwait",
		At: "complete",
		New: `	b.err = err
	b.state.Add(complete)
	if b.release != nil {
		b.release(err)
	}
`,
	},
	{
		Name: "the completion does not end the event", File: "iwait.go", Test: "TestExploreIwait",
		At: "complete",
		New: `	b.err = err
	b.state.Add(complete)
`,
	},
	{
		Name: "the error is written after the bit is added", File: "iwait.go", Test: "TestExploreIwait",
		At: "complete",
		New: `	if b.state.Add(complete)&bound != 0 {
		b.release(b.err)
	}
	b.err = err
`,
	},
}
