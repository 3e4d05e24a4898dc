//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each rule of README.md, "The board", broken, is found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "comm", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "no second look at the places", File: "board.go", Test: "TestExploreBoard",
		At: "second-look",
		New: `	for i := range q.places {
		if p := &q.places[i]; p.state.Load() == b.seq {
			return p, false
		}
	}
	if past := q.past[b.seq%boardPast].Load(); past < b.seq {
		return nil, false
	}
`,
	},
	{
		Name: "no look before the sleep", File: "board.go", Test: "TestExploreBoard",
		At: "sleep",
		New: `		b.mine.sleeps.Store(1)
		b.token.take()
`,
	},
	{
		Name: "the look before it says that it sleeps", File: "board.go", Test: "TestExploreBoard",
		At: "sleep",
		New: `		missing := !ready()
		b.mine.sleeps.Store(1)
		if missing {
			b.token.take()
		}
`,
	},
	{
		Name: "shown behind the look for sleepers", File: "board.go", Test: "TestExploreBoard",
		At: "show",
		New: `		defer p.state.Store(seq)
`,
	},
	{
		Name: "no nudge of who makes it of messages", File: "board.go", Test: "TestExploreBoard",
		At: "nudge-by-messages",
		New: `	if shown {
		b.nudgeAll(asleep)
	}
	return seq, shown
`,
	},
	{
		Name: "a place is always free", File: "board.go", Test: "TestExploreBoard",
		At: "free",
		New: `	return true
`,
	},
	{
		Name: "a floor while somebody is there", File: "board.go", Test: "TestExploreBoard",
		At: "floor",
		New: `		b.mine.floor.Store(seq)
`,
	},
	{
		Name: "two of a rank at the board", File: "board.go", Test: "TestExploreBoard",
		At:  "one-of-a-rank",
		New: "",
	},
	{
		Name: "combined before all have shown", File: "board_large.go", Test: "TestExploreBoard",
		At:  "all-have-shown",
		New: "",
	},
	{
		Name: "copied before all have combined", File: "board_large.go", Test: "TestExploreBoard",
		At:  "all-have-combined",
		New: "",
	},
	{
		Name: "a step without a nudge", File: "board_large.go", Test: "TestExploreBoard",
		At:  "nudge",
		New: "",
	},
}
