// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// text formats a cycle: the edges of each node, with a prime for the next round and, in
// parentheses, the objects that an edge stands for.
func (c *Cycle) text() string {
	var b strings.Builder
	for n := range c.Nodes() {
		fmt.Fprintf(&b, "%d:", n)
		for _, e := range c.Edges(n) {
			fmt.Fprintf(&b, " %d", e.To)
			if e.Next {
				b.WriteByte('\'')
			}
			if o := c.Objects(e); len(o) > 0 {
				fmt.Fprint(&b, o)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestCycleEdges(t *testing.T) {
	var o [8]int
	a, b := &o[0], &o[1]
	for _, tt := range []struct {
		name  string
		lists [][]Access
		apart bool
		want  string
	}{
		{"nothing", nil, false, ""},
		{"no accesses", [][]Access{nil, nil}, false, "0:\n1:\n"},
		{"one writer", [][]Access{{InOut(a)}}, false, "0:\n"},
		{"one reader", [][]Access{{In(a)}}, false, "0:\n"},
		{"only readers", [][]Access{{In(a)}, {In(a)}}, false, "0:\n1:\n"},
		{"one run", [][]Access{{Concurrent(a)}, {Concurrent(a)}}, false, "0:\n1:\n"},
		{"two writers", [][]Access{{InOut(a)}, {Out(a)}}, false, "0: 1[0]\n1: 0'[0]\n"},
		{"two writers, apart", [][]Access{{InOut(a)}, {Out(a)}}, true, "0: 1[0]\n1:\n"},
		{"writer, readers", [][]Access{{Out(a)}, {In(a)}, {In(a)}}, false, "0: 1[0] 2[0]\n1: 0'[0]\n2: 0'[0]\n"},
		{"readers around the seam", [][]Access{{In(a)}, {Out(a)}, {In(a)}}, false, "0: 1[0]\n1: 0'[0] 2[0]\n2: 1'[0]\n"},
		{"run and readers", [][]Access{{Concurrent(a)}, {Concurrent(a)}, {In(a)}}, false, "0: 2[0]\n1: 2[0]\n2: 0'[0] 1'[0]\n"},
		{"weak is strong", [][]Access{{InOut(a).Weak()}, {In(a).Weak()}}, false, "0: 1[0]\n1: 0'[0]\n"},
		{"modes combine", [][]Access{{In(a), Concurrent(a)}, {Concurrent(a)}}, false, "0: 1[0]\n1: 0'[0]\n"},
		{"one edge for two objects", [][]Access{{Out(a), Out(b)}, {In(b), In(a)}}, false, "0: 1[0 1]\n1: 0'[0 1]\n"},
		{"a chain", [][]Access{{InOut(a)}, {InOut(a)}, {InOut(a)}}, false, "0: 1[0]\n1: 2[0]\n2: 0'[0]\n"},
		{"implied by the next one", [][]Access{{Out(a)}, {In(a), InOut(b)}, {In(a), InOut(b)}}, false,
			"0: 1[0]\n1: 0'[0] 2[1]\n2: 0'[0] 1'[1]\n"},
		{"implied by one that leads into the next round", [][]Access{{In(a), InOut(b)}, {InOut(a)}, {In(a), InOut(b)}}, false,
			"0: 1[0] 2[1]\n1: 2[0]\n2: 0'[1] 1'[0]\n"},
		{"not implied: b may be given up early", [][]Access{{Out(a), Out(b)}, {InOut(b), Out(&o[2])}, {In(&o[2]), In(a)}}, false,
			"0: 1[1] 2[0]\n1: 0'[0] 2[1]\n2: 0'[1] 1'[0]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTestCycle(tt.lists, tt.apart)
			require.Equal(t, tt.want, c.text())
			require.Equal(t, len(tt.lists), c.Tasks())
		})
	}
}

func newTestCycle(lists [][]Access, apart bool) *Cycle {
	var list []Access
	var ends []int32
	for _, l := range lists {
		list = append(list, l...)
		ends = append(ends, int32(len(list)))
	}
	return NewCycle(list, ends, apart)
}

// In a five-point stencil, whose tasks write one object and read the neighbours', a task has an
// edge to each neighbour and no others.
func TestCycleOfStencilIsReduced(t *testing.T) {
	const n = 8
	var o [n + 2][n + 2]int
	var lists [][]Access
	for i := 1; i <= n; i++ {
		for j := 1; j <= n; j++ {
			lists = append(lists, []Access{InOut(&o[i][j]), In(&o[i-1][j]), In(&o[i][j-1]), In(&o[i][j+1]), In(&o[i+1][j])})
		}
	}
	c := newTestCycle(lists, false)
	for i := range n {
		for j := range n {
			edges := 4
			if i == 0 || i == n-1 {
				edges--
			}
			if j == 0 || j == n-1 {
				edges--
			}
			require.Len(t, c.Edges(i*n+j), edges, "block %d,%d", i, j)
		}
	}
}

// Two long runs meet in a joint: edges do not multiply.
func TestCycleJoints(t *testing.T) {
	var a int
	const n = 1000
	var lists [][]Access
	for i := range 3 * n {
		x := In(&a)
		if i/n == 1 {
			x = Concurrent(&a)
		}
		lists = append(lists, []Access{x})
	}
	c := newTestCycle(lists, false)
	require.Equal(t, 3*n+2, c.Nodes())
	edges := 0
	for i := range c.Nodes() {
		edges += len(c.Edges(i))
	}
	require.Equal(t, 6*n, edges)
}

func TestCycleFind(t *testing.T) {
	var a, b, z int
	c := newTestCycle([][]Access{{In(&z)}, {In(&a), InOut(&b), InOut(&a), In(&z).Weak()}}, false)
	for _, tt := range []struct {
		x    Access
		want int
		err  string
	}{
		{InOut(&a), 0, ""}, {Out(&b), 1, ""}, {InOut(&b), 1, ""}, {In(&z).Weak(), 2, ""},
		{In(&a), 0, "has declared InOut"}, {In(&z), 0, "has declared In("}, {InOut(&b).Weak(), 0, "has declared InOut"},
		{In(new(int)), 0, "not declared"},
	} {
		lo, hi, err := c.Find(1, tt.x)
		require.Equal(t, tt.want, lo)
		if tt.err == "" {
			require.NoError(t, err)
			require.Equal(t, lo+1, hi)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
	}
	require.Panics(t, func() { newTestCycle([][]Access{{Access{}}}, false) })
}

// lap is a sequence of rounds in which one run of one task keeps some of its objects, and
// everything else goes as far as it can.
type lap struct {
	lists  [][]Access
	rounds int
	task   int // the task that keeps objects
	round  int
	keeps  func(Access) bool
}

// byRules returns which runs can start, by comparing each pair of runs.
func (l lap) byRules(apart bool) []bool {
	n := len(l.lists)
	started := make([]bool, n*l.rounds)
	for v := range started {
		ok := true
		for u := range v {
			if !ok {
				break
			}
			if apart && u/n < v/n || u%n == v%n {
				ok = started[u] && u != l.round*n+l.task // the whole round, or the run before
				continue
			}
			for _, x := range l.lists[u%n] {
				for _, y := range l.lists[v%n] {
					if x.ptr != y.ptr || compatible(l.lists[u%n], l.lists[v%n], x) {
						continue
					}
					if !started[u] || u == l.round*n+l.task && l.keeps(x) {
						ok = false
					}
				}
			}
		}
		started[v] = ok
	}
	return started
}

// compatible reports whether the tasks with accesses p and q do not order each other because of x's
// object. Neighbours in Concurrent do not, but those with something between do: by transitivity.
func compatible(p, q []Access, x Access) bool {
	mode := func(l []Access) Mode {
		m, n := ModeIn, 0
		for _, a := range l {
			if a.ptr == x.ptr {
				if n++; n == 1 {
					m = a.mode.order()
				} else {
					m = combine(m, a.mode.order())
				}
			}
		}
		return m
	}
	m := mode(p)
	return m == mode(q) && m != ModeInOut
}

// byCycle returns the same, by following the graph.
func (l lap) byCycle(c *Cycle, apart bool) []bool {
	n, nodes := len(l.lists), c.Nodes()
	type run struct{ node, round int }
	lacks := map[run]int{}
	for u := range nodes {
		for _, e := range c.Edges(u) {
			for r := range l.rounds {
				if !e.Next || r > 0 {
					lacks[run{int(e.To), r}]++
				}
			}
		}
	}
	started := make([]bool, n*l.rounds)
	var start func(x run)
	arrive := func(x run) {
		if lacks[x]--; lacks[x] == 0 && x.round < l.rounds {
			start(x)
		}
	}
	over := make([]int, l.rounds)
	start = func(x run) {
		held := x.node == l.task && x.round == l.round
		if x.node < n {
			started[x.round*n+x.node] = true
		}
		for _, e := range c.Edges(x.node) {
			wait := held && len(c.Objects(e)) == 0
			for _, i := range c.Objects(e) {
				wait = wait || held && l.keeps(c.Accesses(x.node)[i])
			}
			switch to := (run{int(e.To), x.round}); {
			case wait:
			case e.Next:
				to.round++
				arrive(to)
			default:
				arrive(to)
			}
		}
		if held || x.node >= n {
			return
		}
		if !apart {
			arrive(run{x.node, x.round + 1}) // itself
			return
		}
		if over[x.round]++; over[x.round] == n {
			for i := range n {
				arrive(run{i, x.round + 1})
			}
		}
	}
	var first []run
	for u := range n {
		for r := range l.rounds {
			if r > 0 {
				lacks[run{u, r}]++ // the run before it, or the round
			}
		}
	}
	for u := range n {
		if lacks[run{u, 0}] == 0 {
			first = append(first, run{u, 0})
		}
	}
	for _, x := range first {
		start(x)
	}
	return started
}

var cyclePrograms = 2500

// A run starts by the graph if and only if it starts by the rules, when all others are over except
// for one, which has given some of its objects up. So no order is missing and none is superfluous,
// whatever Release is called for.
func TestCycleRandom(t *testing.T) {
	seed := rand.Uint64()
	programs := cyclePrograms
	for k := range programs {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		var o [6]int
		objects := 1 + r.IntN(len(o))
		lists := make([][]Access, 1+r.IntN(9))
		modes := []Access{}
		stay := r.IntN(20) // long runs of one mode
		if k%20 == 0 {     // enough for joints
			lists, objects, stay = make([][]Access, 60), 1+r.IntN(2), 18+r.IntN(2)
		}
		for i := range lists {
			for j := range objects {
				if r.IntN(objects) > 1 {
					continue
				}
				if len(modes) <= j || r.IntN(20) >= stay {
					p := &o[j]
					x := []Access{In(p), Out(p), InOut(p), Concurrent(p), In(p), Concurrent(p)}[r.IntN(6)]
					if r.IntN(8) == 0 {
						x = x.Weak()
					}
					if len(modes) > j {
						modes[j] = x
					} else if len(modes) == j {
						modes = append(modes, x)
					} else {
						lists[i] = append(lists[i], x)
						continue
					}
				}
				lists[i] = append(lists[i], modes[j])
				if r.IntN(10) == 0 {
					lists[i] = append(lists[i], In(&o[j]))
				}
			}
		}
		apart := r.IntN(4) == 0
		c := newTestCycle(lists, apart)
		for range 6 {
			l := lap{lists: lists, rounds: 3, task: r.IntN(len(lists)), round: r.IntN(2)}
			kept := r.Uint64() | r.Uint64()
			l.keeps = func(a Access) bool {
				for j := range o {
					if a.Meets(In(&o[j])) {
						return kept>>j&1 != 0
					}
				}
				panic("unknown object")
			}
			if !apart {
				require.Equal(t, l.byRules(apart), l.byCycle(c, apart), "seed %d, program %d: %v\ntask %d in round %d keeps %b\n%s",
					seed, k, lists, l.task, l.round, kept, c.text())
			}
			kept = ^uint64(0)
			require.Equal(t, l.byRules(apart), l.byCycle(c, apart), "seed %d, program %d: %v\ntask %d in round %d\n%s",
				seed, k, lists, l.task, l.round, c.text())
		}
	}
}

// The same for ranges of memory and for objects that overlap, compared byte by byte.
func TestCycleRandomRanges(t *testing.T) {
	seed := rand.Uint64()
	programs := cyclePrograms / 2
	for k := range programs {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		var mem [12]byte
		lists := make([][]Access, 1+r.IntN(8))
		bytes := make([][]Access, len(lists)) // the same, each byte an object
		lists[0] = []Access{Slice(mem[:0]).InOut()}
		for i := range lists {
			for range r.IntN(4) {
				lo := r.IntN(len(mem))
				hi := lo + r.IntN(len(mem)-lo+1)
				mode := Mode(r.IntN(4))
				x := Slice(mem[lo:hi]).Access(mode)
				if r.IntN(3) == 0 {
					x, hi = Object(&mem[lo], mode), lo+1
				}
				lists[i] = append(lists[i], x)
				for b := lo; b < hi; b++ {
					bytes[i] = append(bytes[i], Object(&mem[b], mode))
				}
			}
		}
		apart := r.IntN(4) == 0
		c := newTestCycle(lists, apart)
		for range 6 {
			l := lap{lists: bytes, rounds: 3, task: r.IntN(len(lists)), round: r.IntN(2)}
			gives := r.Uint64() // which of the task's accesses are given up
			l.keeps = func(a Access) bool {
				for i, x := range lists[l.task] {
					if gives>>i&1 != 0 && x.Meets(a) && x.size() > 0 {
						return false
					}
				}
				return true
			}
			if apart {
				l.keeps = func(Access) bool { return true }
			}
			require.Equal(t, l.byRules(apart), l.byCycle(c, apart), "seed %d, program %d: %v\ntask %d in round %d gives %b\n%s",
				seed, k, lists, l.task, l.round, gives, c.text())
		}
	}
}

func TestCycleFindRanges(t *testing.T) {
	var mem [16]byte
	c := newTestCycle([][]Access{
		{Slice(mem[2:6]).In(), Slice(mem[6:10]).InOut(), In(&mem[12]), Slice(mem[4:6]).In(), Slice(mem[8:10]).Out().Weak()},
		{Slice(mem[5:7]).Concurrent()},
	}, false)
	// pieces of the first task: 2-4, 4-5, 5-6, 6-7, 7-8, 8-10, 12-13
	require.Len(t, c.Accesses(0), 7)
	for _, tt := range []struct {
		x      Access
		lo, hi int
		err    string
	}{
		{Slice(mem[2:6]).In(), 0, 3, ""}, {Slice(mem[6:10]).Out(), 3, 6, ""}, {In(&mem[12]), 6, 7, ""}, {Slice(mem[12:13]).In(), 6, 7, ""},
		{Slice(mem[3:6]).In(), 1, 3, ""}, {Slice(mem[9:10]).InOut(), 6, 6, ""}, {Slice(mem[3:4]).In(), 1, 1, ""},
		{Slice(mem[:0]).In(), 0, 0, ""}, {Slice([]int(nil)).In(), 0, 0, ""},
		{Slice(mem[2:7]).In(), 0, 0, "has declared InOut() for bytes 4 to 5"},
		{Slice(mem[2:6]).In().Weak(), 0, 0, "has declared In() for bytes 0 to 2"},
		{Slice(mem[8:13]).InOut(), 0, 0, "not declared bytes 2 to 5"}, {Slice(mem[1:3]).In(), 0, 0, "not declared bytes 0 to 2"},
		{Slice(mem[13:14]).In(), 0, 0, "not declared bytes 0 to 1"},
	} {
		lo, hi, err := c.Find(0, tt.x)
		require.Equal(t, [2]int{tt.lo, tt.hi}, [2]int{lo, hi}, "%v: %v", tt.x, err)
		if tt.err == "" {
			require.NoError(t, err, "%v", tt.x)
		} else {
			require.ErrorContains(t, err, tt.err)
		}
	}
	o := newTestCycle([][]Access{{InOut(&mem[3])}}, false)
	_, _, err := o.Find(0, Slice(mem[3:4]).InOut())
	require.ErrorContains(t, err, "not declared")
	_, _, err = o.Find(0, Slice(mem[3:3]).InOut())
	require.NoError(t, err)
}

// A graph of many tasks is made in linear time: otherwise this test would not end.
func TestCycleOfManyTasks(t *testing.T) {
	const n = 100_000
	o := make([]int, n+1)
	var hub [2]int
	lists := make([][]Access, n)
	for i := range lists {
		lists[i] = []Access{InOut(&o[i]), In(&o[i+1]), In(&hub[0])}
		if i >= n/2 {
			lists[i][2] = Concurrent(&hub[0])
		}
	}
	lists[n/3] = append(lists[n/3], InOut(&hub[1]))
	c := newTestCycle(lists, false)
	require.Less(t, c.Nodes(), n+4)
	for i := range c.Tasks() {
		require.LessOrEqual(t, len(c.Edges(i)), 4)
	}
}

// A chain has the tasks in their order, and starts again at the first where rounds are not kept
// apart.
func TestChainOfTasks(t *testing.T) {
	var x int
	for n, want := range []struct{ apart, not string }{
		{"", ""}, {"0:\n", "0:\n"}, {"0: 1\n1:\n", "0: 1\n1: 0'\n"}, {"0: 1\n1: 2\n2:\n", "0: 1\n1: 2\n2: 0'\n"},
	} {
		var list []Access
		var ends []int32
		for range n {
			list = append(list, In(&x))
			ends = append(ends, int32(len(list)))
		}
		for apart, want := range map[bool]string{true: want.apart, false: want.not} {
			c := NewChain(list, ends, apart)
			require.Equal(t, want, c.text(), "%d tasks", n)
			require.Equal(t, n, c.Tasks())
			require.Equal(t, n, c.Nodes())
			require.Equal(t, strings.Count(want, " "), c.Len())
			for i := range n {
				require.Equal(t, []Access{In(&x)}, c.Accesses(i))
			}
		}
	}
}

// Edges are joined where that saves edges.
func TestJoints(t *testing.T) {
	for _, c := range []struct {
		k, l int
		want bool
	}{{1, 1, false}, {1, 1000, false}, {2, 1000, false}, {8, 8, false}, {8, 9, true}, {5, 20, false}, {5, 21, true}, {9, 9, true}} {
		require.Equal(t, c.want, joinAt(c.k, c.l), "%v", c)
		require.Equal(t, c.want, joinAt(c.l, c.k), "%v", c)
	}
}

// Pieces of weak ranges are weak, and an access to memory that a task has not declared meets none
// of the task's.
func TestPiecesOfCycle(t *testing.T) {
	x := make([]byte, 8)
	var y, z int
	c := newTestCycle([][]Access{{Slice(x[0:6]).InOut().Weak(), Slice(x[6:7]).In()}, {Slice(x[2:4]).In()}}, false)
	require.Equal(t, []Access{Slice(x[0:2]).InOut().Weak(), Slice(x[2:4]).InOut().Weak(), Slice(x[4:6]).InOut().Weak(), Slice(x[6:7]).In()}, c.Accesses(0))
	_, _, err := c.Find(0, Slice(x[0:6]).InOut())
	require.ErrorContains(t, err, "the task has declared InOut().Weak() for bytes 0 to 2 of it")
	lo, hi, err := c.Find(0, Slice(x[0:6]).InOut().Weak())
	require.NoError(t, err)
	require.Equal(t, []int{0, 3}, []int{lo, hi})
	for _, r := range []struct{ a, b, lo, hi int }{{0, 8, 0, 4}, {7, 8, 4, 4}, {1, 2, 0, 1}, {2, 3, 1, 2}, {5, 7, 2, 4}, {3, 3, 1, 2}} {
		lo, hi := c.Meeting(0, Slice(x[r.a:r.b]).In())
		require.Equal(t, []int{r.lo, r.hi}, []int{lo, hi}, "%v", r)
	}
	require.Panics(t, func() { newTestCycle([][]Access{{Slice(x).In()}, {{}}}, false) })
	c = newTestCycle([][]Access{{In(&y)}, {In(&y), InOut(&z)}}, false)
	lo, hi = c.Meeting(0, In(&z))
	require.Equal(t, []int{0, 0}, []int{lo, hi})
	lo, hi = c.Meeting(1, In(&z))
	require.Equal(t, []int{1, 2}, []int{lo, hi})
	lo, hi = c.Meeting(1, Slice(x).In())
	require.Equal(t, []int{0, 2}, []int{lo, hi})
	_, _, err = c.Find(0, In(&z))
	require.ErrorContains(t, err, "has not declared an access to this object")
	_, _, err = c.Find(0, Slice(x).In())
	require.ErrorContains(t, err, "has not declared an access to this object")
}

// The accesses of a task with many are sorted; those of other tasks stay as they were declared,
// wherever the task is in the loop.
func TestManyAccessesAreSorted(t *testing.T) {
	o := make([]int, scanMax+1)
	down := func(n int) (list []Access) {
		for i := range n {
			list = append(list, In(&o[n-1-i]))
		}
		return list
	}
	for n, sorted := range map[int]bool{2: false, scanMax - 1: false, scanMax: false, scanMax + 1: true} {
		c := newTestCycle([][]Access{down(n), down(n), down(n)}, false)
		for k := range 3 {
			uses := c.accs[c.first[k]:c.first[k+1]]
			require.Len(t, uses, n)
			for i := range uses {
				at := n - 1 - i
				if sorted {
					at = i
				}
				require.Equal(t, In(&o[at]), uses[i], "task %d of three with %d accesses", k, n)
			}
		}
	}
}
