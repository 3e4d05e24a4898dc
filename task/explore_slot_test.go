//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// TestExploreHandOver: bodies that give up their slot and get one again, with the real loops of
// slots and real spares. In the end the run is over, all slots are parked and no task waits.
func TestExploreHandOver(t *testing.T) { exploreAll(t, handOverPrograms) }

// other is the function of a goroutine without a slot. t is the main task.
type other func(r *run, t *Task)

// body is a program whose main task runs main, while the goroutines others run.
func body(slots string, main func(st *lab, t *Task) error, others ...other) func(*explore.Run) {
	return bodyEnds(nil, slots, main, others)
}

// failing is body for a run that ends early, with errExplored.
func failing(slots string, main func(st *lab, t *Task) error, others ...other) func(*explore.Run) {
	return bodyEnds(errExplored, slots, main, others)
}

func bodyEnds(want error, slots string, main func(st *lab, t *Task) error, others []other) func(*explore.Run) {
	return func(x *explore.Run) {
		st := newLab(x, len(slots))
		r, t := st.newRun(func(t *Task) error { return main(st, t) })
		st.loops(slots)
		for i, f := range others {
			x.Go(fmt.Sprint("other ", i), func() { f(r, t) })
		}
		x.End(func() error {
			if err := r.first.Load(); !errors.Is(err, want) {
				return fmt.Errorf("the run ends with: %w", err)
			}
			return st.over(r)
		})
	}
}

var errExplored = errors.New("explored")

func unblocks(_ *run, t *Task) { t.Unblock() }
func fails(r *run, _ *Task)    { r.fail(errExplored) }

// holds checks that t's body has a slot, and is the one that runs on it.
func (st *lab) holds(t *Task) {
	s := t.slot
	st.Check(s != nil && s.cur.load() == t && t.parker == nil && s.Mine(), "the body goes on without a slot")
}

func blocks(st *lab, t *Task) error {
	err := t.Block()
	st.holds(t)
	return err
}

func awaits(st *lab, t *Task) error {
	err := t.Await(func(done func()) { xatomic.Go(done) })
	st.holds(t)
	return err
}

var handOverPrograms = []exploration{
	{"block", false, 0, body("b", blocks, unblocks)},
	{"block, unblocked by two", false, 0, body("b", blocks, unblocks, unblocks)},
	{"block fails", false, 0, failing("b", blocks, fails)},
	{"block fails and is unblocked", false, 0, failing("b", blocks, unblocks, fails)},
	{"await", false, 0, body("b", awaits)},
	{"await, done by two", false, 0, body("b", func(st *lab, t *Task) error {
		err := t.Await(func(done func()) { xatomic.Go(done); xatomic.Go(done) })
		st.holds(t)
		return err
	})},
	{"await fails", false, 0, failing("b", awaits, fails)},
	{"await twice, 2 preemptions", false, 3, body("b", func(st *lab, t *Task) error {
		return errors.Join(awaits(st, t), awaits(st, t))
	})},
	{"blocking", false, 0, body("b", func(st *lab, t *Task) error {
		g := newGate()
		xatomic.Go(g.open)
		t.Blocking(g.wait)
		st.holds(t)
		return nil
	})},
	{"block twice", false, 0, func(x *explore.Run) {
		g := newGate()
		body("b", func(st *lab, t *Task) error {
			err := blocks(st, t)
			g.open()
			return errors.Join(err, blocks(st, t))
		}, func(_ *run, t *Task) {
			t.Unblock()
			g.wait()
			t.Unblock()
		})(x)
	}},
	// An Unblock that may be early ends one Block, not two.
	{"block after an early unblock", false, 0, func(x *explore.Run) {
		g := newGate()
		second := false
		body("b", func(st *lab, t *Task) error {
			err := blocks(st, t)
			g.open()
			err = errors.Join(err, blocks(st, t))
			st.Check(second, "an Unblock has ended two Blocks")
			return err
		}, func(_ *run, t *Task) {
			t.Unblock()
			g.wait()
			second = true
			t.Unblock()
		})(x)
	}},
	{"the creator waits for a child that blocks", false, 0, func(x *explore.Run) {
		body("b", func(st *lab, t *Task) error {
			t.Spawn(func(t *Task) error {
				xatomic.Go(t.Unblock)
				return blocks(st, t)
			})
			err := t.Wait()
			st.holds(t)
			return err
		})(x)
	}},
	{"two slots, block, 1 preemption", false, 2, body("bp", blocks, unblocks)},
	{"two slots, block fails, 1 preemption", false, 2, failing("bp", blocks, fails)},
	{"two slots, a child is stolen, 2 preemptions", false, 3, body("bp", func(st *lab, t *Task) error {
		ran := false
		t.Spawn(func(t *Task) error { ran = true; st.holds(t); return nil })
		err := t.Wait()
		st.holds(t)
		st.Check(ran, "Wait returns before the child is over")
		return err
	})},
}
