// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/race"
)

// The order of lint mode is asked whom each task of a random program comes after, and compared with what follows from the bytes, one by one.

const memory = 24

// program is the accesses of the children of one task, in order.
type program [][]chain.Access

// randomProgram makes a program that accesses mem. From its first range on all is about bytes; the groups of before end there, so there are none then.
func randomProgram(r *rand.Rand, mem *[memory]byte, groups bool) program {
	modes := [...]chain.Mode{chain.ModeIn, chain.ModeInOut, chain.ModeOut, chain.ModeConcurrent, chain.ModeCommutative}
	p := make(program, 2+r.IntN(10))
	for i := range p {
		if i == 0 && groups {
			p[i] = []chain.Access{chain.Slice(mem[:1]).Access(chain.ModeIn)}
			continue
		}
		for range 1 + r.IntN(3) {
			k := r.IntN(3)
			if groups {
				k = r.IntN(5)
			}
			lo := r.IntN(memory - 4)
			if r.IntN(3) > 0 {
				x := chain.Slice(mem[lo : lo+r.IntN(memory-lo+1)])
				p[i] = append(p[i], x.Access(modes[k]))
				continue
			}
			x := (*[4]byte)(mem[lo&^1:]) // objects overlap, but have one size
			p[i] = append(p[i], chain.Object(x, modes[k]))
		}
	}
	return p
}

// oracle says who comes after whom in a program.
type oracle struct {
	first   int                // task with a range
	objects []map[uintptr]mode // of the tasks before first: by address
	bytes   []map[uintptr]mode // of all
}

type mode = chain.Mode

func newOracle(p program) *oracle {
	o := &oracle{first: len(p)}
	for i, accs := range p {
		objects, bytes := map[uintptr]mode{}, map[uintptr]mode{}
		both := func(m map[uintptr]mode, at uintptr, mode mode) {
			if old, ok := m[at]; ok {
				mode = old.Both(mode)
			}
			m[at] = mode.Both(mode)
		}
		for _, a := range accs {
			lo, hi, slice := a.Memory()
			if lo == hi {
				continue
			}
			if slice {
				o.first = min(o.first, i)
			}
			both(objects, lo, a.Mode())
			for b := lo; b < hi; b++ {
				both(bytes, b, a.Mode())
			}
		}
		o.objects, o.bytes = append(o.objects, objects), append(o.bytes, bytes)
	}
	return o
}

// after reports whether task j comes after task i, directly, or is kept apart from it.
func (o *oracle) after(i, j int) bool {
	if i > j {
		return o.meets(j, i, func(at uintptr, a, b mode) bool {
			return a == chain.ModeCommutative && o.together(at, j, i)
		})
	}
	return i < j && o.meets(i, j, func(at uintptr, a, b mode) bool {
		switch {
		case b == chain.ModeIn:
			return a != chain.ModeIn
		case b == chain.ModeConcurrent:
			return !o.together(at, i, j)
		}
		return true
	})
}

func (o *oracle) meets(i, j int, f func(at uintptr, a, b mode) bool) bool {
	in := o.bytes
	if i < o.first && j < o.first {
		in = o.objects
	}
	for at, a := range in[i] {
		if b, ok := in[j][at]; ok && f(at, a, b) {
			return true
		}
	}
	return false
}

// together reports whether all accesses to a byte from task i to task j have one mode.
func (o *oracle) together(at uintptr, i, j int) bool {
	for k := i; k <= j; k++ {
		if m, ok := o.bytes[k][at]; ok && m != o.bytes[i][at] {
			return false
		}
	}
	return true
}

func TestOrderOfRanges(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		mem := new([memory]byte)
		p := randomProgram(r, mem, seed%2 == 0)
		l := new(Lint)
		root := &Record{l: l}
		tasks := make([]*Record, len(p))
		owners := map[*race.Clock][]int{}
		for i, accs := range p {
			x := &Record{l: l, parent: root}
			x.declare(accs)
			if len(x.uses) > 0 {
				x.enter()
			}
			tasks[i] = x
		}
		for i, x := range tasks {
			for _, c := range x.after() {
				owners[c] = append(owners[c], i)
			}
		}
		o := newOracle(p)
		for j, x := range tasks {
			got := make([]bool, len(p))
			for _, c := range x.before() {
				for _, i := range owners[c] {
					got[i] = i != j
				}
			}
			for i := range tasks {
				if want := o.after(i, j); got[i] != want {
					require.Equal(t, want, got[i], "seed %d: task %d after task %d, of\n%v", seed, j, i, text(p))
				}
			}
		}
		requireKnown(t, len(p), func(i int) *Record { return tasks[i] }, o, fmt.Sprintf("seed %d:\n%v", seed, text(p)))
		l = new(Lint)
		root = &Record{l: l}
		requireKnown(t, len(p), func(i int) *Record {
			x := &Record{l: l, parent: root}
			if x.declare(p[i]); len(x.uses) > 0 {
				x.enter()
			}
			tasks[i] = x
			return x
		}, o, fmt.Sprintf("spawned late, seed %d:\n%v", seed, text(p)))
	}
}

