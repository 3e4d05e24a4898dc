//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"testing"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// TestExploreMutex: sections do not overlap, and each call of Lock gets the Mutex or the error of
// the run. The holder gives up its slot in the section, so that others call Lock meanwhile.
func TestExploreMutex(t *testing.T) { exploreAll(t, mutexPrograms) }

// sections runs n children that each have a section, in which they wait for a goroutine if waits is
// set.
func sections(n int, waits bool) func(st *lab, t *Task) error {
	return func(st *lab, t *Task) error {
		m := new(Mutex)
		st.Name("mutex", m)
		inside, done := 0, 0
		for range n {
			t.Spawn(func(t *Task) error {
				err := m.Lock(t)
				if err != nil {
					return err
				}
				inside++
				st.Check(inside == 1, "%d in the section", inside)
				if waits {
					err = awaits(st, t)
				}
				inside--
				done++
				m.Unlock(t)
				return err
			})
		}
		err := t.Wait()
		st.Check(err != nil || done == n, "%d of %d sections", done, n)
		st.Check(m.holder == nil && m.queue.first == nil, "the Mutex is not free in the end")
		return err
	}
}

var mutexPrograms = []exploration{
	{"one", false, 0, body("b", sections(1, true))},
	{"two, 2 preemptions", false, 3, body("b", sections(2, true))},
	{"two fail, 1 preemption", false, 2, failing("b", sections(2, true), fails)},
	{"two slots, 2 preemptions", false, 3, body("bp", sections(2, false))},
	{"a body ends with it", false, 0, func(x *explore.Run) {
		bodyEnds(ErrLocked, "b", func(st *lab, t *Task) error {
			m := new(Mutex)
			t.Spawn(func(t *Task) error {
				err := m.Lock(t)
				return errors.Join(err, awaits(st, t))
			})
			t.Spawn(func(t *Task) error {
				if err := m.Lock(t); err != nil {
					return err
				}
				m.Unlock(t)
				return nil
			})
			err := t.Wait()
			st.Check(m.holder == nil && m.queue.first == nil, "the Mutex is not free in the end")
			return err
		}, nil)(x)
	}},
}

var waitWordPrograms = []exploration{
	{"one waits", false, 0, func(x *explore.Run) {
		var w waitWord
		var waits, wakes bool
		c := make(xatomic.Chan[int], 1)
		x.Go("waiter", func() {
			if waits = w.wait(); waits {
				c.Recv()
			}
		})
		x.Go("finisher", func() {
			if wakes = w.done(); wakes {
				c.Send(1)
			}
		})
		x.End(func() error {
			if waits != wakes {
				return errors.New("the two do not agree")
			}
			return nil
		})
	}},
}
