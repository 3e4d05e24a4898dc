// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"slices"
)

// The layout is Sugiyama's, in four steps, each of which can be read alone:
//
//	layers    edges that close cycles are turned around; then each box is below all that lead to it
//	dummies   an edge that passes layers gets a place of its own in each
//	cross     the order within the layers: boxes go to the average place of their neighbours, swept down and up
//	place     x: as close to the neighbours' average as the order and the widths allow, which is a monotone regression
//
// Everything is deterministic: equal graphs give equal pictures.

// point is a place in a picture.
type point struct{ x, y float64 }

// picture is a laid-out shape. Boxes are given by their centres.
type picture struct {
	width, height float64
	boxes         []placed
	// by line of the shape: the centres that it passes, from box to box. Empty for a loop
	lines [][]point
}

type placed struct {
	point
	w, h float64
}

const (
	boxHeight = 36
	layerGap  = 34
	boxGap    = 14
	dummyGap  = 8
	loopWidth = 56
	margin    = 16
	sweeps    = 8       // of cross and place; more changes little (looked at)
	longest   = 24      // layers: a longer edge is drawn straight, without dummies
	mostDummy = 1 << 15 // places of edges; beyond them all edges are drawn straight
)

// spot is a box or a dummy in its layer.
type spot struct {
	layer, at int     // at: place in the layer
	w         float64 // width, zero for a dummy
	loop      float64 // room on the right for an edge from the box to itself
	x         float64
	up, down  []int32 // neighbours in the layers above and below
	key       float64 // scratch
}

type layout struct {
	spots  []spot
	layers [][]int32
	chains [][]int32 // by line: its spots from the upper end to the lower; nil: drawn straight
	turned []bool    // by line
}

// arrange lays s out. width gives the width of a box.
func arrange(s *shape, width func(*box) float64) *picture {
	l := &layout{spots: make([]spot, len(s.boxes)), chains: make([][]int32, len(s.lines)), turned: make([]bool, len(s.lines))}
	for i := range s.boxes {
		l.spots[i].w = width(&s.boxes[i])
	}
	for _, e := range s.lines {
		if e.from == e.to {
			l.spots[e.from].loop = loopWidth
		}
	}
	l.layer(s)
	l.dummies(s)
	l.cross()
	l.place()
	return l.picture(s, len(s.boxes))
}

// layer turns edges that close cycles around and gives each box its layer.
func (l *layout) layer(s *shape) {
	out := make([][]int32, len(s.boxes)) // lines by their upper end
	for i, e := range s.lines {
		if e.from != e.to {
			out[e.from] = append(out[e.from], int32(i))
		}
	}
	const white, grey, black = 0, 1, 2
	colour := make([]uint8, len(s.boxes))
	type frame struct {
		v    int32
		next int
	}
	var order []int32 // boxes, those after which nothing comes first
	for root := range s.boxes {
		if colour[root] != white {
			continue
		}
		stack := []frame{{v: int32(root)}}
		colour[root] = grey
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next == len(out[f.v]) {
				colour[f.v] = black
				order = append(order, f.v)
				stack = stack[:len(stack)-1]
				continue
			}
			e := out[f.v][f.next]
			f.next++
			switch to := s.lines[e].to; colour[to] {
			case grey:
				l.turned[e] = true
			case white:
				colour[to] = grey
				stack = append(stack, frame{v: to})
			}
		}
	}
	ends := func(i int) (up, down int32) {
		if e := s.lines[i]; l.turned[i] {
			return e.to, e.from
		}
		return s.lines[i].from, s.lines[i].to
	}
	in := make([][]int32, len(s.boxes)) // upper ends by lower end
	for i, e := range s.lines {
		if e.from != e.to {
			up, down := ends(i)
			in[down] = append(in[down], up)
		}
	}
	// The finishing order of the search, backwards, has every upper end before its lower ends.
	for _, v := range slices.Backward(order) {
		for _, u := range in[v] {
			l.spots[v].layer = max(l.spots[v].layer, l.spots[u].layer+1)
		}
	}
}

