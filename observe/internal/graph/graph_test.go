// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const ms = time.Millisecond

// chain is main, which spawns a, b and c; b waits for a.
func chain() *Graph {
	return &Graph{
		Nodes: []Node{
			{ID: 1, Label: "main", Started: 0, Done: 10 * ms, Run: 2 * ms},
			{ID: 2, Label: "a", Site: "x.go:1", Spawned: 1 * ms, Started: 1 * ms, Done: 5 * ms, Run: 4 * ms},
			{ID: 3, Label: "b", Site: "x.go:2", Spawned: 2 * ms, Started: 5 * ms, Done: 8 * ms, Run: 3 * ms},
			{ID: 4, Label: "c \"quoted\" <&>", Site: "x.go:3", Spawned: 2 * ms, Started: 2 * ms, Done: 10 * ms, Run: 1 * ms, Bound: 4 * ms},
		},
		Edges: []Edge{{1, 2, Child}, {1, 3, Child}, {1, 4, Child}, {2, 3, Order}},
	}
}

func TestAnalyse(t *testing.T) {
	for _, c := range []struct {
		name       string
		g          *Graph
		work, span time.Duration
		path       []int
		share      []time.Duration
		ignored    int
	}{
		{"empty", &Graph{}, 0, 0, nil, nil, 0},
		{"chain", chain(), 10 * ms, 8 * ms, []int{0, 1, 2}, []time.Duration{1 * ms, 4 * ms, 3 * ms}, 0},
		{"unknown ends", &Graph{Nodes: []Node{{ID: 1, Run: ms}}, Edges: []Edge{{1, 9, Order}, {9, 1, Order}, {1, 1, Order}}}, ms, ms, []int{0}, []time.Duration{ms}, 3},
		{"cycle", &Graph{Nodes: []Node{{ID: 1, Run: ms}, {ID: 2, Run: ms}, {ID: 3, Run: ms}}, Edges: []Edge{{1, 2, Order}, {2, 1, Order}}}, 3 * ms, ms, []int{2}, []time.Duration{ms}, 1},
		// main spawns a, waits, and spawns b. The phases follow each other although no access
		// orders a and b.
		{"phases", &Graph{Nodes: []Node{
			{ID: 1, Run: 3 * ms, Done: 23 * ms, Stops: []Stop{{At: 11 * ms, Run: 1 * ms}}},
			{ID: 2, Spawned: 1 * ms, Started: 1 * ms, Run: 10 * ms},
			{ID: 3, Spawned: 12 * ms, Started: 12 * ms, Run: 10 * ms},
		}, Edges: []Edge{{1, 2, Child}, {1, 3, Child}}}, 23 * ms, 22 * ms, []int{0, 1, 0, 2}, []time.Duration{1 * ms, 10 * ms, 1 * ms, 10 * ms}, 0},
		// A receive that is posted early is bound for long. It waits for the sender.
		{"message", &Graph{Nodes: []Node{
			{ID: 1, Label: "recv", Run: 1 * ms, Bound: 50 * ms},
			{ID: 2, Label: "compute", Run: 30 * ms},
			{ID: 3, Label: "send", Run: 1 * ms},
			{ID: 4, Label: "use", Run: 5 * ms},
		}, Edges: []Edge{{2, 3, Order}, {3, 1, Message}, {1, 4, Order}}}, 37 * ms, 36 * ms, []int{1, 2, 0, 3}, []time.Duration{30 * ms, 1 * ms, 0, 5 * ms}, 0},
		// Two tasks that send to each other make no cycle, because a message is sent before its
		// sender is over.
		{"exchange", &Graph{Nodes: []Node{{ID: 1, Run: 2 * ms}, {ID: 2, Run: 3 * ms}}, Edges: []Edge{{1, 2, Message}, {2, 1, Message}}}, 5 * ms, 3 * ms, []int{1}, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.g.Analyse()
			require.Equal(t, c.work, a.Work)
			require.Equal(t, c.span, a.Span)
			require.Equal(t, c.ignored, a.Ignored)
			if c.share != nil {
				require.Equal(t, c.path, a.Path)
				require.Equal(t, c.share, a.Share)
			}
		})
	}
}

