//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"testing"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// TestExploreDetached: each function of OnDone is called once, after all that the run has done. No
// Join is forgotten, wherever the end of the run comes. life.leave is called once, and last.
func TestExploreDetached(t *testing.T) { exploreAll(t, detachedPrograms) }

// dones counts calls of OnDone's functions.
type dones struct {
	st     *lab
	ran    bool // the detached body is over
	called []int
}

// register registers one more function. Each is called once, by the end of the program.
func (c *dones) register(d *Detached, want error) {
	k := len(c.called)
	c.called = append(c.called, 0)
	d.OnDone(func(err error) {
		c.called[k]++
		c.st.Check(c.ran && d.over, "a function is called before the end")
		c.st.Check(err == want, "a function gets %v", err)
	})
}

// body is the body of the detached task.
func (c *dones) body(*Task) error { c.ran = true; return nil }

// detaching is body for programs that detach tasks, all of which are over in the end.
func detaching(slots string, main func(c *dones, t *Task) error) func(*explore.Run) {
	return func(x *explore.Run) {
		c := new(dones)
		body(slots, func(st *lab, t *Task) error {
			c.st = st
			return main(c, t)
		})(x)
		x.End(func() error {
			for k, n := range c.called {
				if n != 1 {
					return fmt.Errorf("function %d is called %d times", k, n)
				}
			}
			if n := c.st.rt.life.runs; n != 0 {
				return fmt.Errorf("%d runs are counted", n)
			}
			return nil
		})
	}
}

// ending detaches a task whose context ends by itself: contextEnds runs in any order with what the
// task does.
func (c *dones) ending() *Detached {
	rt := c.st.rt
	rt.life.enter(false)
	ctx, cancel := context.WithCancelCause(bg)
	cancel(errExplored)
	d := &Detached{rt: rt, done: make(chan struct{})}
	left := func(error) { c.st.Check(rt.life.runs == 1, "Close does not wait for the end of the context") }
	r := &run{rt: rt, handle: d, ctx: bg, cancel: left, unhook: func() bool { return false }}
	rt.readyOutside(r.main(0, c.body))
	xatomic.Go(func() { r.contextEnds(ctx) })
	return d
}

var detachedPrograms = []exploration{
	{"OnDone", false, 0, detaching("bp", func(c *dones, t *Task) error {
		c.register(c.st.rt.Spawn(bg, c.body), nil)
		return nil
	})},
	{"OnDone by two others, 2 preemptions", false, 3, detaching("b", func(c *dones, t *Task) error {
		d := c.st.rt.Spawn(bg, c.body)
		for range 2 {
			xatomic.Go(func() { c.register(d, nil) })
		}
		return nil
	})},
	{"OnDone in OnDone", false, 0, detaching("b", func(c *dones, t *Task) error {
		d := c.st.rt.Spawn(bg, c.body)
		xatomic.Go(func() { d.OnDone(func(error) { c.register(d, nil) }) })
		return nil
	})},
	{"the end is an event's, 2 preemptions", false, 3, detaching("b", func(c *dones, t *Task) error {
		d := c.st.rt.Spawn(bg, func(t *Task) error {
			end := t.Hold()
			xatomic.Go(func() { c.ran = true; end(nil) })
			return nil
		})
		c.register(d, nil)
		xatomic.Go(func() { c.register(d, nil) })
		return nil
	})},
	{"Join, two slots, 1 preemption", false, 2, detaching("bp", func(c *dones, t *Task) error {
		err := c.st.rt.Spawn(bg, c.body).Join(t)
		c.st.Check(c.ran, "Join returns before the end")
		c.st.holds(t)
		return err
	})},
	{"Join by two, two slots, 1 preemption", false, 2, detaching("bp", func(c *dones, t *Task) error {
		d := c.st.rt.Spawn(bg, c.body)
		t.Spawn(func(t *Task) error {
			err := d.Join(t)
			c.st.Check(c.ran, "Join returns before the end")
			return err
		})
		err := d.Join(t)
		c.st.Check(c.ran, "Join returns before the end")
		return err
	})},
	{"the context ends, 2 preemptions", false, 3, detaching("b", func(c *dones, t *Task) error {
		d := c.ending()
		t.Spawn(nothing)
		_ = d.Join(t)
		c.st.Check(d.over, "Join returns before the end")
		return nil
	})},
}
