//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"testing"

	"weft/comm/internal/coll"
	"weft/internal/explore"
	"weft/internal/fabric"
	"weft/internal/progress"
)

// boardProgram is a small job at one board, whose every order is run.
type boardProgram struct {
	name  string
	some  int // if not zero: so many orders by chance only, unless all are asked for by -explore.big; with -short, none
	setup func(l *boardLab)
}

// boardLab has the ranks of one board, each a process. Their memory is in this one, and a nudge arrives as soon as it is sent.
type boardLab struct {
	*explore.Run
	ranks []*boardRank
	crowd bool // a rank has several goroutines: which of them gets which number is not known
}

// boardRank is one rank: as who waits at the board sees it.
type boardRank struct {
	fabric.Endpoint
	l    *boardLab
	b    *board
	made map[uint64]bool // by number of the collective: whether it was made at the board, not of messages
}

func (r *boardRank) Shared(int) ([]byte, error) { panic("the parts are there") }

func (r *boardRank) Send(dst int, _ fabric.Frame) error {
	r.l.ranks[dst].b.token.put()
	return nil
}

func (l *boardLab) start(n int) []*boardRank {
	w := &world{size: n}
	l.ranks = nil
	parts, stages := make([]*boardPart, n), make([]stage, n)
	for me := range n {
		r := &boardRank{l: l, made: map[uint64]bool{}}
		c := &Comm{world: w, proc: &proc{world: w, rank: me, ep: r, engine: progress.New(nil, progress.Config{Ranks: 1})}, rank: me, size: n}
		parts[me] = new(boardPart)
		stages[me] = stage{make([]byte, stageWindow), make([]byte, stageResult)}
		c.hist = &history{c: c}
		r.b = &board{c: c, mine: parts[me], token: newToken(), parts: parts, stages: stages, at: make([]*boardPlace, n)}
		r.b.isReady, r.b.hasCome = r.b.ready, r.b.come
		c.board = r.b
		l.Name(fmt.Sprint(me), r.b)
		l.Name(fmt.Sprintf("%d.part", me), parts[me])
		l.ranks = append(l.ranks, r)
	}
	l.End(l.agreed)
	return l.ranks
}

// agreed says whether all ranks have made the same collectives at the board.
func (l *boardLab) agreed() error {
	for k, r := range l.ranks[1:] {
		for seq, there := range l.ranks[0].made {
			if other, ok := r.made[seq]; ok && other != there {
				return fmt.Errorf("number %d is made at the board by one of the ranks 0 and %d, and of messages by the other", seq, k+1)
			}
		}
	}
	return nil
}

// does has a goroutine make collectives: b is a blocking one, l a large one, of two windows, m one that this rank makes of messages, such as a request, and M one as large. Messages are not waited for, as nobody may have to.
func (r *boardRank) does(name, program string) {
	r.l.Go(fmt.Sprintf("%d %s", r.b.c.rank, name), func() {
		for _, what := range program {
			switch what {
			case 'm':
				r.made[r.b.c.number(sumOfOne(make([]int64, 1), nil))] = false
			case 'M':
				r.made[r.b.c.number(sumOfOne(make([]int64, boardLarge), nil))] = false
			case 'b':
				r.meets(1)
			case 'l':
				r.meets(boardLarge)
			}
		}
	})
}

// boardLarge is two windows of elements.
const boardLarge = 2 * stageWindow / 8

// sum is a collective of all ranks.
func sumOfOne(in, out []int64) *coll.Call {
	n := len(in)
	return &coll.Call{Kind: coll.Allreduce, What: coll.NewCollective(coll.Allreduce, Sum.impl, -1), Root: -1, Op: Sum.impl, Unit: 8 * n, Large: n > 1, In: Of(in).b, Out: Of(out).b}
}

// meets is a blocking collective. What is summed up tells the collective by its number, if the rank has one goroutine.
func (r *boardRank) meets(n int) {
	c := r.b.c
	value := func(seq uint64, rank int) int64 {
		if r.l.crowd {
			seq = 0
		}
		return int64(100*seq) + int64(rank)
	}
	in, out := make([]int64, n), make([]int64, n)
	for i := range in {
		in[i] = value(c.collSeq.Load()+1, c.rank) + int64(i)
	}
	seq, done, err := r.b.meetFar(sumOfOne(in, out))
	r.l.Check(err == nil, "number %d at rank %d: %v", seq, c.rank, err)
	r.made[seq] = done
	for i := range out {
		want := int64(c.size * i)
		for k := range c.size {
			want += value(seq, k)
		}
		r.l.Check(!done || out[i] == want, "number %d at rank %d: sum %d is %d, not %d", seq, c.rank, i, out[i], want)
	}
}

// TestExploreBoard: all ranks come to the same decision and the same sums, and nobody sleeps for ever.
func TestExploreBoard(t *testing.T) {
	for _, p := range boardPrograms {
		ok := t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(&boardLab{Run: r}) })
		})
		if !ok {
			return
		}
	}
}

// each has one goroutine a rank, with a program each.
func each(programs ...string) func(l *boardLab) {
	return func(l *boardLab) {
		for k, r := range l.start(len(programs)) {
			r.does("caller", programs[k])
		}
	}
}

var boardPrograms = []boardProgram{
	{"a meeting", 0, each("b", "b")},
	{"a meeting of three", 3_000, each("b", "b", "b")},
	{"two meetings", 0, each("bb", "bb")},
	{"three meetings", 3_000, each("bbb", "bbb")},
	{"five meetings", 3_000, each("bbbbb", "bbbbb")},
	{"a request", 0, each("b", "m")},
	{"a request, and a meeting", 0, each("bb", "mb")},
	{"a meeting, and a request", 0, each("bm", "bb")},
	{"who meets, and goes ahead", 0, each("bm", "bm")},
	{"who goes far ahead", 0, each("b", "bmm")},
	{"two go ahead", 3_000, each("bb", "bmm", "bbm")},
	{"requests between", 3_000, each("bmbmb", "bmbbb")},
	{"three ranks, a request", 3_000, each("bb", "mb", "bb")},
	{"a large one", 3_000, each("l", "l")},
	{"two large ones", 3_000, each("ll", "ll")},
	{"a large one among others", 3_000, each("blb", "blb")},
	{"a large one of three", 3_000, each("l", "l", "l")},
	{"a large one, and a request", 3_000, each("bl", "bM")},
	{"who goes ahead of a goroutine", 20_000, func(l *boardLab) {
		l.crowd = true
		r := l.start(2)
		r[0].does("caller", "b")
		r[0].does("requests", "mmm")
		r[1].does("caller", "bbbb")
	}},
	{"two goroutines of a rank", 3_000, func(l *boardLab) {
		l.crowd = true
		r := l.start(2)
		r[0].does("caller", "bb")
		r[1].does("caller", "b")
		r[1].does("other caller", "b")
	}},
}
