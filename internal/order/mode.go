// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import "weft/internal/chain"

// Mode is how memory is used, as package deps has it.
type Mode = chain.Mode

// kind is what there is to say of a mode: the case of a new one is a line of kinds.
type kind struct {
	needs what // of a strong use, before its task starts; those that may join go together with their neighbours
	alone bool // of those that go together, one at a time has the memory, in any order
}

var kinds = [...]kind{
	chain.ModeIn:          {needs: mayRead},
	chain.ModeOut:         {needs: mayWrite},
	chain.ModeInOut:       {needs: mayWrite},
	chain.ModeConcurrent:  {needs: mayJoin},
	chain.ModeCommutative: {needs: mayJoin, alone: true},
	chain.ModeReduce:      {needs: nothing}, // a copy of its own
}

// Waits reports whether a strong use of this mode waits for others. One that does not is in no order
// with them until it is combined.
func Waits(m Mode) bool { return kinds[m].needs != nothing }

// Writes reports whether uses of this mode change the memory.
func Writes(m Mode) bool { return kinds[m].needs != mayRead }

// Clash reports whether two tasks must not use the same memory at one time in these modes.
func Clash(a, b Mode) bool {
	return Waits(a) && Waits(b) && (a != b || kinds[a].needs == mayWrite)
}

// Grants reports whether a task that has declared own may have descendants that declare m. Who has
// memory alone has it for its descendants, unless own is weak.
func Grants(own Mode, weak bool, m Mode) bool {
	k := kinds[own]
	return !Waits(own) || !Waits(m) || k.needs == mayWrite || own == m || k.alone && !weak
}
