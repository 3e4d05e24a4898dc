// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// A program of random tasks runs in a random legal order, with two trees: one is told what is past,
// the other is not.

// actor is a task of such a program. It spawns its first children, may wait for all of them, spawns
// the others, and is over when they are.
type actor struct {
	parent      *actor
	name        string
	accs        []Access
	first, rest []*actor
	waits       bool // between them
	tree        [2]*Task
	state       int // of the constants
	live        int // children that are not over
	know        [2]map[*actor]bool
}

const (
	created = iota
	inTheMiddle
	released
	over
)

// family makes random children of x.
func family(r *rand.Rand, x *actor, ranges bool, depth int) (list []*actor) {
	for range r.IntN(5) {
		c := &actor{parent: x, name: fmt.Sprintf("%s.%d", x.name, len(x.first)+len(list))}
		for range r.IntN(3) {
			a := Access{Lo: uintptr(1 + 2*r.IntN(4)), Object: !ranges || r.IntN(3) == 0, Weak: r.IntN(2) == 0}
			a.Hi = a.Lo + uintptr(1+r.IntN(2))
			if !a.Object {
				a.Hi = a.Lo + uintptr(1+r.IntN(6))
			}
			a.Mode = [...]Mode{chain.ModeIn, chain.ModeIn, chain.ModeInOut, chain.ModeOut, chain.ModeConcurrent, chain.ModeCommutative, chain.ModeReduce}[r.IntN(7)]
			c.accs = append(c.accs, a)
		}
		if depth > 0 {
			c.waits = r.IntN(2) == 0
			c.first = family(r, c, ranges, depth-1)
			c.rest = family(r, c, ranges, depth-1)
		}
		list = append(list, c)
	}
	return list
}

func (x *actor) text(b *strings.Builder) string {
	fmt.Fprintf(b, "%s %+v %d waits %v %d\n", x.name, x.accs, len(x.first), x.waits, len(x.rest))
	for _, c := range slices.Concat(x.first, x.rest) {
		c.text(b)
	}
	return b.String()
}

// isReleased reports whether u's task has given u up: its body is over.
func isReleased(u *Entry, _, _ uintptr) bool { return u.Task.Mark.(*actor).state >= released }

// ready reports whether x may start, by one of the trees.
func (x *actor) ready(tree int) bool {
	ready := true
	x.tree[tree].Before(func(u *Entry, lo, hi uintptr) bool {
		ok := isReleased(u, lo, hi)
		ready = ready && ok
		return ok
	})
	return ready
}

// playing is one execution.
type playing struct {
	born []*actor // those that have been spawned and not started
	held []*actor // those in the middle of their bodies
	late []*actor // those that are over, of which the tree has not been told
	runs map[*Run]map[*actor]bool
}

func (p *playing) spawn(x *actor, list []*actor) {
	for _, c := range list {
		for i, t := range x.tree {
			c.tree[i] = t.Child(c.accs)
			c.tree[i].Mark = c
			c.know[i] = maps.Clone(x.know[i])
		}
		x.live++
		p.born = append(p.born, c)
	}
}

// start executes the first half of x's body.
func (p *playing) start(t *testing.T, x *actor, text string) {
	for i := range x.tree {
		x.tree[i].Before(func(u *Entry, _, _ uintptr) bool {
			if i == 0 {
				y := u.Task.Mark.(*actor)
				x.know[i][y] = true
				maps.Copy(x.know[i], y.know[i])
			} else {
				maps.Copy(x.know[i], p.runs[u.Run])
			}
			return true
		})
	}
	// The Run of an entry that x comes after may be that of a task above.
	for up := x.parent; up != nil; up = up.parent {
		delete(x.know[0], up)
		delete(x.know[1], up)
		for _, u := range up.tree[1].Entries {
			maps.DeleteFunc(x.know[1], func(y *actor, _ bool) bool { return p.runs[u.Run][y] && !x.know[0][y] })
		}
	}
	require.True(t, maps.Equal(x.know[0], x.know[1]), "%s comes after %s, and shall come after %s\n%s", x.name, names(x.know[1]), names(x.know[0]), text)
	x.tree[1].Start()
	p.spawn(x, x.first)
	x.state = inTheMiddle
	if x.waits && x.live > 0 {
		p.held = append(p.held, x)
		return
	}
	p.finish(x)
}

