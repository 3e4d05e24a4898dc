// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"fmt"
	"slices"
	"strings"

	"weft/comm/internal/mem"
)

// algorithm is a way to make a collective of messages.
type algorithm struct {
	Name  string
	steps func(s *Schedule, d *Call) step
	// Better reports whether it is to be taken, by what all ranks know alike: the size of a part in
	// bytes, and the number of ranks. The last of a collective's algorithms is taken if no other is
	// better; its better is nil.
	Better func(unit, n int) bool
}

// The sizes at which algorithms change are guesses, by what is copied and sent; bench imb with
// WEFT_COLLECTIVES compares them.
const (
	// parts up to here are moved together with others: fewer messages, more copies
	SmallPart = 2 << 10
	LargeSum  = 32 << 10  // reductions from here on are worth two rounds of messages
	LargeCast = 256 << 10 // broadcasts from here on are worth a ring
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

// buffer is the one buffer of a broadcast.
func (d *Call) buffer(me int) mem.Buffer {
	if me == d.Root {
		return d.In
	}
	return d.Out
}

// Chosen is which algorithms are to be taken whatever the sizes are, by collective: the place in
// its list, plus 1.
type Chosen [Alltoall + 1]uint8

// Algorithm returns that of a collective of n ranks with parts of so many bytes.
func (all *Chosen) Algorithm(k Kind, unit, n int) *algorithm {
	list := Algorithms[k]
	i := int(all[k]) - 1
	if i < 0 {
		i = slices.IndexFunc(list, func(a algorithm) bool { return a.Better == nil || a.Better(unit, n) })
	}
	return &list[i]
}

// ParseChosen reads the value of a variable.
func ParseChosen(variable, text string) (Chosen, error) {
	var all Chosen
	for word := range strings.FieldsSeq(text) {
		name, want, _ := strings.Cut(word, "=")
		k := slices.Index(Names[:len(Algorithms)], name)
		if k < int(Barrier) {
			return all, fmt.Errorf("%s=%q: %q is no collective; there are %s, each with = and its algorithm behind",
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