// dummies fills the layers, and gives edges their places in them.
func (l *layout) dummies(s *shape) {
	boxes := len(s.boxes)
	depth := 0
	for i := range l.spots {
		depth = max(depth, l.spots[i].layer)
	}
	l.layers = make([][]int32, depth+1)
	for i := range l.spots {
		l.enter(int32(i))
	}
	join := func(u, v int32) {
		l.spots[u].down = append(l.spots[u].down, v)
		l.spots[v].up = append(l.spots[v].up, u)
	}
	for i, e := range s.lines {
		if e.from == e.to {
			continue
		}
		u, v := e.from, e.to
		if l.turned[i] {
			u, v = v, u
		}
		from, to := l.spots[u].layer, l.spots[v].layer
		if to-from > longest || len(l.spots)-boxes > mostDummy {
			continue
		}
		chain := []int32{u}
		for k := from + 1; k < to; k++ {
			d := int32(len(l.spots))
			l.spots = append(l.spots, spot{layer: k})
			l.enter(d)
			join(chain[len(chain)-1], d)
			chain = append(chain, d)
		}
		join(chain[len(chain)-1], v)
		l.chains[i] = append(chain, v)
	}
}

// enter puts a spot at the end of its layer.
func (l *layout) enter(v int32) {
	s := &l.spots[v]
	s.at = len(l.layers[s.layer])
	l.layers[s.layer] = append(l.layers[s.layer], v)
}

// cross orders the layers so that few edges cross, and keeps the best order that it has seen.
func (l *layout) cross() {
	best, fewest := l.order(), l.crossings()
	for k := range sweeps {
		l.sweep(k, l.sort)
		if n := l.crossings(); n < fewest {
			best, fewest = l.order(), n
		}
		if fewest == 0 {
			break
		}
	}
	l.layers = best
	for _, layer := range best {
		l.number(layer)
	}
}

func (l *layout) order() [][]int32 {
	c := make([][]int32, len(l.layers))
	for i := range c {
		c[i] = slices.Clone(l.layers[i])
	}
	return c
}

func (l *layout) number(layer []int32) {
	for i, v := range layer {
		l.spots[v].at = i
	}
}

// sort orders a layer by the average place of the neighbours on one side. What has none there stays
// where it is.
func (l *layout) sort(layer []int32, up bool) {
	for _, v := range layer {
		s := &l.spots[v]
		s.key = float64(s.at)
		if near := s.near(up); len(near) > 0 {
			s.key = 0
			for _, u := range near {
				s.key += float64(l.spots[u].at)
			}
			s.key /= float64(len(near))
		}
	}
	slices.SortStableFunc(layer, func(a, b int32) int { return cmp.Compare(l.spots[a].key, l.spots[b].key) })
	l.number(layer)
}

func (s *spot) near(up bool) []int32 {
	if up {
		return s.up
	}
	return s.down
}

// crossings counts pairs of edges that cross, with a tree of counters per layer.
func (l *layout) crossings() int {
	n := 0
	for _, layer := range l.layers[1:] {
		above := 0
		for _, v := range layer {
			for _, u := range l.spots[v].up {
				above = max(above, l.spots[u].at+1)
			}
		}
		tree := make([]int, above+1)
		total := 0
		for _, v := range layer {
			for _, u := range l.spots[v].up {
				// those that came before and lead further to the right
				left := 0
				for i := l.spots[u].at + 1; i > 0; i -= i & -i {
					left += tree[i]
				}
				n += total - left
			}
			for _, u := range l.spots[v].up {
				for i := l.spots[u].at + 1; i <= above; i += i & -i {
					tree[i]++
				}
				total++
			}
		}
	}
	return n
}

