//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"slices"
	"testing"

	"weft/internal/chain"
	"weft/internal/explore"
)

// dequeProgram is an owner that pushes (+) and pops (-), and thieves that steal a few times each,
// with stealBatch after each success or without. The deque has before tasks at the start.
type dequeProgram struct {
	name    string
	ring    int64
	before  int
	owner   string
	thieves []int
	batch   bool
	big     bool // only with -explore.big
}

var dequePrograms = []dequeProgram{
	{"the last one", 4, 1, "-", []int{1}, false, false},
	{"the last one, two thieves", 4, 1, "-", []int{1, 1}, false, false},
	{"the last but one", 4, 2, "--", []int{2}, false, false},
	{"the last but one, two thieves", 4, 2, "--", []int{1, 1}, false, false},
	{"push and pop", 4, 0, "+-+-", []int{1}, false, false},
	{"push and pop, a patient thief", 4, 0, "+-+-", []int{2}, false, false},
	{"push after a lost contest", 4, 1, "-++", []int{2}, false, false},
	{"growing", 2, 2, "+-", []int{2}, false, false},
	{"growing, two thieves", 2, 2, "+", []int{1, 1}, false, false},
	{"growing twice", 1, 1, "++--", []int{1}, false, false},
	{"a full ring, seen late", 2, 0, "++-+", []int{2}, false, false},
	{"the ring goes round", 2, 0, "++-+-", []int{2}, false, false},
	{"batch", 8, 4, "--", []int{1}, true, false},
	{"batch, two thieves", 8, 4, "-", []int{1, 1}, true, false},
	{"batch while the owner empties", 8, 4, "----", []int{1}, true, false},
	{"batch and steal, two thieves", 8, 3, "-+", []int{1, 2}, true, true},
	{"two thieves, push and pop", 4, 1, "-+-", []int{2, 1}, false, true},
	{"growing, two patient thieves", 2, 1, "++--", []int{2, 2}, false, true},
	{"the last one, three thieves", 4, 2, "--", []int{1, 1, 1}, false, true},
}

// TestExploreDeque checks that every task comes out exactly once, that the deque was empty when pop
// found nothing, and that thieves get the oldest task first.
func TestExploreDeque(t *testing.T) {
	for _, p := range dequePrograms {
		t.Run(p.name, func(t *testing.T) {
			if p.big && !explore.Big() {
				t.Skip("large")
			}
			explore.Test(t, explore.Config{}, p.setup)
		})
	}
}

func (p *dequeProgram) setup(r *explore.Run) {
	owner := &Slot{}
	owner.deque.init(p.ring)
	d := &owner.deque
	r.Name("deque", d)
	r.Name("ring", d.buf.Load())
	tasks := make([]*chain.Node, 0, 8)
	push := func() {
		x := &chain.Node{Flags: uint16(len(tasks))}
		tasks = append(tasks, x)
		d.push(x)
	}
	for range p.before {
		push()
	}
	var popped []*chain.Node
	none := 0 // the first so many tasks must be out in the end, since a pop has found nothing
	r.Go("owner", func() {
		for _, op := range p.owner {
			if op == '+' {
				push()
				continue
			}
			if x := d.pop(); x != nil {
				popped = append(popped, x)
			} else {
				none = len(tasks)
			}
		}
	})
	thieves := make([]*Slot, len(p.thieves))
	stolen := make([][]*chain.Node, len(p.thieves))
	for i, times := range p.thieves {
		s := &Slot{}
		s.deque.init(8)
		thieves[i] = s
		r.Name(fmt.Sprint("own deque ", i), &s.deque)
		r.Go(fmt.Sprint("thief ", i), func() {
			for range times {
				x, _ := d.steal()
				if x == nil {
					continue
				}
				stolen[i] = append(stolen[i], x)
				if p.batch {
					s.stealBatch(d)
				}
			}
		})
	}
	r.End(func() error {
		out := slices.Clone(popped)
		for i, s := range thieves {
			for {
				x, lost := s.deque.steal()
				if lost {
					return fmt.Errorf("thief %d's own deque is not at rest", i)
				}
				if x == nil {
					break
				}
				stolen[i] = append(stolen[i], x)
			}
			if !p.batch && !slices.IsSortedFunc(stolen[i], func(a, b *chain.Node) int { return int(a.Flags) - int(b.Flags) }) {
				return fmt.Errorf("thief %d has got a newer task before an older one", i)
			}
			out = append(out, stolen[i]...)
		}
		for _, x := range tasks[:none] {
			if !slices.Contains(out, x) {
				return fmt.Errorf("a pop has found nothing, but task %d was there", x.Flags)
			}
		}
		for x := d.pop(); x != nil; x = d.pop() {
			out = append(out, x)
		}
		if !d.empty() || d.top.Load() != d.bottom.Load() {
			return fmt.Errorf("the deque is not empty in the end: top %d, bottom %d", d.top.Load(), d.bottom.Load())
		}
		for _, x := range tasks {
			n := 0
			for _, y := range out {
				if x == y {
					n++
				}
			}
			if n != 1 {
				return fmt.Errorf("task %d came out %d times", x.Flags, n)
			}
		}
		return nil
	})
}
