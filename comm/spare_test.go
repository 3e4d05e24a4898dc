// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !mpi

package comm

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/launch/job"
	"weft/internal/processors"
)

func init() { roles["spare"], roles["nested"] = spareRole, nestedRole }

// nestedRole calls Main inside Main. Run, which makes ranks in the process, is allowed there.
func nestedRole() error {
	ctx := context.Background()
	return Main(ctx, Config{}, func(c *Comm) error {
		fmt.Println(Main(ctx, Config{}, func(*Comm) error { return nil }))
		return Run(ctx, Config{Ranks: 2}, (*Comm).Barrier)
	})
}

// A process that is a rank runs one Main at a time, and reports a second one: among ranks of MPI a
// second Main would wait for the others.
func TestNestedMain(t *testing.T) {
	status, out, errOut := start(t, "nested", 2, job.Spec{})
	require.Equal(t, 0, status, errOut)
	require.Equal(t, 2, strings.Count(out, "Main is called while it runs in this process, which was started as one rank"), out)
}

func spareRole() error {
	before := runtime.GOMAXPROCS(0)
	err := Main(context.Background(), Config{}, func(c *Comm) error {
		fmt.Printf("%d for %d; ", runtime.GOMAXPROCS(0)-before, processors.Count()-before)
		return c.Barrier()
	})
	fmt.Printf("%d after\n", runtime.GOMAXPROCS(0)-before)
	return err
}

// WEFT_SPARE gives Go one more processor while the run lasts; computing goroutines get no more.
func TestSpare(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	for value, want := range map[string]string{"1": "1 for 0; 0 after\n", "0": "0 for 0; 0 after\n", "": "0 for 0; 0 after\n"} {
		status, out, errOut := start(t, "spare", 2, job.Spec{}, EnvSpare+"="+value)
		require.Equal(t, 0, status, errOut)
		require.Equal(t, want+want, out, "%s=%s", EnvSpare, value)
	}
	status, _, errOut := start(t, "spare", 1, job.Spec{}, EnvSpare+"=yes")
	require.Equal(t, 1, status)
	require.Contains(t, errOut, `WEFT_SPARE="yes"; legal: 0, 1`)
}
