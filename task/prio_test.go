// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// The successor of a body runs next on its slot, behind what has a priority. One with a priority of
// its own has its place among all that are ready, below 0 behind those that have none.
func TestPriorityOfASuccessor(t *testing.T) {
	for _, row := range []struct {
		priority int
		want     []string
	}{
		{-1, []string{"high", "plain", "successor"}},
		{0, []string{"high", "successor", "plain"}},
		{1, []string{"high", "successor", "plain"}},
		{10, []string{"high", "successor", "plain"}}, // behind what was ready before
		{11, []string{"successor", "high", "plain"}},
	} {
		rt := newTestRuntime(t, Config{Workers: 1})
		var log []string
		note := func(what string) func(*Task) error {
			return func(*Task) error { log = append(log, what); return nil }
		}
		x := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				t.SpawnWith(Attrs{Priority: 10}, note("high"))
				t.Spawn(note("plain"))
				return nil
			}, deps.InOut(&x))
			t.SpawnWith(Attrs{Priority: row.priority}, note("successor"), deps.InOut(&x))
			return nil
		}))
		require.Equal(t, row.want, log, "priority %d", row.priority)
	}
}

// The oldest task is one from outside, else the slot's own, whose queue knows that no thief took
// that one.
func TestOldestOfASlot(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		s := t.slot
		tasks := []*Task{new(Task), new(Task), new(Task)}
		before := s.deque.own
		if s.oldest() != nil || s.deque.own != before {
			return errors.New("nothing is there")
		}
		s.deque.push(tasks[0])
		s.deque.push(tasks[1])
		rt.inject.push(tasks[2])
		for i, want := range []*Task{tasks[2], tasks[0], tasks[1], nil} {
			if s.oldest() != want {
				return fmt.Errorf("task %d is another one", i)
			}
		}
		if n := s.deque.own - before; n != 2 || s.deque.top.Load() != s.deque.own {
			return fmt.Errorf("the owner has taken %d of 2", n)
		}
		return nil
	}))
}
