// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
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
