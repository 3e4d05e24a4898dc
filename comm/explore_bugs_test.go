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
		Old: `	for range 2 {
		for i := range q.places {
			if p := &q.places[i]; p.state.Load() == b.seq {
				return p, false
			}
		}
		if past := q.past[b.seq%boardPast].Load(); past < b.seq {
			return nil, false
		}
		// Either it is this one, or a later one that has come in its place. In the second case the rank may have shown its part of this one between the
		// looks above.
	}
`,
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
		Old: sleeps,
		New: `		b.mine.sleeps.Store(1)
		b.token.take()
`,
	},
	{
		Name: "the look before it says that it sleeps", File: "board.go", Test: "TestExploreBoard",
		Old: sleeps,
		New: `		missing := !ready()
		b.mine.sleeps.Store(1)
		if missing {
			b.token.take()
		}
`,
	},
	{
		Name: "shown behind the look for sleepers", File: "board.go", Test: "TestExploreBoard",
		Old: `		p.state.Store(seq)
`,
		New: `		defer p.state.Store(seq)
`,
	},
	{
		Name: "no nudge of who makes it of messages", File: "board.go", Test: "TestExploreBoard",
		Old: `	b.nudgeAll(asleep)
	return seq, shown
`,
		New: `	if shown {
		b.nudgeAll(asleep)
	}
	return seq, shown
`,
	},
	{
		Name: "a place is always free", File: "board.go", Test: "TestExploreBoard",
		Old: `	return old <= b.safe
`,
		New: `	return true
`,
	},
	{
		Name: "a floor while somebody is there", File: "board.go", Test: "TestExploreBoard",
		Old: `		if !b.busy.Load() {
			b.mine.floor.Store(seq)
		}
`,
		New: `		b.mine.floor.Store(seq)
`,
	},
	{
		Name: "two of a rank at the board", File: "board.go", Test: "TestExploreBoard",
		Old: `		b.busy.Store(true)
`,
		New: "",
	},
	{
		Name: "combined before all have shown", File: "board_large.go", Test: "TestExploreBoard",
		Old: `		if err := b.until(d, uint64(2*k+1)); err != nil {
			return err
		}
`,
		New: "",
	},
	{
		Name: "copied before all have combined", File: "board_large.go", Test: "TestExploreBoard",
		Old: `		if err := b.until(d, uint64(2*k+2)); err != nil {
			return err
		}
`,
		New: "",
	},
	{
		Name: "a step without a nudge", File: "board_large.go", Test: "TestExploreBoard",
		Old: `	b.nudgeAll(b.sleepers(true))
`,
		New: "",
	},
}

// sleeps is the place of several bugs.
const sleeps = `		b.mine.sleeps.Store(1)
		if !ready() { // who came before would not have known
			b.token.take()
		}
`
