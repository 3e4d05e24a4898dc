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

// program is what the ranks of a small job do, of which every order is run. Each letter is a
// collective of all: b is a sum in a call that waits, r one by a request, o a broadcast from rank 0
// in a call, O one by a request, l a large sum in a call, L one by a request. Requests are waited
// for at the end. Ranks may make the same collective in different ways.
type program struct {
	name   string
	mapped bool
	// if not zero: so many orders by chance only, unless all are asked for by -explore.big; with
	// -short, none
	some  int
	ranks []string
	// rank 1 has a second goroutine, which does what the first one does: which of them gets which
	// number is not known
	twoCallers bool
}

// large is two windows, or pieces, of elements.
const large = 2 * stagingSize / 8

func (p program) setup(r *explore.Run) {
	l := newLab(len(p.ranks), p.mapped)
	if p.mapped { // a nudge arrives when the other process looks for messages
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
	// by rank and collective: whether it was made here, not of messages
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
				return fmt.Errorf("rank %d is not through", me)
			}
			for k, here := range made[me] {
				if other, ok := made[0][k]; ok && other != here {
					return fmt.Errorf("collective %d is made here by one of the ranks 0 and %d, and of messages by the other", k, me)
				}
			}
		}
		if late := l.ranks[0].st.queuedAll.Load(); late != 0 {
			return fmt.Errorf("%d operations wait for a place", late)
		}
		return nil
	})
}

// inbox is where nudges come to a process, of which several are as good as one: who has taken one
// looks behind that.
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
				r.Check(d.Large, "collective %d at rank %d is small, and is made of messages", k, x.rank)
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
	{name: "more requests than places", ranks: []string{"rrrr", "rrrr"}, some: 3_000},
	{name: "who goes ahead", ranks: []string{"rrrr", "bbbb"}, some: 3_000},
	{name: "a root that goes ahead", ranks: []string{"oooo", "oooo"}, some: 3_000},
	{name: "roots and requests", ranks: []string{"oOrb", "Oorb", "oOrb"}, some: 3_000},
	{name: "a large one", ranks: []string{"l", "l"}, some: 3_000},
	{name: "a large one of three", ranks: []string{"l", "l", "l"}, some: 10_000},
	{name: "large ones and requests", ranks: []string{"lLb", "Llr"}, some: 3_000},
	{name: "two goroutines of a rank", ranks: []string{"bb", "b"}, twoCallers: true, some: 20_000},
}

// TestExplore: all ranks come to the right sums, whatever the order, nobody sleeps for ever, and a
// large collective in mapped memory is made of messages by all ranks or by none.
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
