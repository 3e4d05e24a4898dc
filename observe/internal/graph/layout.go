// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"slices"
)

// The layout is Sugiyama's, in four independent steps:
//
//	assignLayers  reverses edges that close cycles; then each box is below all boxes that lead to it
//	addDummies    gives an edge that passes layers a dummy item in each of them
//	orderLayers   orders the layers: an item moves to the average position of its neighbours,
//	              swept down and up
//	assignX       computes x: as close to the neighbours' average as the order and the widths
//	              allow, by a monotone regression
//
// Everything is deterministic: equal graphs give equal pictures.

// point is a position in a picture.
type point struct{ x, y float64 }

// picture is a laid-out shape. Boxes are given by their centres.
type picture struct {
	width, height float64
	boxes         []placedBox
	// by line of the shape: the centres that it passes, from box to box; empty for a loop
	lines [][]point
}

type placedBox struct {
	point
	w, h float64
}

const (
	boxHeight  = 36
	layerGap   = 34
	boxGap     = 14
	dummyGap   = 8
	loopWidth  = 56
	margin     = 16
	sweeps     = 8       // of orderLayers and assignX; more changed pictures little
	maxChain   = 24      // layers: a longer edge is drawn straight, without dummies
	maxDummies = 1 << 15 // dummies; with more, all further edges are drawn straight
)

// item is a box or a dummy in its layer.
type item struct {
	layer, pos int     // pos: position in the layer
	w          float64 // width, zero for a dummy
	loop       float64 // room on the right for an edge from the box to itself
	x          float64
	up, down   []int32 // neighbours in the layers above and below
	key        float64 // used by sortLayer
}

type layout struct {
	items    []item
	layers   [][]int32
	chains   [][]int32 // by line: its spots from the upper end to the lower; nil: drawn straight
	reversed []bool    // by line
}

// arrange lays s out. width gives the width of a box.
func arrange(s *shape, width func(*box) float64) *picture {
	l := &layout{items: make([]item, len(s.boxes)), chains: make([][]int32, len(s.lines)), reversed: make([]bool, len(s.lines))}
	for i := range s.boxes {
		l.items[i].w = width(&s.boxes[i])
	}
	for _, e := range s.lines {
		if e.from == e.to {
			l.items[e.from].loop = loopWidth
		}
	}
	l.assignLayers(s)
	l.addDummies(s)
	l.orderLayers()
	l.assignX()
	return l.picture(s, len(s.boxes))
}

// assignLayers reverses edges that close cycles, and gives each box its layer.
func (l *layout) assignLayers(s *shape) {
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
	var order []int32 // boxes in the finishing order of the search
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
				l.reversed[e] = true
			case white:
				colour[to] = grey
				stack = append(stack, frame{v: to})
			}
		}
	}
	ends := func(i int) (up, down int32) {
		if e := s.lines[i]; l.reversed[i] {
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
			l.items[v].layer = max(l.items[v].layer, l.items[u].layer+1)
		}
	}
}

// addDummies fills the layers with the boxes, and with dummies for edges.
func (l *layout) addDummies(s *shape) {
	boxes := len(s.boxes)
	depth := 0
	for i := range l.items {
		depth = max(depth, l.items[i].layer)
	}
	l.layers = make([][]int32, depth+1)
	for i := range l.items {
		l.appendItem(int32(i))
	}
	join := func(u, v int32) {
		l.items[u].down = append(l.items[u].down, v)
		l.items[v].up = append(l.items[v].up, u)
	}
	for i, e := range s.lines {
		if e.from == e.to {
			continue
		}
		u, v := e.from, e.to
		if l.reversed[i] {
			u, v = v, u
		}
		from, to := l.items[u].layer, l.items[v].layer
		if to-from > maxChain || len(l.items)-boxes > maxDummies {
			continue
		}
		chain := []int32{u}
		for k := from + 1; k < to; k++ {
			d := int32(len(l.items))
			l.items = append(l.items, item{layer: k})
			l.appendItem(d)
			join(chain[len(chain)-1], d)
			chain = append(chain, d)
		}
		join(chain[len(chain)-1], v)
		l.chains[i] = append(chain, v)
	}
}

// enter puts a spot at the end of its layer.
func (l *layout) appendItem(v int32) {
	s := &l.items[v]
	s.pos = len(l.layers[s.layer])
	l.layers[s.layer] = append(l.layers[s.layer], v)
}

// orderLayers orders the layers so that few edges cross. It keeps the best order that it has found.
func (l *layout) orderLayers() {
	best, fewest := l.order(), l.crossings()
	for k := range sweeps {
		l.sweep(k, l.sortLayer)
		if n := l.crossings(); n < fewest {
			best, fewest = l.order(), n
		}
		if fewest == 0 {
			break
		}
	}
	l.layers = best
	for _, layer := range best {
		l.renumber(layer)
	}
}