// finish executes the rest of x's body.
func (p *playing) finish(x *actor) {
	if x.waits {
		for i := range x.know {
			for _, c := range x.first {
				maps.Copy(x.know[i], c.below(i))
			}
		}
		x.tree[1].Forget()
	}
	p.spawn(x, x.rest)
	x.state = released
	for _, u := range x.tree[1].Entries {
		if p.runs[u.Run] == nil {
			p.runs[u.Run] = map[*actor]bool{}
		}
		maps.Copy(p.runs[u.Run], x.know[1])
		p.runs[u.Run][x] = true
	}
	p.end(x)
}

// below returns the actors known to x and to those below it.
func (x *actor) below(tree int) map[*actor]bool {
	m := maps.Clone(x.know[tree])
	m[x] = true
	for _, c := range slices.Concat(x.first, x.rest) {
		maps.Copy(m, c.below(tree))
	}
	return m
}

func (p *playing) end(x *actor) {
	for x != nil && x.state == released && x.live == 0 {
		x.state = over
		p.late = append(p.late, x)
		if x = x.parent; x != nil {
			x.live--
		}
	}
}

func names(m map[*actor]bool) (list []string) {
	for x := range m {
		list = append(list, x.name)
	}
	slices.Sort(list)
	return list
}

func takeOne(r *rand.Rand, list *[]*actor, which func(*actor) bool) *actor {
	var some []int
	for i, x := range *list {
		if which(x) {
			some = append(some, i)
		}
	}
	if len(some) == 0 {
		return nil
	}
	i := some[r.IntN(len(some))]
	x := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return x
}

// A tree that is told what is past answers for each task at each time whether it may start as the
// other tree does, and that it comes after the same tasks.
func TestPastChangesNothing(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 3))
		root := &actor{name: "root", tree: [2]*Task{{}, {}}, state: inTheMiddle, know: [2]map[*actor]bool{{}, {}}}
		root.waits = true
		root.first = family(r, root, seed%2 == 0, 2)
		root.rest = family(r, root, seed%2 == 0, 1)
		text := fmt.Sprintf("seed %d\n%s", seed, root.text(new(strings.Builder)))
		for i := range root.tree {
			root.tree[i].Mark = root
		}
		p := &playing{runs: map[*Run]map[*actor]bool{}}
		p.spawn(root, root.first)
		p.held = append(p.held, root)
		for root.state != over {
			for _, x := range p.born {
				require.Equal(t, x.ready(0), x.ready(1), "whether %s is ready: %s", x.name, text)
			}
			switch x := takeOne(r, &p.held, func(x *actor) bool { return x.live == 0 }); {
			case x != nil:
				p.finish(x)
			default:
				x = takeOne(r, &p.born, func(x *actor) bool { return x.ready(0) })
				require.NotNil(t, x, "no task is ready: %s", text)
				p.start(t, x, text)
			}
			for len(p.late) > 0 && r.IntN(3) > 0 {
				x := takeOne(r, &p.late, func(*actor) bool { return true })
				x.tree[1].Forget()
				x.tree[1].Leave()
			}
		}
	}
}

