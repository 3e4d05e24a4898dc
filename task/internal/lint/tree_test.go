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

// The order of lint mode in random trees of tasks must be the order by the bytes, one by one. Each
// task names parts of the memory that its parent names. Clocks are like the race detector's.

// A node is a task of such a tree. Its body is one step, or two steps, and between these it gives
// up a part of its first access.
type node struct {
	parent   *node
	kids     []*node
	accs     []chain.Access
	wait     bool
	releases []chain.Access // one at most
	linted   *Record

	first, second int // numbers of the steps; equal if there is one
	accesses      map[uintptr]mode
	strong        map[uintptr]bool
	released      map[uintptr]bool
	want          [2]*big.Int // the steps that each step must come after
}

// randomTree makes the children of p, which has mem. ranges: accesses are to ranges, not to
// objects.
func randomTree(r *rand.Rand, p *node, mem []byte, ranges, writes, weak bool, depth int) {
	for range 1 + r.IntN(4) {
		x := &node{parent: p, wait: r.IntN(4) == 0}
		p.kids = append(p.kids, x)
		isWeak, reads := depth > 0 && r.IntN(2) == 0, !writes || r.IntN(3) == 0
		var part []byte
		for range 1 + r.IntN(2) {
			lo := r.IntN(len(mem))
			hi := lo + 1 + r.IntN(len(mem)-lo)
			if !ranges {
				lo &^= 3
				hi = lo + 4
			}
			part = mem[lo:hi]
			a := chain.Slice(part).Access(chain.ModeInOut)
			switch {
			case ranges && reads:
				a = chain.Slice(part).Access(chain.ModeIn)
			case ranges:
			case reads:
				a = chain.Object((*[4]byte)(part), chain.ModeIn)
			default:
				a = chain.Object((*[4]byte)(part), chain.ModeInOut)
			}
			if isWeak {
				a = a.Weak()
			}
			x.accs = append(x.accs, a)
		}
		if depth > 0 && r.IntN(3) > 0 && len(x.accs) == 1 {
			randomTree(r, x, part, ranges, !reads, isWeak, depth-1)
		}
		if ranges && !isWeak && len(x.kids) == 0 && len(x.accs) == 1 && r.IntN(3) == 0 {
			lo := r.IntN(len(part))
			cut := part[lo : lo+1+r.IntN(len(part)-lo)]
			if x.releases = []chain.Access{chain.Slice(cut).Access(chain.ModeInOut)}; reads {
				x.releases[0] = chain.Slice(cut).Access(chain.ModeIn)
			}
		}
	}
}

// eachByte calls f for each byte of a.
func eachByte(a chain.Access, f func(at uintptr)) {
	lo, hi, _ := a.Memory()
	for b := lo; b < hi; b++ {
		f(b)
	}
}

// number numbers the steps in the order in which they run, and finds the bytes of all accesses.
func (x *node) number(all []*node) []*node {
	steps := 0
	if len(all) > 0 {
		steps = all[len(all)-1].second + 1
	}
	x.first, x.second = steps, steps+len(x.releases)
	x.accesses, x.strong, x.released = map[uintptr]mode{}, map[uintptr]bool{}, map[uintptr]bool{}
	for _, a := range x.accs {
		eachByte(a, func(at uintptr) {
			mode := a.Mode()
			if old, ok := x.accesses[at]; ok {
				mode = old.Both(mode)
			}
			x.accesses[at] = mode
			x.strong[at] = x.strong[at] || !a.IsWeak()
		})
	}
	for _, a := range x.releases {
		eachByte(a, func(at uintptr) { x.released[at] = true })
	}
	all = append(all, x)
	for _, k := range x.kids {
		all = k.number(all)
	}
	return all
}

func (x *node) isUnder(y *node) bool {
	for ; x != nil; x = x.parent {
		if x == y {
			return true
		}
	}
	return false
}

// expects finds the steps that x's first step must come after: the creator's step and all that it
// comes after; and the earlier tasks that use one of x's bytes, if one of the two writes. If such a
// task has Wait, all its descendants too.
func (x *node) expects(all []*node) {
	know := new(big.Int)
	learn := func(y *node, step int) {
		know.Or(know, y.want[step-y.first])
		know.SetBit(know, step, 1)
	}
	if x.parent != nil {
		learn(x.parent, x.parent.second)
	}
	for _, y := range all {
		if y == x {
			break
		}
		if x.isUnder(y) {
			continue
		}
		for at, m := range x.accesses {
			other, ok := y.accesses[at]
			if !ok || !x.strong[at] || m == chain.ModeIn && other == chain.ModeIn {
				continue
			}
			if y.strong[at] {
				learn(y, y.first)
				if !y.released[at] {
					learn(y, y.second)
				}
			}
			if y.wait {
				for _, z := range all {
					if z != y && z.isUnder(y) {
						learn(z, z.second)
					}
				}
			}
		}
	}
	x.want[0] = know
	x.want[1] = new(big.Int).SetBit(know, x.first, 1)
}

func TestOrderOfTrees(t *testing.T) {
	mem := new([16]byte)
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		root := &node{}
		randomTree(r, root, mem[:], seed%2 == 0, true, true, 3)
		l := new(Lint)
		all := root.number(nil)
		know := map[*race.Clock]*big.Int{}
		release := func(c *race.Clock, k *big.Int) {
			if old := know[c]; old != nil {
				k = new(big.Int).Or(old, k)
			}
			know[c] = new(big.Int).Set(k)
		}
		acquire := func(k *big.Int, c *race.Clock) {
			if old := know[c]; old != nil {
				k.Or(k, old)
			}
		}
		for _, x := range all {
			if x.linted == nil {
				x.linted = l.Enter(nil, nil, false, false)
			}
			x.expects(all)
			got := new(big.Int)
			acquire(got, &x.linted.born)
			for _, c := range x.linted.before() {
				acquire(got, c)
			}
			if x.want[0].Cmp(got) != 0 {
				require.Zero(t, x.want[0].Cmp(got), "seed %d: step %d comes after those in %b, and must come after those in %b:\n%s", seed, x.first, got, x.want[0], root.text(""))
			}
			got.SetBit(got, x.first, 1)
			for _, a := range x.releases {
				for _, c := range x.linted.giveUp(a) {
					release(c, got)
				}
				got.SetBit(got, x.second, 1)
			}
			for _, k := range x.kids {
				k.linted = l.Enter(x.linted, k.accs, k.wait, false)
				release(&k.linted.born, got)
			}
			release(&x.linted.done, got)
			for p := x.linted.parent; p != nil; p = p.parent {
				release(&p.kids, got)
			}
			for _, c := range x.linted.after() {
				release(c, got)
			}
		}
	}
}

func (x *node) text(indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d-%d: %v, gives up %v, wait %v\n", indent, x.first, x.second, x.accs, x.releases, x.wait)
	for _, k := range x.kids {
		b.WriteString(k.text(indent + "  "))
	}
	return b.String()
}