// requireKnown runs n tasks, of which spawn makes the next one, in their order, with clocks as the
// race detector has them: each comes after those that it must come after, and whom these come
// after, and no others, though chains are cut.
func requireKnown(t *testing.T, n int, spawn func(int) *Record, o *oracle, text string) {
	know := map[*race.Clock]*big.Int{}
	var tasks []*Record
	for j := range n {
		x := spawn(j)
		tasks = append(tasks, x)
		got, want := new(big.Int), new(big.Int)
		for _, c := range x.before() {
			if k := know[c]; k != nil {
				got.Or(got, k)
			}
		}
		for i := range j {
			if o.after(i, j) {
				want.Or(want, know[&tasks[i].done])
			}
		}
		require.Zero(t, want.Cmp(got), "task %d comes after those in %b, and shall come after those in %b; %s", j, got, want, text)
		release := func(c *race.Clock) {
			k := new(big.Int).Set(got)
			if old := know[c]; old != nil {
				k.Or(k, old)
			}
			know[c] = k
		}
		for _, c := range x.cut() {
			release(c)
		}
		got.SetBit(got, j, 1)
		release(&x.done)
		for _, c := range x.after() {
			release(c)
		}
	}
}

// What a task comes after is found in a few steps, however many have been before it in any chain;
// and those before it on an object are not kept.
func TestChainsStayShort(t *testing.T) {
	const tasks = 3000
	var x [4]int
	all, part := chain.Slice(x[:]), chain.Slice(x[1:3])
	for name, accs := range map[string][]chain.Access{
		"InOut":                      {chain.Object(&x, chain.ModeInOut)},
		"In, Concurrent":             {chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeConcurrent)},
		"In, Commutative":            {chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeCommutative)},
		"Concurrent, Commutative":    {chain.Object(&x, chain.ModeConcurrent), chain.Object(&x, chain.ModeCommutative)},
		"three of each":              {chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeIn), chain.Object(&x, chain.ModeConcurrent), chain.Object(&x, chain.ModeConcurrent), chain.Object(&x, chain.ModeConcurrent)},
		"ranges: InOut":              {all.Access(chain.ModeInOut), part.Access(chain.ModeInOut)},
		"ranges: In, Concurrent":     {all.Access(chain.ModeIn), all.Access(chain.ModeConcurrent)},
		"ranges: parts":              {all.Access(chain.ModeIn), part.Access(chain.ModeConcurrent)},
		"ranges: parts, Commutative": {all.Access(chain.ModeCommutative), part.Access(chain.ModeIn)},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(Lint)
			root := &Record{l: l}
			list := make([]*Record, tasks)
			for i := range list {
				list[i] = &Record{l: l, parent: root}
				list[i].declare(accs[i%len(accs):][:1])
				list[i].enter()
			}
			for i, x := range list {
				require.LessOrEqual(t, len(x.before()), 32, "task %d", i)
				x.cut()
			}
			length := 0
			for x := list[tasks-1].uses[0].runs[0]; len(x.prevs) > 0; x = x.prevs[0] {
				length++
			}
			if !strings.HasPrefix(name, "ranges") {
				require.LessOrEqual(t, length, 4)
			}
		})
	}
}

// A writer that has all of what its parent has named weakly cuts the parent's chain too, to where
// it knows all; one that reads it, or has a part of it, or has it of a strong parent, does not.
func TestCutsAbove(t *testing.T) {
	x := make([]int, 4)
	all, part, object := chain.Slice(x).Access(chain.ModeInOut), chain.Slice(x[:2]).Access(chain.ModeInOut), chain.Object(&x[0], chain.ModeInOut)
	for name, c := range map[string]struct {
		parent, child chain.Access
		cuts          bool
	}{
		"object":           {object.Weak(), object, true},
		"range":            {all.Weak(), all, true},
		"of a strong one":  {all, all, false},
		"the child reads":  {all.Weak(), chain.Slice(x).Access(chain.ModeIn), false},
		"the parent reads": {chain.Slice(x).Access(chain.ModeIn).Weak(), all, false},
		"the first part":   {all.Weak(), part, false},
		"the last part":    {all.Weak(), chain.Slice(x[2:]).Access(chain.ModeInOut), false},
		"another kind":     {object.Weak(), chain.Slice(x[:1]).Access(chain.ModeInOut), false},
	} {
		l := new(Lint)
		root := &Record{l: l}
		spawn := func(p *Record, a chain.Access) *Record {
			c := &Record{l: l, parent: p}
			c.declare([]chain.Access{a})
			c.enter()
			return c
		}
		spawn(root, c.parent.Strong())
		parent := spawn(root, c.parent)
		had := len(parent.uses[0].runs[0].prevs)
		know := spawn(parent, c.child).cut()
		require.Equal(t, c.cuts, len(know) == 1, name)
		if c.cuts {
			require.Same(t, &parent.uses[0].runs[0].enter, know[0], name)
			require.Equal(t, 1, had, name)
			had = 0
		}
		require.Len(t, parent.uses[0].runs[0].prevs, had, name)
	}
}

func text(p program) (s string) {
	for i, accs := range p {
		s += fmt.Sprintf("%d: %v\n", i, accs)
	}
	return s
}