// random returns a graph of n tasks whose edges lead forward, with stops and messages.
func random(rng *rand.Rand, n int) *Graph {
	g := &Graph{}
	for i := range n {
		start := time.Duration(rng.IntN(50))
		v := Node{ID: uint64(i + 1), Label: fmt.Sprintf("kind %d", rng.IntN(5)), Spawned: start, Started: start, Run: time.Duration(rng.IntN(20)), Bound: time.Duration(rng.IntN(2) * rng.IntN(9))}
		for run := time.Duration(0); rng.IntN(4) == 0 && run < v.Run; {
			run += time.Duration(rng.IntN(int(v.Run-run) + 1))
			start += time.Duration(1 + rng.IntN(30))
			v.Stops = append(v.Stops, Stop{At: start, Run: run})
		}
		v.Done = start + 100
		g.Nodes = append(g.Nodes, v)
	}
	for range 2 * n {
		from, to := rng.IntN(n), rng.IntN(n)
		if from == to {
			continue
		}
		e := Edge{uint64(min(from, to) + 1), uint64(max(from, to) + 1), Kind(rng.IntN(3))}
		if e.Kind == Message && rng.IntN(2) == 0 {
			e.From, e.To = e.To, e.From
		}
		g.Edges = append(g.Edges, e)
	}
	return g
}

// The span equals the result of a recursion over all chains, and the shares of the path add up to
// it.
func TestAnalyseAgainstRecursion(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		g := random(rng, 1+rng.IntN(9))
		a := g.Analyse()
		m, _ := newMoments(g)
		if len(m.order()) < len(m.steps) {
			continue // messages back and forth with stops may close a cycle
		}
		var longest func(v int32) time.Duration
		longest = func(v int32) (d time.Duration) {
			for _, s := range m.steps[v] {
				d = max(d, s.weight+longest(s.to))
			}
			return d
		}
		want, sum := time.Duration(0), time.Duration(0)
		for v := range m.steps {
			want = max(want, longest(int32(v)))
		}
		require.Equal(t, want, a.Span)
		for _, d := range a.Share {
			require.GreaterOrEqual(t, d, time.Duration(0))
			sum += d
		}
		require.Equal(t, a.Span, sum)
		require.Len(t, a.Share, len(a.Path))
	}
}

// Boxes of a layer do not overlap. Lines lead downwards, except for those that close a cycle. All
// boxes are inside the picture.
func TestLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		g := random(rng, 1+rng.IntN(40))
		a := g.Analyse()
		for _, s := range []*shape{g.whole(a), g.folded(a)} {
			l := &layout{}
			*l = layout{items: make([]item, len(s.boxes)), chains: make([][]int32, len(s.lines)), reversed: make([]bool, len(s.lines))}
			for i := range s.boxes {
				l.items[i].w = s.boxes[i].width()
			}
			l.assignLayers(s)
			l.addDummies(s)
			l.orderLayers()
			l.assignX()
			for _, layer := range l.layers {
				for i := 1; i < len(layer); i++ {
					u, v := layer[i-1], layer[i]
					require.GreaterOrEqual(t, l.items[v].x-l.items[u].x, l.distance(u, v)-1e-6)
				}
			}
			for i, e := range s.lines {
				if e.from == e.to {
					continue
				}
				up, down := e.from, e.to
				if l.reversed[i] {
					up, down = down, up
				}
				require.Less(t, l.items[up].layer, l.items[down].layer)
			}
			p := l.picture(s, len(s.boxes))
			for _, b := range p.boxes {
				require.GreaterOrEqual(t, b.x-b.w/2, 0.0)
				require.LessOrEqual(t, b.x+b.w/2, p.width)
				require.LessOrEqual(t, b.y+b.h/2, p.height)
			}
		}
	}
}

// The number of crossings is the same as by comparing all pairs.
func TestCrossings(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		l := &layout{layers: make([][]int32, 2)}
		for k, n := range []int{1 + rng.IntN(6), 1 + rng.IntN(6)} {
			for range n {
				v := int32(len(l.items))
				l.items = append(l.items, item{layer: k})
				l.appendItem(v)
			}
		}
		type pair struct{ a, b int }
		var edges []pair
		for _, v := range l.layers[1] {
			for _, u := range l.layers[0] {
				if rng.IntN(2) == 0 {
					l.items[v].up = append(l.items[v].up, u)
					edges = append(edges, pair{l.items[u].pos, l.items[v].pos})
				}
			}
		}
		want := 0
		for i, x := range edges {
			for _, y := range edges[:i] {
				if (x.a-y.a)*(x.b-y.b) < 0 {
					want++
				}
			}
		}
		require.Equal(t, want, l.crossings())
	}
}