// size returns the number of entries that can be reached from the tree below t.
func size(t *Task) int {
	runs, uses, cells := map[*Run]bool{}, map[*Entry]bool{}, map[*domain]bool{}
	var run func(x *Run)
	var dom func(d *domain)
	run = func(x *Run) {
		if runs[x] {
			return
		}
		runs[x] = true
		for _, u := range x.entries {
			uses[u] = true
			dom(&u.Task.dom)
		}
		for _, p := range x.prevs {
			run(p)
		}
	}
	dom = func(d *domain) {
		if cells[d] {
			return
		}
		cells[d] = true
		last := func(c *cell) {
			for _, x := range c.last {
				run(x)
			}
		}
		d.objects.All(func(v any) bool {
			last(v.(*cell))
			return true
		})
		for _, c := range d.pieces {
			last(c)
		}
	}
	dom(&t.dom)
	return len(uses)
}

// A tree that is told what is past does not grow, and later tasks do not get longer answers,
// whether the creator is just ahead of its tasks or far.
func TestPastIsShort(t *testing.T) {
	in, out, conc, comm := chain.ModeIn, chain.ModeOut, chain.ModeConcurrent, chain.ModeCommutative
	all := func(m Mode) Access { return Access{Hi: 32, Mode: m} }
	part := func(m Mode) Access { return Access{Lo: 8, Hi: 24, Mode: m} }
	object := func(m Mode) Access { return Access{Hi: 32, Object: true, Mode: m} }
	weak := func(a Access) Access {
		a.Weak = true
		return a
	}
	type row struct{ accs, kids []Access } // each task is one access, and its child another
	for name, x := range map[string]row{
		"InOut":                      {[]Access{object(out)}, nil},
		"In, Concurrent":             {[]Access{object(in), object(conc)}, nil},
		"In, Commutative":            {[]Access{object(in), object(comm)}, nil},
		"Concurrent, Commutative":    {[]Access{object(conc), object(comm)}, nil},
		"three of each":              {[]Access{object(in), object(in), object(in), object(conc), object(conc), object(conc)}, nil},
		"readers, and one writer":    {append(slices.Repeat([]Access{object(in)}, 99), object(out)), nil},
		"ranges: InOut":              {[]Access{all(out), part(out)}, nil},
		"ranges: In, Concurrent":     {[]Access{all(in), all(conc)}, nil},
		"ranges: parts":              {[]Access{all(in), part(conc)}, nil},
		"ranges: parts, Commutative": {[]Access{all(comm), part(in)}, nil},
		"weak, with a writer":        {[]Access{weak(object(out))}, []Access{object(out)}},
		"weak, with two writers":     {[]Access{weak(object(out))}, []Access{object(out), object(out)}},
		"weak, with a reader":        {[]Access{weak(object(out)), weak(object(in))}, []Access{object(out), object(in)}},
		"weak, with a run":           {[]Access{weak(object(out))}, []Access{object(conc), object(conc)}},
		"weak, one run":              {[]Access{weak(object(conc)), object(in)}, []Access{object(conc), object(conc)}},
		"weak, by parts":             {[]Access{weak(all(out))}, []Access{{Hi: 16, Mode: out}, {Lo: 16, Hi: 32, Mode: comm}}},
	} {
		for _, ahead := range []int{1, 3000} {
			const tasks, bound = 3000, 500
			root := new(Task)
			heard := 0
			start := func(x *Task) {
				n := 0
				x.Before(func(*Entry, uintptr, uintptr) bool {
					n++
					return true
				})
				heard = max(heard, n)
				x.Start()
			}
			var list []*Task
			for i := range tasks {
				for len(list) < min(i+ahead, tasks) {
					list = append(list, root.Child(x.accs[len(list)%len(x.accs):][:1]))
				}
				c := list[i]
				start(c)
				for k := range x.kids {
					kid := c.Child(x.kids[k:][:1])
					start(kid)
					kid.Forget()
					kid.Leave()
				}
				c.Forget()
				c.Leave()
				if ahead == 1 && i%100 == 99 {
					require.Less(t, size(root), bound, "%s: after %d tasks", name, i+1)
				}
			}
			require.Less(t, size(root), bound, "%s: %d ahead", name, ahead)
			require.Less(t, heard, bound, "%s: %d ahead", name, ahead)
		}
	}
}
