// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package bind divides the processors of a machine among the ranks that a launcher starts on it.
//
//	m, err := bind.Here()                    // what this process may use, and how it is built
//	p, err := bind.Parse("auto")
//	sets, why, err := p.Divide(m, 4)         // by rank; nil: ranks are not bound, and why
//	restore, err := bind.Thread(sets[0])     // this thread, and what it starts
//	... os.StartProcess(...)
//	restore()
//
// A rank inherits the affinity mask of the thread that starts it. The caller has locked its
// goroutine to the thread.
//
// Processors are put in an order in which neighbours are near: by package, node of memory, core,
// and hardware thread of the core. Ranks get contiguous parts of it, whose lengths differ by one at
// most. As long as there is a core for each rank, cores are divided, each with all of its threads;
// only then threads.
//
// All of it is pure but Here and Thread. Nothing here waits or has state.
package bind

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/env"
)

func init() {
	env.Bind.Standard = func() string { return "auto" }
	env.Bind.Check = func(text string) error {
		if _, err := Parse(text); err != nil {
			return fmt.Errorf("%s=%q; %w", env.Bind.Name, text, err)
		}
		return nil
	}
}

// Legal says what Parse takes.
const Legal = "auto, none, core, or sets of processors, one for each rank, with commas between, as in 0-3,4-7 or 0+2,1+3"

// Policy says which processors the ranks get. The zero value is auto.
type Policy struct {
	kind kind
	sets []Set // of kind listed
}

type kind uint8

const (
	auto kind = iota
	none
	core
	listed
)

// Auto reports whether the policy leaves the choice to the machine, so that what cannot be is no
// mistake.
func (p Policy) Auto() bool { return p.kind == auto }

// None reports whether nothing is to be bound.
func (p Policy) None() bool { return p.kind == none }

// Parse reads a policy.
func Parse(text string) (Policy, error) {
	switch text {
	case "auto":
		return Policy{}, nil
	case "none":
		return Policy{kind: none}, nil
	case "core":
		return Policy{kind: core}, nil
	}
	p := Policy{kind: listed}
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSet(part, "+")
		if err != nil {
			return Policy{}, fmt.Errorf("legal are %s; %w", Legal, err)
		}
		p.sets = append(p.sets, s)
	}
	return p, nil
}

// Divide returns the processors of each of so many ranks. Without sets, ranks are not to be bound;
// why says why not, if that may surprise. The error is a policy that this machine cannot follow.
func (p Policy) Divide(m *Machine, ranks int) (sets []Set, why string, err error) {
	cores := m.cores()
	switch p.kind {
	case none:
		return nil, "", nil
	case auto:
		switch room := m.room(); {
		case ranks == 1:
			return nil, "", nil // it has all
		case ranks > room && room < len(m.Processors):
			return nil, fmt.Sprintf("%d ranks have the time of %.3g processors", ranks, m.Quota), nil
		case ranks > room:
			return nil, fmt.Sprintf("%d ranks share %d processors", ranks, room), nil
		case ranks > len(cores):
			// by threads
			return divide(slices.Collect(slices.Chunk(m.Processors, 1)), ranks), "", nil
		}
		return divide(cores, ranks), "", nil
	case core:
		if ranks > len(cores) {
			return nil, "", fmt.Errorf("%d ranks, and %d cores that this launcher may use", ranks, len(cores))
		}
		return divide(cores[:ranks], ranks), "", nil
	}
	may := setOf(m.Processors)
	for i, s := range p.sets {
		for _, cpu := range s {
			if _, ok := slices.BinarySearch(may, cpu); !ok {
				return nil, "", fmt.Errorf("set %d has processor %d; this launcher may use %v", i, cpu, may)
			}
		}
	}
	if len(p.sets) < ranks {
		return nil, "", fmt.Errorf("there are %d sets for %d ranks; a set for each is needed", len(p.sets), ranks)
	}
	return p.sets[:ranks], "", nil
}

// divide gives each rank a contiguous part, the first ones one more if it does not come out even.
func divide(units [][]Processor, ranks int) (sets []Set) {
	for ; ranks > 0; ranks-- {
		k := (len(units) + ranks - 1) / ranks
		sets = append(sets, setOf(units[:k]...))
		units = units[k:]
	}
	return sets
}
