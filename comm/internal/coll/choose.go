// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"fmt"
	"slices"
	"strings"

	"weft/comm/internal/mem"
)

// algorithm is a way to run a collective by messages.
type algorithm struct {
	Name  string
	steps func(s *Schedule, d *Call) step
	// Better reports whether to use the algorithm, by what all ranks know alike: the size of a
	// block in bytes, and the number of ranks. The first algorithm in the list for which Better is
	// nil or returns true is used.
	Better func(unit, n int) bool
}

// The sizes in bytes at which algorithms change are guesses, from the bytes copied and sent. bench
// imb with WEFT_COLLECTIVES compares them.
const (
	SmallPart = 2 << 10   // blocks up to here share messages: fewer messages, more copies
	LargeSum  = 32 << 10  // reductions from here on exchange halves, in twice as many messages
	LargeCast = 256 << 10 // broadcasts from here on use a ring
)

var Algorithms = [...][]algorithm{
	Barrier: {{Name: "dissemination", steps: barrierDissemination}},
	Bcast: {
		{Name: "ring", steps: bcastRing,
			Better: func(unit, n int) bool { return n > 2 && unit >= LargeCast }},
		{Name: "tree", steps: bcastTree},
	},
	Reduce: {{Name: "tree", steps: reduceTree}},
	Allreduce: {
		{Name: "halves", steps: allreduceHalves,
			Better: func(unit, _ int) bool { return unit >= LargeSum }},
		{Name: "doubling", steps: allreduceDoubling},
	},
	Scan: {{Name: "doubling", steps: scanDoubling}},
	Gather: {
		{Name: "tree", steps: gatherTree,
			Better: func(unit, n int) bool { return n > 4 && unit <= SmallPart }},
		{Name: "direct", steps: gatherDirect},
	},
	Scatter: {
		{Name: "tree", steps: scatterTree,
			Better: func(unit, n int) bool { return n > 4 && unit <= SmallPart }},
		{Name: "direct", steps: scatterDirect},
	},
	Allgather: {
		{Name: "doubling", steps: allgatherDoubling,
			Better: func(unit, n int) bool { return n > 2 && unit <= SmallPart }},
		{Name: "direct", steps: allgatherDirect},
	},
	Alltoall: {
		{Name: "bits", steps: alltoallBits,
			Better: func(unit, n int) bool { return n > 4 && unit <= SmallPart/4 }},
		{Name: "direct", steps: alltoallDirect},
	},
}

// buffer returns the one buffer of a broadcast.
func (d *Call) buffer(me int) mem.Buffer {
	if me == d.Root {
		return d.In
	}
	return d.Out
}

// Chosen has the algorithms that the user has chosen for all sizes, by collective: the index in its
// list, plus 1; 0: none is chosen.
type Chosen [len(Algorithms)]uint8

// Algorithm returns the algorithm for a collective of n ranks with blocks of unit bytes.
func (all *Chosen) Algorithm(k Kind, unit, n int) *algorithm {
	list := Algorithms[k]
	i := int(all[k]) - 1
	if i < 0 {
		i = slices.IndexFunc(list, func(a algorithm) bool { return a.Better == nil || a.Better(unit, n) })
	}
	return &list[i]
}

// ParseChosen parses the value of an environment variable, as in "bcast=ring reduce=tree".
func ParseChosen(variable, text string) (Chosen, error) {
	var all Chosen
	for word := range strings.FieldsSeq(text) {
		name, want, _ := strings.Cut(word, "=")
		k := slices.Index(Names[:len(Algorithms)], name)
		if k < int(Barrier) {
			return all, fmt.Errorf("%s=%q: %q is no collective; there are %s, each followed by = and its algorithm",
				variable, text, name, strings.Join(Names[Barrier:len(Algorithms)], ", "))
		}
		i := slices.IndexFunc(Algorithms[k], func(a algorithm) bool { return a.Name == want })
		if i < 0 {
			var names []string
			for _, a := range Algorithms[k] {
				names = append(names, a.Name)
			}
			return all, fmt.Errorf("%s=%q: %s has no algorithm %q; it has %s", variable, text, name, want, strings.Join(names, ", "))
		}
		all[k] = uint8(i + 1)
	}
	return all, nil
}