// place finds x for all spots.
func (l *layout) place() {
	for _, layer := range l.layers {
		x := 0.0
		for i, v := range layer {
			if i > 0 {
				x += l.apart(layer[i-1], v)
			}
			l.spots[v].x = x
		}
	}
	for k := range 2 * sweeps {
		l.sweep(k, func(layer []int32, up bool) { l.pull(layer, up, k < 2*sweeps-2) })
	}
}

// sweep takes all layers, by turns down, each with the one above, and up.
func (l *layout) sweep(turn int, take func(layer []int32, up bool)) {
	layers := slices.All(l.layers)
	if turn%2 != 0 {
		layers = slices.Backward(l.layers)
	}
	for _, layer := range layers {
		take(layer, turn%2 == 0)
	}
}

// apart is how far the centres of two neighbours in a layer must be from each other.
func (l *layout) apart(u, v int32) float64 {
	a, b := &l.spots[u], &l.spots[v]
	gap := boxGap + a.loop
	if a.w == 0 || b.w == 0 {
		gap = dummyGap + a.loop
	}
	return (a.w+b.w)/2 + gap
}

// pull moves the spots of a layer towards their neighbours: the least squares of the distances from
// where they would like to be, with their order and the distances between them kept. With each
// spot's x less the room that those on its left need at least, that is a monotone regression, which
// pooling neighbours that are in the wrong order solves exactly.
func (l *layout) pull(layer []int32, up, both bool) {
	type pool struct {
		sum, weight float64
		n           int
	}
	pools := make([]pool, 0, len(layer))
	room := 0.0
	rooms := make([]float64, len(layer))
	for i, v := range layer {
		if i > 0 {
			room += l.apart(layer[i-1], v)
		}
		rooms[i] = room
		s := &l.spots[v]
		want, weight := s.x, 0.1
		near := s.near(up)
		if both && len(near) == 0 {
			near = s.near(!up)
		}
		if len(near) > 0 {
			want, weight = 0, 1
			for _, u := range near {
				want += l.spots[u].x
			}
			want /= float64(len(near))
			if s.w == 0 {
				weight = 4 // straight edges look calm
			}
		}
		pools = append(pools, pool{(want - room) * weight, weight, 1})
		for len(pools) > 1 {
			a, b := &pools[len(pools)-2], &pools[len(pools)-1]
			if a.sum*b.weight <= b.sum*a.weight {
				break
			}
			a.sum, a.weight, a.n = a.sum+b.sum, a.weight+b.weight, a.n+b.n
			pools = pools[:len(pools)-1]
		}
	}
	i := 0
	for _, p := range pools {
		for range p.n {
			l.spots[layer[i]].x = p.sum/p.weight + rooms[i]
			i++
		}
	}
}

// picture turns spots into places.
func (l *layout) picture(s *shape, boxes int) *picture {
	left, right := 0.0, 0.0
	for i := range l.spots {
		p := &l.spots[i]
		if i == 0 {
			left, right = p.x-p.w/2, p.x+p.w/2
		}
		left, right = min(left, p.x-p.w/2), max(right, p.x+p.w/2+p.loop)
	}
	at := func(v int32) point {
		p := &l.spots[v]
		return point{p.x - left + margin, margin + boxHeight/2 + float64(p.layer)*(boxHeight+layerGap)}
	}
	p := &picture{
		width:  right - left + 2*margin,
		height: 2*margin + float64(len(l.layers))*(boxHeight+layerGap) - layerGap,
		lines:  make([][]point, len(s.lines)),
	}
	for i := range boxes {
		p.boxes = append(p.boxes, placed{at(int32(i)), l.spots[i].w, boxHeight})
	}
	for i, e := range s.lines {
		switch {
		case e.from == e.to:
		case l.chains[i] == nil:
			p.lines[i] = []point{at(e.from), at(e.to)}
		default:
			for _, v := range l.chains[i] {
				p.lines[i] = append(p.lines[i], at(v))
			}
			if l.turned[i] {
				slices.Reverse(p.lines[i])
			}
		}
	}
	return p
}
