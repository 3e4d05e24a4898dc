// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/tampi"
	"weft/task"
	"weft/trace"
)

// traced is the program of docs/guide/tracing.md.
func traced(ctx context.Context, file string) error {
	rec, err := trace.New(trace.Options{File: file})
	if err != nil {
		return err
	}
	rt := task.New(task.Config{Trace: rec})
	body := func(c *comm.Comm) error {
		return tampi.Run(rt, c, func(t *task.Task) error { return tampi.Barrier(t, c) })
	}
	err = comm.Run(ctx, comm.Config{Ranks: 2, Trace: rec}, body)
	return errors.Join(err, rt.Close(), rec.Close())
}

func TestTracing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	require.NoError(t, traced(t.Context(), file))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(b), `"traceEvents"`)
	require.Contains(t, string(b), `"rank":1`)
}
