// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
)

// A Graph has the lists of dependences of a Config. They are computed once, before anything is
// timed, so every system gets the same lists in the same form.
type Graph struct {
	Config
	Tasks int64
	steps []*step // by number; equal steps share one
	kinds []*step // the different ones
}

// A step is a row of tasks.
type step struct {
	kind   int // index in Graph.kinds
	first  int // the first point that is active
	points []point
}

// A point has the dependences of a task.
type point struct {
	needs []int32 // points of the previous step whose outputs it must get; its body checks them

	// Points of the previous step that systems get as the inputs of the task. The list equals
	// needs, except in tests that plant wrong edges.
	inputs []int32

	// For systems without accesses: the points of the previous step that it follows, because it
	// reads their output or because they read the output that it overwrites; and whether it
	// directly follows its own point two steps before, because no task between them does.
	follows []int32
	older   bool
}

// NewGraph computes the graph of a configuration. The error names every value that is not legal.
func NewGraph(cfg Config) (*Graph, error) {
	cfg, err := cfg.normalize()
	if err != nil {
		return nil, err
	}
	g := &Graph{Config: cfg}
	known := map[string]*step{}
	for t := range cfg.Steps {
		key := g.key(t)
		s := known[key]
		if s == nil {
			s = g.workOut(t)
			s.kind = len(g.kinds)
			known[key] = s
			g.kinds = append(g.kinds, s)
		}
		g.steps = append(g.steps, s)
		g.Tasks += int64(len(s.points))
	}
	return g, nil
}

// key has all values that the lists of a step depend on.
func (g *Graph) key(t int) string {
	var key []int
	for _, at := range []int{t, t - 1, t - 2} {
		first, count := g.active(at)
		key = append(key, first, count)
	}
	return fmt.Sprint(key, g.set(t), g.set(max(0, t-1)))
}

func (g *Graph) workOut(t int) *step {
	first, count := g.active(t)
	s := &step{first: first, points: make([]point, count)}
	for i := range s.points {
		p := &s.points[i]
		for _, d := range g.dependencies(g.set(t), first+i) {
			if g.has(t-1, d) {
				p.needs = append(p.needs, int32(d))
			}
		}
		p.inputs, p.follows = p.needs, p.needs
		if !g.has(t-2, first+i) {
			continue
		}
		p.older = true
		p.follows = slices.Clone(p.needs)
		for _, reader := range g.dependents(g.set(t-1), first+i) {
			if g.has(t-1, reader) {
				p.follows = append(p.follows, int32(reader))
				p.older = false
			}
		}
		slices.Sort(p.follows)
		p.follows = slices.Compact(p.follows)
	}
	return s
}

// has reports whether a step has a point.
func (g *Graph) has(t, point int) bool {
	first, count := g.active(t)
	return first <= point && point < first+count
}

// each calls f with every task, in the order in which systems create them.
func (g *Graph) each(f func(t, p int, self *point)) {
	for t, s := range g.steps {
		for i := range s.points {
			f(t, s.first+i, &s.points[i])
		}
	}
}

// work returns the number of iterations of all tasks together in a run with n iterations for each.
func (g *Graph) work(k *Kernel, n int64) int64 {
	var sum int64
	g.each(func(t, p int, _ *point) { sum += k.iterations(n, t, p) })
	return sum
}

// edges returns the number of inputs of all tasks together.
func (g *Graph) edges() int64 {
	var n int64
	g.each(func(_, _ int, self *point) { n += int64(len(self.inputs)) })
	return n
}

// write writes the graph for the programs in bench/peers, as numbers: width, steps, the different
// kinds of steps and then the kind of each step. A kind is its first point, how many there are, and
// for each: needs, inputs and follows (with their number before them) and older.
func (g *Graph) write(w io.Writer) error {
	b := bufio.NewWriter(w)
	list := func(points []int32) {
		fmt.Fprintf(b, " %d", len(points))
		for _, p := range points {
			fmt.Fprintf(b, " %d", p)
		}
	}
	fmt.Fprintf(b, "%d %d %d\n", g.Width, g.Steps, len(g.kinds))
	for _, s := range g.kinds {
		fmt.Fprintf(b, "%d %d\n", s.first, len(s.points))
		for _, p := range s.points {
			list(p.needs)
			list(p.inputs)
			list(p.follows)
			older := 0
			if p.older {
				older = 1
			}
			fmt.Fprintf(b, " %d\n", older)
		}
	}
	for _, s := range g.steps {
		fmt.Fprintln(b, s.kind)
	}
	return b.Flush()
}
