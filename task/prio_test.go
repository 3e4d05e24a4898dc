// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// The successor of a body runs next on its slot, after tasks with a priority. A successor with a
// priority takes its turn among all ready tasks; below 0 it runs after tasks without a priority.
func TestPriorityOfASuccessor(t *testing.T) {
	for _, row := range []struct {
		priority int
		want     []string
	}{
		{-1, []string{"high", "plain", "successor"}},
		{0, []string{"high", "successor", "plain"}},
		{1, []string{"high", "successor", "plain"}},
		{10, []string{"high", "successor", "plain"}}, // after the tasks that were ready before
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
