// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/event"
	"weft/observe/internal/graph"
	"weft/task"
	"weft/trace"
)

var (
	seedFlag  = flag.Uint64("collect.seed", 0, "run only the random program of this seed")
	seedsFlag = flag.Int("collect.programs", 2000, "how many random programs")
)

// onode is a task of a random program, or the whole program. Tasks declare accesses to a small
// memory of cells, by object or by range.
type onode struct {
	number   int
	accesses []oaccess
	wait     bool
	rounds   int // of a recorded loop; zero: no loop
	children []*onode
	parent   *onode // the task that spawns it

	runs atomic.Int64     // number of rounds that have begun
	ids  [3]atomic.Uint64 // number in the recording, by round
}

type oaccess struct {
	lo, hi int
	object bool
	mode   deps.Mode
	weak   bool
}

func (u oaccess) access(mem []int64) deps.Access {
	var a deps.Access
	if p := &mem[u.lo]; u.object {
		switch u.mode {
		case deps.ModeIn:
			a = deps.In(p)
		case deps.ModeOut:
			a = deps.Out(p)
		case deps.ModeInOut:
			a = deps.InOut(p)
		case deps.ModeConcurrent:
			a = deps.Concurrent(p)
		default:
			a = deps.Commutative(p)
		}
	} else {
		r := deps.Slice(mem[u.lo:u.hi])
		switch u.mode {
		case deps.ModeIn:
			a = r.In()
		case deps.ModeOut:
			a = r.Out()
		case deps.ModeInOut:
			a = r.InOut()
		case deps.ModeConcurrent:
			a = r.Concurrent()
		default:
			a = r.Commutative()
		}
	}
	if u.weak {
		a = a.Weak()
	}
	return a
}

func (u oaccess) String() string {
	s := fmt.Sprint(u.mode, "(", u.lo)
	if !u.object {
		s += fmt.Sprint(":", u.hi)
	}
	if u.weak {
		s += " weak"
	}
	return s + ")"
}

func (n *onode) print(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%d %v wait %v rounds %d\n", indent, n.number, n.accesses, n.wait, n.rounds)
	for _, c := range n.children {
		c.print(b, indent+"  ")
	}
}

const cells = 4

// ogen makes programs.
type ogen struct {
	r      *rand.Rand
	next   int
	modes  []deps.Mode
	ranges bool
	bare   bool // children may use cells that their parents have not declared
}

func (g *ogen) accesses(parent *onode, inLoop bool) (list []oaccess) {
	for range 1 + g.r.IntN(3) {
		u := oaccess{lo: g.r.IntN(cells), object: true, mode: g.modes[g.r.IntN(len(g.modes))], weak: !inLoop && g.r.IntN(3) == 0}
		u.hi = u.lo + 1
		if g.ranges && g.r.IntN(2) == 0 {
			u.object, u.hi = false, u.lo+1+g.r.IntN(cells-u.lo)
		}
		if parent != nil && !g.bare && !g.within(parent, &u) {
			continue
		}
		list = append(list, u)
	}
	return list
}

// within changes u to an access that the parent covers, and reports whether that is possible.
func (g *ogen) within(parent *onode, u *oaccess) bool {
	if len(parent.accesses) == 0 {
		return false
	}
	p := parent.accesses[g.r.IntN(len(parent.accesses))]
	for _, x := range parent.accesses {
		// a cell that is declared twice is an InOut, and its beginning is hard to determine
		if x != p && x.lo < p.hi && p.lo < x.hi {
			return false
		}
	}
	if p.mode == deps.ModeIn || p.mode == deps.ModeConcurrent || p.mode == deps.ModeCommutative {
		u.mode = p.mode
	}
	if p.object {
		u.lo, u.hi, u.object = p.lo, p.hi, true
		return true
	}
	if u.lo = max(u.lo, p.lo); u.lo >= p.hi {
		return false
	}
	u.object = false
	u.hi = u.lo + 1 + g.r.IntN(p.hi-u.lo)
	return true
}

func (g *ogen) task(parent *onode, depth int, inLoop bool) *onode {
	n := &onode{number: g.next, parent: parent}
	g.next++
	up := parent
	if parent.number == 0 {
		up = nil
	}
	n.accesses = g.accesses(up, inLoop)
	n.wait = inLoop || g.r.IntN(6) == 0
	if depth > 0 && len(n.accesses) > 0 && g.r.IntN(3) > 0 {
		if !inLoop && g.r.IntN(5) == 0 {
			n.rounds, n.wait = 2+g.r.IntN(2), true
			for i := range n.accesses {
				n.accesses[i].weak = false
			}
		}
		for range 1 + g.r.IntN(3) {
			n.children = append(n.children, g.task(n, depth-1, n.rounds > 0))
		}
	}
	return n
}

func oprogram(seed uint64) *onode {
	r := rand.New(rand.NewPCG(seed, 3))
	g := &ogen{r: r, next: 1, ranges: r.IntN(3) == 0, modes: []deps.Mode{deps.ModeIn, deps.ModeOut, deps.ModeInOut, deps.ModeConcurrent}, bare: r.IntN(3) == 0}
	if !g.bare {
		g.modes = append(g.modes, deps.ModeCommutative)
	}
	main := &onode{}
	for g.next < 8 {
		main.children = append(main.children, g.task(main, 2, false))
	}
	return main
}

// body returns the body of a task of the program.
func (n *onode) body(mem []int64) func(*task.Task) error {
	return func(t *task.Task) error {
		round := n.runs.Add(1) - 1
		n.ids[round].Store(t.TraceID())
		for _, c := range n.children {
			c.spawn(t, mem)
		}
		return nil
	}
}

func (n *onode) spawn(t interface {
	SpawnWith(task.Attrs, func(*task.Task) error, ...deps.Access)
}, mem []int64) {
	var accs []deps.Access
	for _, u := range n.accesses {
		accs = append(accs, u.access(mem))
	}
	if n.rounds == 0 {
		t.SpawnWith(task.Attrs{Wait: n.wait}, n.body(mem), accs...)
		return
	}
	t.(*task.Task).Iterate(n.rounds, func(it *task.Iteration) error {
		for _, c := range n.children {
			c.spawn(it, mem)
		}
		return nil
	}, accs...)
}

// oflat is a task of a run: a node in a round.
type oflat struct {
	node     *onode
	round    int
	parent   *oflat
	accesses [cells]*omerged // nil where it declares nothing
	children []*oflat
	start    int // events of the model
	end      int
}

// omerged is the union of a task's accesses to a cell.
type omerged struct {
	mode       deps.Mode
	weak       bool
	holds      bool
	held       bool
	read       int // events: the access has the token to read
	write      int
	readPassed int
	over       int
}

// model lists, for each event, the events that must precede it.
type model struct {
	tasks []*oflat
	after [][]int // by event: the events that it waits for
}

func (m *model) event(after ...int) int {
	m.after = append(m.after, after)
	return len(m.after) - 1
}

func (m *model) waits(e int, for_ ...int) { m.after[e] = append(m.after[e], for_...) }

