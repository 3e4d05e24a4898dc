// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package bind divides the processors of a machine among the ranks that a launcher starts on it.
//
//	m, err := bind.Here()                    // the processors that this process may use
//	p, err := bind.Parse("auto")
//	sets, why, err := p.Divide(m, 4)         // by rank; nil: ranks are not bound, and why
//	restore, err := bind.Thread(sets[0])     // binds this thread and the processes that it starts
//	... os.StartProcess(...)
//	restore()
//
// A rank inherits the affinity mask of the thread that starts it. The caller must have locked its
// goroutine to the thread.
//
// Processors are sorted so that neighbours are near each other: by package, memory node, core, and
// hardware thread of the core. Ranks get contiguous parts of this order, whose lengths differ by
// one at most. If there is a core for each rank, whole cores are divided, each with all of its
// hardware threads; otherwise hardware threads are divided.
//
// All functions but Here, Allowed and Thread are pure. Nothing here waits or has state.
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

// Legal describes the texts that Parse accepts.
const Legal = "auto, none, core, or sets of processors, one for each rank, with commas between, as in 0-3,4-7 or 0+2,1+3"

// Policy determines which processors the ranks get. The zero value is auto.
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

// Auto reports whether the policy leaves the choice to the machine. Then it is no error if ranks
// cannot be bound.
func (p Policy) Auto() bool { return p.kind == auto }

// None reports whether the policy binds no rank.
func (p Policy) None() bool { return p.kind == none }

// Parse parses a policy.
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

// Divide returns the processors of each rank. If sets is nil, ranks must not be bound; why then
// says why not, if that may surprise the user. It returns an error if the machine does not have
// what the policy requires.
func (p Policy) Divide(m *Machine, ranks int) (sets []Set, why string, err error) {
	cores := m.cores()
	switch p.kind {
	case none:
		return nil, "", nil
	case auto:
		switch capacity := m.capacity(); {
		case ranks == 1:
			return nil, "", nil // the rank has all processors
		case ranks > capacity && capacity < len(m.Processors):
			return nil, fmt.Sprintf("%d ranks have the time of %.3g processors", ranks, m.Quota), nil
		case ranks > capacity:
			return nil, fmt.Sprintf("%d ranks share %d processors", ranks, capacity), nil
		case ranks > len(cores):
			// by hardware threads
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

// divide gives each rank a contiguous part of the units. The first ranks get one more if the units
// do not divide evenly.
func divide(units [][]Processor, ranks int) (sets []Set) {
	for ; ranks > 0; ranks-- {
		k := (len(units) + ranks - 1) / ranks
		sets = append(sets, setOf(units[:k]...))
		units = units[k:]
	}
	return sets
}
