//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// The cost of programs is counted in atomic operations, which dominate the time of small tasks: for
// all programs of a shape, in each order in which their bodies can make tasks and end, one at a
// time. So the test notices if a fast path is no longer taken though a slower one has the same
// result. A deliberate change of the engine changes the numbers, which shows its price.

// cost is a number of operations on words and locks.
type cost struct {
	orders int
	adds   int // operations that change the word
	loads  int // loads, and peeks that are followed by a plain store or by nothing
	stores int // plain ones
	checks int // calls of checkLive
}

func (c cost) String() string {
	return fmt.Sprintf("%d orders: %d additions, %d loads, %d stores, %d checks", c.orders, c.adds, c.loads, c.stores, c.checks)
}

// count counts operations until the function that it returns is called.
func (c *cost) count() (stop func()) {
	var now xatomic.Kind
	xatomic.Before = func(k xatomic.Kind, _ any, _ func() bool) { now = k }
	xatomic.After = func(_ int64, changed bool) {
		switch {
		case now == xatomic.Lock || now == xatomic.Unlock: // depends on where objects lie
		case !changed:
			c.loads++
		case now == xatomic.Store:
			c.stores++
		default:
			c.adds++
		}
	}
	chain.OnCheckLive(func(any) { c.checks++ })
	return func() {
		xatomic.Before, xatomic.After = nil, nil
		chain.OnCheckLive(nil)
	}
}

// seqTask is a task whose body does one thing at a time.
type seqTask struct {
	body     *exBody
	node     *chain.Node
	parent   *seqTask
	made     int // children
	live     int // the body, and children that are not over
	released bool
	ended    bool
	waiting  bool
}

// seqRun is one order of a program.
type seqRun struct {
	f     chain.Flow
	of    map[*chain.Node]*seqTask
	tasks []*seqTask
}

// run runs the program: pick chooses which of n bodies goes on.
func (w *seqRun) run(kids []*exBody, pick func(n int) int) {
	w.of = map[*chain.Node]*seqTask{}
	w.tasks = []*seqTask{{body: &exBody{kids: kids}, node: new(chain.Node), live: 1}}
	for {
		var can []*seqTask
		for _, t := range w.tasks {
			if !t.waiting && !t.ended && (!t.body.held || t.made < len(t.body.kids)) {
				can = append(can, t)
			}
		}
		if len(can) == 0 {
			return
		}
		w.step(can[pick(len(can))])
		for n := w.f.NextReady(); n != nil; n = w.f.NextReady() {
			w.admit(w.of[n])
		}
		for n := w.f.NextFree(); n != nil; n = w.f.NextFree() {
		}
	}
}

// step executes the next step of t's body.
func (w *seqRun) step(t *seqTask) {
	access := func(d decl) chain.Access { return accessTo(&exObjects[d.obj], d) }
	switch {
	case t.made < len(t.body.kids):
		c := &seqTask{body: t.body.kids[t.made], node: new(chain.Node), parent: t, live: 1, waiting: true}
		t.made++
		t.live++
		var list []chain.Access
		for _, d := range c.body.list {
			list = append(list, access(d))
		}
		w.of[c.node] = c
		w.tasks = append(w.tasks, c)
		if t.node.Register(c.node, list, &w.f) {
			w.admit(c)
		}
	case t.body.release && !t.released:
		t.released = true
		if err := t.node.Release(access(t.body.list[0]), &w.f); err != nil {
			panic(err)
		}
	default:
		t.ended = true
		t.node.Finish(&w.f)
		for t != nil {
			if t.live--; t.live > 0 {
				return
			}
			t.node.Retire()
			t = t.parent
		}
	}
}

func (w *seqRun) admit(t *seqTask) {
	if !t.node.Exclusive() || t.node.Acquire(&w.f) {
		t.waiting = false
	}
}

// inAllOrders calls run for each sequence of choices.
func inAllOrders(run func(pick func(n int) int)) (orders int) {
	var chosen, of []int
	for {
		at := 0
		run(func(n int) int {
			if at == len(chosen) {
				chosen, of = append(chosen, 0), append(of, n)
			}
			at++
			return chosen[at-1]
		})
		orders++
		k := len(chosen) - 1
		for k >= 0 && chosen[k] == of[k]-1 {
			k--
		}
		if k < 0 {
			return orders
		}
		chosen, of = chosen[:k+1], of[:k+1]
		chosen[k]++
	}
}

// TestExploreCosts counts the operations of all programs of the shapes.
func TestExploreCosts(t *testing.T) {
	shapes := append(exShapes[:7:7], commutativeShapes...)
	for i := range shapes {
		s := &shapes[i]
		s.holds = false
		var c cost
		s.each(func(kids []*exBody) {
			c.orders += inAllOrders(func(pick func(n int) int) {
				defer c.count()()
				new(seqRun).run(kids, pick)
			})
		})
		t.Log(s.name, c)
		require.Equal(t, costs[s.name], c.String(), s.name)
		require.Zero(t, chain.Resources())
	}
}

var commutativeShapes = []exShape{
	{name: "three tasks, commutative", tasks: 3, build: flat, forms: commutativeForms},
	{name: "two tasks, two objects, commutative", tasks: 2, both: true, build: flat, forms: commutativeForms},
	{name: "a task and a nest, commutative", tasks: 3, build: in(1, 2), forms: commutativeForms},
	{name: "release, commutative", tasks: 2, build: released(flat, 0), forms: commutativeForms},
}

func commutativeForms(obj int) []decl {
	return []decl{{obj, chain.ModeIn, false}, {obj, chain.ModeInOut, true}, {obj, chain.ModeCommutative, false}, {obj, chain.ModeCommutative, true}}
}

// costs are the numbers that -v prints.
var costs = map[string]string{
	"two tasks, two objects":              "7575 orders: 83221 additions, 111570 loads, 0 stores, 27468 checks",
	"three tasks":                         "6838 orders: 76454 additions, 71098 loads, 448 stores, 26447 checks",
	"a nest and a task":                   "13008 orders: 156140 additions, 133948 loads, 0 stores, 52868 checks",
	"a task and a nest":                   "7038 orders: 84641 additions, 75781 loads, 150 stores, 27035 checks",
	"a nest of two":                       "8856 orders: 93504 additions, 91944 loads, 324 stores, 30096 checks",
	"release":                             "664 orders: 5072 additions, 4416 loads, 0 stores, 1456 checks",
	"release, nested":                     "36168 orders: 450204 additions, 409028 loads, 0 stores, 155972 checks",
	"three tasks, commutative":            "2055 orders: 22866 additions, 29199 loads, 108 stores, 8389 checks",
	"two tasks, two objects, commutative": "1918 orders: 19593 additions, 36223 loads, 0 stores, 6970 checks",
	"a task and a nest, commutative":      "2142 orders: 25075 additions, 31833 loads, 30 stores, 8414 checks",
	"release, commutative":                "296 orders: 2252 additions, 2880 loads, 0 stores, 642 checks",
}