func (l *layout) order() [][]int32 {
	c := make([][]int32, len(l.layers))
	for i := range c {
		c[i] = slices.Clone(l.layers[i])
	}
	return c
}

func (l *layout) renumber(layer []int32) {
	for i, v := range layer {
		l.items[v].pos = i
	}
}

// sortLayer orders a layer by the average position of the neighbours on one side. An item without
// neighbours there keeps its position.
func (l *layout) sortLayer(layer []int32, up bool) {
	for _, v := range layer {
		s := &l.items[v]
		s.key = float64(s.pos)
		if near := s.near(up); len(near) > 0 {
			s.key = 0
			for _, u := range near {
				s.key += float64(l.items[u].pos)
			}
			s.key /= float64(len(near))
		}
	}
	slices.SortStableFunc(layer, func(a, b int32) int { return cmp.Compare(l.items[a].key, l.items[b].key) })
	l.renumber(layer)
}

func (s *item) near(up bool) []int32 {
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
			for _, u := range l.items[v].up {
				above = max(above, l.items[u].pos+1)
			}
		}
		tree := make([]int, above+1)
		total := 0
		for _, v := range layer {
			for _, u := range l.items[v].up {
				// total-left edges came before and lead further to the right
				left := 0
				for i := l.items[u].pos + 1; i > 0; i -= i & -i {
					left += tree[i]
				}
				n += total - left
			}
			for _, u := range l.items[v].up {
				for i := l.items[u].pos + 1; i <= above; i += i & -i {
					tree[i]++
				}
				total++
			}
		}
	}
	return n
}

// assignX computes x for all items.
func (l *layout) assignX() {
	for _, layer := range l.layers {
		x := 0.0
		for i, v := range layer {
			if i > 0 {
				x += l.distance(layer[i-1], v)
			}
			l.items[v].x = x
		}
	}
	for k := range 2 * sweeps {
		l.sweep(k, func(layer []int32, up bool) { l.moveLayer(layer, up, k < 2*sweeps-2) })
	}
}

// sweep calls take for all layers: downwards in even turns (up is true: compare with the layer
// above), and upwards in odd turns.
func (l *layout) sweep(turn int, take func(layer []int32, up bool)) {
	layers := slices.All(l.layers)
	if turn%2 != 0 {
		layers = slices.Backward(l.layers)
	}
	for _, layer := range layers {
		take(layer, turn%2 == 0)
	}
}

// distance is the least distance between the centres of two neighbours in a layer.
func (l *layout) distance(u, v int32) float64 {
	a, b := &l.items[u], &l.items[v]
	gap := boxGap + a.loop
	if a.w == 0 || b.w == 0 {
		gap = dummyGap + a.loop
	}
	return (a.w+b.w)/2 + gap
}

// moveLayer moves the items of a layer towards the averages of their neighbours in other layers. It
// minimizes the weighted squares of the distances to these averages, and keeps the order of the
// items and the distances between them. After subtracting from each x the room that the items to
// the left need at least, the problem is a monotone regression. Pooling adjacent violators solves
// it exactly.
func (l *layout) moveLayer(layer []int32, up, both bool) {
	type pool struct {
		sum, weight float64
		n           int
	}
	pools := make([]pool, 0, len(layer))
	room := 0.0
	rooms := make([]float64, len(layer))
	for i, v := range layer {
		if i > 0 {
			room += l.distance(layer[i-1], v)
		}
		rooms[i] = room
		s := &l.items[v]
		want, weight := s.x, 0.1
		near := s.near(up)
		if both && len(near) == 0 {
			near = s.near(!up)
		}
		if len(near) > 0 {
			want, weight = 0, 1
			for _, u := range near {
				want += l.items[u].x
			}
			want /= float64(len(near))
			if s.w == 0 {
				weight = 4 // keeps long edges straight
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
			l.items[layer[i]].x = p.sum/p.weight + rooms[i]
			i++
		}
	}
}

// picture converts items to positions.
func (l *layout) picture(s *shape, boxes int) *picture {
	left, right := 0.0, 0.0
	for i := range l.items {
		p := &l.items[i]
		if i == 0 {
			left, right = p.x-p.w/2, p.x+p.w/2
		}
		left, right = min(left, p.x-p.w/2), max(right, p.x+p.w/2+p.loop)
	}
	at := func(v int32) point {
		p := &l.items[v]
		return point{p.x - left + margin, margin + boxHeight/2 + float64(p.layer)*(boxHeight+layerGap)}
	}
	p := &picture{
		width:  right - left + 2*margin,
		height: 2*margin + float64(len(l.layers))*(boxHeight+layerGap) - layerGap,
		lines:  make([][]point, len(s.lines)),
	}
	for i := range boxes {
		p.boxes = append(p.boxes, placedBox{at(int32(i)), l.items[i].w, boxHeight})
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
			if l.reversed[i] {
				slices.Reverse(p.lines[i])
			}
		}
	}
	return p
}