// sweepGraph is the graph of a Gauss–Seidel sweep over n by n blocks.
func sweepGraph(n, steps int) *Graph {
	g := &Graph{Nodes: []Node{{ID: 1, Label: "main", Run: ms, Done: time.Second}}}
	last := make([]uint64, (n+2)*(n+2))
	for range steps {
		for r := 1; r <= n; r++ {
			for c := 1; c <= n; c++ {
				id := uint64(len(g.Nodes) + 1)
				g.Nodes = append(g.Nodes, Node{ID: id, Label: "block", Site: "tasks.go:130", Run: time.Duration(200+(r*7+c*13)%50) * time.Microsecond})
				g.Edges = append(g.Edges, Edge{1, id, Child})
				i := r*(n+2) + c
				for _, k := range []int{i, i - 1, i + 1, i - n - 2, i + n + 2} {
					if last[k] != 0 {
						g.Edges = append(g.Edges, Edge{last[k], id, Order})
					}
				}
				last[i] = id
			}
		}
	}
	return g
}

func TestGolden(t *testing.T) {
	noted := chain()
	noted.Notes = []string{"17 events were dropped."}
	noted.Edges = append(noted.Edges, Edge{77, 1, Order})
	for name, c := range map[string]struct {
		g *Graph
		o Options
	}{
		"chain":  {chain(), Options{Title: `a "chain" <of tasks>`}},
		"noted":  {noted, Options{}},
		"folded": {sweepGraph(4, 3), Options{Most: -1}},
		"sweep":  {sweepGraph(3, 2), Options{Title: "two sweeps"}},
	} {
		a := c.g.Analyse()
		for ext, write := range map[string]func(io.Writer, *Analysis, Options) error{".dot": c.g.DOT, ".svg": c.g.SVG} {
			var b bytes.Buffer
			require.NoError(t, write(&b, a, c.o))
			file := filepath.Join("testdata", name+ext+".golden")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o777))
				require.NoError(t, os.WriteFile(file, b.Bytes(), 0o666))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String(), name+ext)
			if ext == ".svg" {
				requireXML(t, b.Bytes())
				// nothing but the namespace is named
				require.NotContains(t, b.String(), "http://www.w3.org/1999")
			}
		}
	}
}

func requireXML(t *testing.T, text []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else {
			require.NoError(t, err)
		}
	}
}

// Large graphs are folded. Drawing their tasks one by one also ends.
func TestLarge(t *testing.T) {
	g := sweepGraph(10, 6)
	a := g.Analyse()
	var folded, whole bytes.Buffer
	require.NoError(t, g.SVG(&folded, a, Options{}))
	require.Contains(t, folded.String(), "Folded by label: 601 tasks are more than the 400 that are drawn one by one.")
	require.Less(t, folded.Len(), 8<<10)
	require.NoError(t, g.SVG(&whole, a, Options{Most: len(g.Nodes)}))
	requireXML(t, whole.Bytes())
}

// An error of the writer is returned to the caller.
func TestWriteError(t *testing.T) {
	g := sweepGraph(8, 4)
	bad := errors.New("disk full")
	require.ErrorIs(t, g.SVG(failing{bad}, g.Analyse(), Options{}), bad)
	require.ErrorIs(t, g.DOT(failing{bad}, g.Analyse(), Options{}), bad)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// A label can be any text: the output is legal XML and UTF-8.
func TestLabelsThatAreNoText(t *testing.T) {
	g := chain()
	for i, label := range []string{"nul\x00", "escape\x1b[31m", "no UTF-8 \xff\xfe", "\ufffe]]>"} {
		g.Nodes[i].Label = label
	}
	for _, most := range []int{0, -1} {
		o := Options{Title: "a title\x00\xff", Most: most}
		var svg, dot bytes.Buffer
		require.NoError(t, g.SVG(&svg, g.Analyse(), o))
		require.NoError(t, xml.Unmarshal(svg.Bytes(), new(struct{})))
		require.NoError(t, g.DOT(&dot, g.Analyse(), o))
		require.True(t, utf8.Valid(dot.Bytes()))
		require.NotContains(t, dot.String(), "\x00")
	}
}