// flatten makes the tasks of a run, with recorded loops as plain loops.
func (m *model) flatten(n *onode, round int, parent *oflat) *oflat {
	f := &oflat{node: n, round: round, parent: parent, start: m.event(), end: m.event()}
	m.waits(f.end, f.start)
	if parent != nil {
		m.waits(f.start, parent.start)
		parent.children = append(parent.children, f)
	}
	m.tasks = append(m.tasks, f)
	for _, u := range n.accesses {
		for c := u.lo; c < u.hi; c++ {
			if x := f.accesses[c]; x != nil {
				if x.mode != u.mode {
					x.mode = deps.ModeInOut
				}
				x.weak = x.weak && u.weak
				continue
			}
			f.accesses[c] = &omerged{mode: u.mode, weak: u.weak, read: m.event(), write: m.event(), readPassed: m.event(), over: m.event()}
		}
	}
	takes := slices.ContainsFunc(f.accesses[:], func(x *omerged) bool { return x != nil && x.mode == deps.ModeCommutative && !x.weak })
	for c, x := range f.accesses {
		if x == nil {
			continue
		}
		x.weak = x.weak && !takes
		if up := f.up(c); up != nil {
			x.held = up.holds || up.held
		}
		x.holds = x.mode == deps.ModeCommutative && !x.weak && !x.held
	}
	before := map[*onode]*oflat{}
	for r := range max(1, n.rounds) {
		for _, c := range n.children {
			x := m.flatten(c, round*max(1, n.rounds)+r, f)
			if y := before[c]; y != nil { // rounds of one task never overlap
				m.waits(x.start, y.end)
				y.descendants(func(d *oflat) { m.waits(x.start, d.end) })
			}
			before[c] = x
		}
	}
	return f
}

func (f *oflat) up(c int) *omerged {
	if f.parent == nil {
		return nil
	}
	return f.parent.accesses[c]
}

func (x *omerged) inRun() bool {
	return x.mode == deps.ModeConcurrent || x.mode == deps.ModeCommutative && !x.held
}

// descendants calls visit with each descendant of f.
func (f *oflat) descendants(visit func(*oflat)) {
	for _, c := range f.children {
		visit(c)
		c.descendants(visit)
	}
}

// joins returns the events that a member of a run of concurrent or commutative accesses waits for:
// the accesses before the run in the domain, or else the events that the parent's access waits for,
// which may be in the same run.
func (m *model) joins(f *oflat, c int) (list []int) {
	x, in := f.accesses[c], true
	for _, before := range slices.Backward(f.parent.children[:slices.Index(f.parent.children, f)]) {
		if y := before.accesses[c]; y != nil {
			if in = in && y.mode == x.mode; !in {
				list = append(list, y.over)
			}
		}
	}
	switch up := f.up(c); {
	case list != nil || up == nil || up.holds:
		return list
	case up.mode == x.mode && up.inRun():
		return m.joins(f.parent, c)
	default:
		return []int{up.write}
	}
}

// build derives the order of the events from that of the declarations.
func (m *model) build() {
	for _, f := range m.tasks {
		for c, x := range f.accesses {
			if x == nil {
				continue
			}
			// An access is passed on when its task has ended, the children's accesses are passed
			// on, and the tokens have arrived.
			m.waits(x.over, f.end, x.write)
			m.waits(x.readPassed, x.read)
			if x.mode != deps.ModeIn {
				m.waits(x.readPassed, f.end)
			}
			if f.node.wait {
				f.descendants(func(d *oflat) {
					m.waits(x.over, d.end)
					if x.mode != deps.ModeIn {
						m.waits(x.readPassed, d.end)
					}
				})
			}
			for _, child := range f.children {
				if y := child.accesses[c]; y != nil {
					m.waits(x.over, y.over)
					if x.mode != deps.ModeIn {
						m.waits(x.readPassed, y.readPassed)
					}
				}
			}
			// A token arrives when all accesses before it in the domain have passed it on, and it
			// has arrived at the parent's access.
			if up := f.up(c); up != nil && !up.holds {
				m.waits(x.read, up.read)
				m.waits(x.write, up.write)
			}
			if f.parent != nil {
				for _, before := range f.parent.children[:slices.Index(f.parent.children, f)] {
					if y := before.accesses[c]; y != nil {
						m.waits(x.read, y.readPassed)
						m.waits(x.write, y.over)
					}
				}
			}
			switch {
			case x.weak:
			case x.mode == deps.ModeIn:
				m.waits(f.start, x.read)
			case x.inRun():
				m.waits(f.start, m.joins(f, c)...)
			default:
				m.waits(f.start, x.write)
			}
		}
	}
}

// order returns, for each task that starts, the tasks that have ended by then.
func (m *model) order() map[*oflat]map[*oflat]bool {
	ends := map[int]*oflat{}
	for _, f := range m.tasks {
		ends[f.end] = f
	}
	order := map[*oflat]map[*oflat]bool{}
	for _, f := range m.tasks {
		order[f] = map[*oflat]bool{}
		seen := make([]bool, len(m.after))
		todo := []int{f.start}
		for len(todo) > 0 {
			e := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if seen[e] {
				continue
			}
			seen[e] = true
			if x := ends[e]; x != nil {
				order[f][x] = true
			}
			todo = append(todo, m.after[e]...)
		}
	}
	return order
}

// reachable returns a function that, for a task, returns the tasks that must end before it starts,
// by a graph: those from which a path that begins with an Order edge leads to the task.
func reachable(edges []graph.Edge) func(to uint64) map[uint64]bool {
	in := map[uint64][]graph.Edge{}
	for _, e := range edges {
		in[e.To] = append(in[e.To], e)
	}
	return func(to uint64) map[uint64]bool {
		list := map[uint64]bool{}
		started := map[uint64]bool{to: true} // tasks that start before to, or to itself
		todo := []uint64{to}
		for len(todo) > 0 {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, e := range in[at] {
				if e.Kind == graph.Order {
					list[e.From] = true
				}
				if !started[e.From] {
					started[e.From] = true
					todo = append(todo, e.From)
				}
			}
		}
		return list
	}
}

// The graph has exactly the order that the rules demand: none is missing and none is superfluous.
func TestGraphIsTheOrder(t *testing.T) {
	if os.Getenv(task.EnvLint) == "1" {
		t.Skip("not in lint mode: programs use undeclared accesses on purpose, and debug mode, which lint mode includes, ends the run")
	}
	base, n := uint64(time.Now().UnixNano()), *seedsFlag
	if testing.Short() {
		n /= 10
	}
	if *seedFlag != 0 {
		base, n = *seedFlag, 1
	}
	c := New(1 << 22)
	rec, err := event.New(event.Options{Sinks: []event.Sink{c}, Wants: Wants(1), Patient: true, Ring: 1 << 12})
	require.NoError(t, err)
	rt := task.New(task.Config{Workers: 3, Trace: (*trace.Recorder)(rec)})
	programs := make([]*onode, n)
	for i := range programs {
		programs[i] = oprogram(base + uint64(i))
		mem := make([]int64, cells)
		require.NoError(t, rt.Run(context.Background(), programs[i].body(mem)), "-collect.seed %d", base+uint64(i))
	}
	require.NoError(t, rt.Close())
	require.NoError(t, rec.Close())
	g := c.Graph()
	require.Empty(t, g.Notes)
	has := reachable(g.Edges)
	for i, p := range programs {
		var m model
		m.flatten(p, 0, nil)
		m.build()
		order := m.order()
		byID := map[uint64]*oflat{}
		id := func(f *oflat) uint64 { return f.node.ids[min(f.round, 2)].Load() }
		for _, f := range m.tasks {
			byID[id(f)] = f
		}
		fail := func(what string, a, b *oflat) {
			var s strings.Builder
			p.print(&s, "")
			require.Failf(t, what, "task %d of round %d, and %d of round %d\n%s-collect.seed %d", a.node.number, a.round, b.node.number, b.round, &s, base+uint64(i))
		}
		for _, f := range m.tasks {
			if f.node.rounds > 0 {
				continue // a loop has no body
			}
			got := has(id(f))
			for _, x := range m.tasks {
				if x.node.rounds > 0 || x == f {
					continue
				}
				switch must := order[f][x]; {
				case must && !got[id(x)]:
					fail("an order is missing", x, f)
				case !must && got[id(x)]:
					fail("an order is superfluous", x, f)
				}
			}
		}
	}
}
