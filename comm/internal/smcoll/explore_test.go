//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"
	"testing"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/internal/explore"
	"weft/internal/xatomic"
)

// program is what the ranks of a small job do. The exploration runs every order of their steps.
// Each letter is a collective of all ranks: b is a sum in a call, r a sum by a request, o a
// broadcast from rank 0 in a call, O one by a request, l a large sum in a call, L one by a request.
// Requests are waited for at the end. Ranks may use calls and requests for the same collective.
type program struct {
	name   string
	mapped bool
	// If not zero: run only so many random orders, unless -explore.big is set; with -short, none.
	some  int
	ranks []string
	// Rank 1 has a second goroutine, which does the same as the first one. Either may get the lower
	// number.
	twoCallers bool
}

// large is the number of elements of two rounds, or two pieces.
const large = 2 * stagingSize / 8

func (p program) setup(r *explore.Run) {
	l := newLab(len(p.ranks), p.mapped)
	if p.mapped { // a nudge arrives when the other process polls for messages
		inboxes := make([]*inbox, len(p.ranks))
		for me, x := range l.ranks {
			b := &inbox{ch: make(xatomic.Chan[struct{}], 1)}
			inboxes[me] = b
			r.Daemon(fmt.Sprintf("%d.poller", me), func() {
				for {
					b.ch.Recv()
					b.some.Store(false)
					x.st.Progress()
				}
			})
		}
		l.nudge = func(to *rank) {
			if b := inboxes[to.rank]; !b.some.Swap(true) {
				b.ch.Send(struct{}{})
			}
		}
	}
	// By rank and collective: whether it ran in shared memory, not by messages.
	made := make([]map[int]bool, len(p.ranks))
	left := make([]int, len(p.ranks))
	for me, x := range l.ranks {
		r.Name(fmt.Sprint(me), x.Member)
		made[me] = map[int]bool{}
		goroutines := 1
		if p.twoCallers && me == 1 {
			goroutines = 2
		}
		for g := range goroutines {
			left[me]++
			r.Go(fmt.Sprintf("%d.%d", me, g), func() {
				x.does(r, p, made[me])
				left[me]--
			})
		}
	}
	r.End(func() error {
		for me, n := range left {
			if n != 0 {
				return fmt.Errorf("rank %d has not ended", me)
			}
			for k, here := range made[me] {
				if other, ok := made[0][k]; ok && other != here {
					return fmt.Errorf("of ranks 0 and %d, one runs collective %d in shared memory, and the other by messages", me, k)
				}
			}
		}
		if n := l.ranks[0].st.queuedAll.Load(); n != 0 {
			return fmt.Errorf("%d operations are queued", n)
		}
		return nil
	})
}

// inbox receives the nudges of a process. Several nudges count as one: the process calls Progress
// after it has taken one.
type inbox struct {
	some xatomic.Bool
	ch   xatomic.Chan[struct{}]
}

func (x *rank) bcast(buf []int64, root int) *coll.Call {
	return x.call(coll.Bcast, nil, root, mem.Of(buf), mem.Of(buf))
}

func (x *rank) does(r *explore.Run, p program, made map[int]bool) {
	var pending []xatomic.Chan[struct{}]
	value := func(k, rank int) int64 {
		if p.twoCallers {
			k = 0
		}
		return int64(100*k + rank)
	}
	for k, what := range p.ranks[x.rank] {
		n := 1
		if what == 'l' || what == 'L' {
			n = large
		}
		in, out := make([]int64, n), make([]int64, n)
		for i := range in {
			in[i] = value(k, x.rank) + int64(i)
		}
		check := func(err error) {
			r.Check(err == nil, "collective %d at rank %d: %v", k, x.rank, err)
			for i := range in {
				want := int64(0)
				switch what {
				case 'o', 'O':
					want, out[i] = value(k, 0)+int64(i), in[i]
				default:
					for rank := range len(p.ranks) {
						want += value(k, rank) + int64(i)
					}
				}
				r.Check(out[i] == want, "collective %d at rank %d: element %d is %d, not %d", k, x.rank, i, out[i], want)
			}
		}
		d := x.sum(in, out)
		if what == 'o' || what == 'O' {
			d = x.bcast(in, 0)
		}
		start := func(wait bool) {
			q, done := new(request), make(xatomic.Chan[struct{}], 1)
			q.over = func() {
				if len(q.messages) == 0 {
					check(q.err)
				}
				made[k] = len(q.messages) == 0
				r.Check(q.done.Load() == 1, "collective %d at rank %d ends %d times", k, x.rank, q.done.Load())
				done.Send(struct{}{})
			}
			x.Start(d, q)
			if wait {
				done.Recv()
			} else {
				pending = append(pending, done)
			}
		}
		switch what {
		case 'r', 'O', 'L':
			start(false)
		default:
			switch outcome, err := x.Do(d); outcome {
			case Done:
				check(err)
				made[k] = true
			case UseMessages:
				r.Check(d.Large, "collective %d at rank %d is small, and runs by messages", k, x.rank)
				made[k] = false
			case NoCell:
				start(true)
			}
		}
	}
	for _, done := range pending {
		done.Recv()
	}
}

var programs = []program{
	{name: "a call", ranks: []string{"b", "b"}},
	{name: "two calls", ranks: []string{"bb", "bb"}, some: 20_000},
	{name: "calls of three", ranks: []string{"b", "b", "b"}, some: 3_000},
	{name: "four calls", ranks: []string{"bbbb", "bbbb"}, some: 3_000},
	{name: "a request and a call", ranks: []string{"r", "b"}},
	{name: "requests", ranks: []string{"r", "r"}},
	{name: "more requests than cells", ranks: []string{"rrrr", "rrrr"}, some: 3_000},
	{name: "requests that run ahead", ranks: []string{"rrrr", "bbbb"}, some: 3_000},
	{name: "a root that runs ahead", ranks: []string{"oooo", "oooo"}, some: 3_000},
	{name: "roots and requests", ranks: []string{"oOrb", "Oorb", "oOrb"}, some: 3_000},
	{name: "a large one", ranks: []string{"l", "l"}, some: 3_000},
	{name: "a large one of three", ranks: []string{"l", "l", "l"}, some: 10_000},
	{name: "large ones and requests", ranks: []string{"lLb", "Llr"}, some: 3_000},
	{name: "two goroutines of a rank", ranks: []string{"bb", "b"}, twoCallers: true, some: 20_000},
}

// In any order of steps, all ranks compute the right sums and no rank sleeps for ever. A large
// collective in mapped memory runs by messages at all ranks or at none.
func TestExplore(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		for _, p := range programs {
			p.mapped = mapped
			if !t.Run(fmt.Sprintf("%s, mapped %v", p.name, mapped), func(t *testing.T) { explore.TestSome(t, p.some, p.setup) }) {
				return
			}
		}
	}
}
