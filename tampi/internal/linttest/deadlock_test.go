// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/tampi"
	"weft/task"
)

// Lint mode reports a deadlock as certain, too: the detector counts the goroutines of finished
// bodies, and those that run bodies, correctly.
func TestDeadlockInLintMode(t *testing.T) {
	err := comm.Run(context.Background(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		rt := task.New(task.Config{Workers: 2, Lint: true})
		defer func() { _ = rt.Close() }()
		return tampi.Run(rt, c, func(t *task.Task) error {
			x := make([]int, 4)
			for range 20 {
				t.Spawn(func(*task.Task) error { x[0]++; return nil }, deps.Slice(x).InOut())
			}
			t.Spawn(func(t *task.Task) error {
				_, err := tampi.Recv(t, c, comm.Of(x), 1-c.Rank(), 1)
				return err
			}, deps.Slice(x).InOut())
			return nil
		})
	})
	require.ErrorIs(t, err, comm.ErrDeadlock)
}
