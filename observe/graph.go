// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/observe/internal/graph"
	"weft/observe/internal/taskprof"
)

// WriteProfile writes a profile for go tool pprof of the tasks that are over now. Its values are
// tasks, run, deps, ready, blocked and comm, as in LabelStats: -sample_index chooses one, and run
// is the default. The innermost frame of a sample is the task: "task LABEL" at the line of its
// body, or the body if the task has no label. With Config.Stacks, the next frames are the stack of
// the spawn, as if the spawn were a call, then the task that spawned, and so on to the caller of
// Run.
func (o *Observer) WriteProfile(w io.Writer) error {
	o.flush()
	samples, watched, notes := o.collector.Samples()
	return taskprof.Write(w, taskprof.Header{Program: program(), Start: o.start, Duration: watched, Comments: notes}, samples)
}

// Graph is the graph of a run's tasks: an edge for each reason why a task waited for another one.
// It has work, span and critical path.
type Graph struct {
	graph    *graph.Graph
	analysis *graph.Analysis
}

// Graph returns the graph of the first Config.Graph tasks that are over now. Its edges are
// accesses, by the rules of package deps, spawns, and messages between tasks of one process.
func (o *Observer) Graph() *Graph {
	o.flush()
	g := o.collector.Graph()
	return &Graph{g, g.Analyse()}
}

// Tasks is the number of tasks in the graph.
func (g *Graph) Tasks() int { return len(g.graph.Nodes) }

// Work is the sum of the run times of all tasks.
func (g *Graph) Work() time.Duration { return g.analysis.Work }

// Span is the length of the critical path: the longest chain of tasks, each of which waits for the
// previous one. No number of slots makes the program faster.
func (g *Graph) Span() time.Duration { return g.analysis.Span }

// Parallelism is work divided by span: the number of slots that the program can keep busy, on
// average.
func (g *Graph) Parallelism() float64 { return g.analysis.Parallelism() }

// Notes say what is missing from the graph, a sentence each.
func (g *Graph) Notes() []string { return g.graph.Notes }

// PathStep is a task on the critical path.
type PathStep struct {
	Label string
	Site  string        // where it was spawned
	Share time.Duration // its contribution to the span
}

// CriticalPath returns the tasks whose times make up the span, in their order.
func (g *Graph) CriticalPath() []PathStep {
	var list []PathStep
	for k, i := range g.analysis.Path {
		n := &g.graph.Nodes[i]
		list = append(list, PathStep{n.Label, n.Site, g.analysis.Share[k]})
	}
	return list
}

// GraphOptions say how a graph is written.
type GraphOptions struct {
	Title string // empty: "task graph"

	// Most is the number of tasks that are drawn one by one. A graph with more is folded: tasks
	// with one label are one box. 0 means 400; a negative number always folds.
	Most int
}

// WriteSVG writes the graph as a picture, with the critical path in red. The file is
// self-contained: a pointer over a box shows the details of the task.
func (g *Graph) WriteSVG(w io.Writer, o GraphOptions) error {
	return g.graph.SVG(w, g.analysis, graph.Options(o))
}

// WriteDOT writes the graph in the language of Graphviz.
func (g *Graph) WriteDOT(w io.Writer, o GraphOptions) error {
	return g.graph.DOT(w, g.analysis, graph.Options(o))
}

// program is the name of the program.
func program() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }
