// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/race"
)

// Each task of a random program must come, in lint mode, after the tasks that it comes after by the
// bytes, one by one.

const memory = 24

// program is the accesses of the children of one task, in order.
type program [][]chain.Access

// randomProgram makes a program that accesses mem. groups: it has groups. From its first range on,
// all accesses are compared by bytes, which would end the groups before it. So a program with
// groups begins with a range.
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

// oracle knows which task of a program comes after which, naively.
type oracle struct {
	first   int                // the first task with a range
	objects []map[uintptr]mode // modes by address, for the tasks before first
	bytes   []map[uintptr]mode // modes by byte, for all tasks
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

// after reports whether task j comes after task i directly. Precondition: i < j.
func (o *oracle) after(i, j int) bool {
	return o.meets(i, j, func(at uintptr, a, b mode) bool {
		switch b {
		case chain.ModeIn:
			return a != chain.ModeIn
		case chain.ModeConcurrent, chain.ModeCommutative:
			return !o.together(at, i, j)
		}
		return true
	})
}

// apart reports whether tasks i and j exclude each other, in any order. Precondition: i < j.
func (o *oracle) apart(i, j int) bool {
	return o.meets(i, j, func(at uintptr, a, b mode) bool {
		return b == chain.ModeCommutative && o.together(at, i, j)
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

// Programs are run twice: in their order, by a creator that spawns a task just before it runs; and
// in any legal order, after all tasks are spawned.
func TestOrderOfRanges(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := randomProgram(r, new([memory]byte), seed%2 == 0)
		for _, ahead := range []int{1, len(p)} {
			requireKnown(t, r, p, ahead, fmt.Sprintf("seed %d, %d ahead:\n%v", seed, ahead, text(p)))
		}
	}
}

// requireKnown runs a program, with clocks like the race detector's. Each task must come after
// exactly these tasks: those that it must come after or that exclude it, and all that these come
// after. That must hold although the tree forgets tasks. The creator spawns so many tasks in
// advance.
func requireKnown(t *testing.T, r *rand.Rand, p program, ahead int, text string) {
	o := newOracle(p)
	l := new(Lint)
	root := l.Enter(nil, nil, false, false)
	know := map[*race.Clock]*big.Int{}
	tasks, over := make([]*Record, 0, len(p)), make([]bool, len(p))
	known := make([]*big.Int, len(p)) // of the tasks that are over
	for range p {
		for n := 0; n < ahead && len(tasks) < len(p); n++ {
			tasks = append(tasks, l.Enter(root, p[len(tasks)], false, false))
		}
		var ready []int
	next:
		for j := range tasks {
			for i := range j {
				if over[j] || !over[i] && o.after(i, j) {
					continue next
				}
			}
			if !over[j] {
				ready = append(ready, j)
			}
		}
		j := ready[r.IntN(len(ready))]
		x, got, want := tasks[j], new(big.Int), new(big.Int)
		for _, c := range x.before() {
			if k := know[c]; k != nil {
				got.Or(got, k)
			}
		}
		for i := range tasks {
			if over[i] && (i < j && o.after(i, j) || o.apart(min(i, j), max(i, j))) {
				want.Or(want, known[i])
			}
		}
		require.Zero(t, want.Cmp(got), "task %d comes after those in %b, and must come after those in %b; %s", j, got, want, text)
		got.SetBit(got, j, 1)
		over[j], known[j] = true, got
		for _, c := range x.after() {
			k := new(big.Int).Set(got)
			if old := know[c]; old != nil {
				k.Or(k, old)
			}
			know[c] = k
		}
		if r.IntN(2) == 0 { // else this is late
			x.Over()
		}
	}
}

func text(p program) (s string) {
	for i, accs := range p {
		s += fmt.Sprintf("%d: %v\n", i, accs)
	}
	return s
}
