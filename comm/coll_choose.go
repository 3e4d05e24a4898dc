// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"slices"
	"strings"

	"weft/comm/internal/mem"
)

// algorithm is a way to make a collective of messages.
type algorithm struct {
	name  string
	start func(c *Comm, d *collCall) *Request
	// better reports whether it is to be taken, by what all ranks know alike: the size of a part in bytes, and the number of ranks. The
	// last of a collective's algorithms is taken if no other is better; its better is nil.
	better func(unit, n int) bool
}

// The sizes at which algorithms change are guesses, by what is copied and sent; bench imb with WEFT_COLLECTIVES compares them.
const (
	smallPart = 2 << 10   // parts up to here are moved together with others: fewer messages, more copies
	largeSum  = 32 << 10  // reductions from here on are worth two rounds of messages
	largeCast = 256 << 10 // broadcasts from here on are worth a ring
)

var algorithms = [...][]algorithm{
	barrier: {{name: "dissemination", start: func(c *Comm, d *collCall) *Request { return c.barrierByMessages(d.id()) }}},
	bcast: {
		{name: "ring", start: func(c *Comm, d *collCall) *Request { return c.bcastRing(d.buffer(c.rank), d.root, d.id()) },
			better: func(unit, n int) bool { return n > 2 && unit >= largeCast }},
		{name: "tree", start: func(c *Comm, d *collCall) *Request { return c.bcastTree(d.buffer(c.rank), d.root, d.id()) }},
	},
	reduce: {{name: "tree", start: func(c *Comm, d *collCall) *Request { return c.reduceTree(d.in, d.out, d.op, d.root, d.id()) }}},
	allreduce: {
		{name: "halves", start: func(c *Comm, d *collCall) *Request { return c.allreduceHalves(d.in, d.out, d.op, d.id()) },
			better: func(unit, _ int) bool { return unit >= largeSum }},
		{name: "doubling", start: func(c *Comm, d *collCall) *Request { return c.allreduceDoubling(d.in, d.out, d.op, d.id()) }},
	},
	scan: {{name: "doubling", start: func(c *Comm, d *collCall) *Request { return c.scanDoubling(d.in, d.out, d.op, d.id()) }}},
	gather: {
		{name: "tree", start: func(c *Comm, d *collCall) *Request { return c.gatherTree(d.in, d.out, d.root, d.id()) },
			better: func(unit, n int) bool { return n > 4 && unit <= smallPart }},
		{name: "direct", start: func(c *Comm, d *collCall) *Request { return c.gatherDirect(d.in, d.out, d.root, d.id()) }},
	},
	scatter: {
		{name: "tree", start: func(c *Comm, d *collCall) *Request { return c.scatterTree(d.in, d.out, d.root, d.id()) },
			better: func(unit, n int) bool { return n > 4 && unit <= smallPart }},
		{name: "direct", start: func(c *Comm, d *collCall) *Request { return c.scatterDirect(d.in, d.out, d.root, d.id()) }},
	},
	allgather: {
		{name: "doubling", start: func(c *Comm, d *collCall) *Request { return c.allgatherDoubling(d.in, d.out, d.id()) },
			better: func(unit, n int) bool { return n > 2 && unit <= smallPart }},
		{name: "direct", start: func(c *Comm, d *collCall) *Request { return c.allgatherDirect(d.in, d.out, d.id()) }},
	},
	alltoall: {
		{name: "bits", start: func(c *Comm, d *collCall) *Request { return c.alltoallBits(d.in, d.out, d.id()) },
			better: func(unit, n int) bool { return n > 4 && unit <= smallPart/4 }},
		{name: "direct", start: func(c *Comm, d *collCall) *Request { return c.alltoallDirect(d.in, d.out, d.id()) }},
	},
}

// buffer is the one buffer of a broadcast.
func (d *collCall) buffer(me int) mem.Buffer {
	if me == d.root {
		return d.in
	}
	return d.out
}

func (d *collCall) id() collID { return collID{d.seq, d.what} }

// chosen is which algorithms are to be taken whatever the sizes are, by collective: the place in its list, plus 1.
type chosen [alltoall + 1]uint8

// byMessages starts a collective that is made of messages. It takes a copy, so that calls that do not come here keep theirs on the stack.
func (c *Comm) byMessages(d collCall) *Request {
	if d.seq == 0 {
		d.seq = c.number(&d)
	}
	return c.world.cfg.chosen.algorithm(d.kind, d.unit, c.size).start(c, &d)
}

// algorithm returns that of a collective of n ranks with parts of so many bytes.
func (all *chosen) algorithm(k collKind, unit, n int) *algorithm {
	list := algorithms[k]
	i := int(all[k]) - 1
	if i < 0 {
		i = slices.IndexFunc(list, func(a algorithm) bool { return a.better == nil || a.better(unit, n) })
	}
	return &list[i]
}

// parseChosen reads the value of EnvCollectives.
func parseChosen(text string) (chosen, error) {
	var all chosen
	for word := range strings.FieldsSeq(text) {
		name, want, _ := strings.Cut(word, "=")
		k := slices.Index(collNames[:len(algorithms)], name)
		if k < int(barrier) {
			return all, fmt.Errorf("%s=%q: %q is no collective; there are %s, each with = and its algorithm behind",
				EnvCollectives, text, name, strings.Join(collNames[barrier:len(algorithms)], ", "))
		}
		i := slices.IndexFunc(algorithms[k], func(a algorithm) bool { return a.name == want })
		if i < 0 {
			var names []string
			for _, a := range algorithms[k] {
				names = append(names, a.name)
			}
			return all, fmt.Errorf("%s=%q: %s has no algorithm %q; it has %s", EnvCollectives, text, name, want, strings.Join(names, ", "))
		}
		all[k] = uint8(i + 1)
	}
	return all, nil
}
