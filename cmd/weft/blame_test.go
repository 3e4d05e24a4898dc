// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
)

func init() {
	programs["late"] = func() error { return lateProgram(false) }
	programs["late, others exit"] = func() error { return lateProgram(true) }
}

// lateProgram is a weft program whose rank 1 fails, and then ends late. The others end as soon as
// they learn of the failure: with an error or, with exit, by os.Exit.
func lateProgram(exit bool) error {
	rank, _, _, err := comm.Launched()
	if err != nil {
		return err
	}
	err = comm.Main(context.Background(), comm.Config{}, func(c *comm.Comm) error {
		if err := c.Barrier(); err != nil {
			return err
		}
		if rank == 1 {
			return errors.New("as told")
		}
		if err := c.Barrier(); exit {
			os.Exit(9)
		} else {
			return err
		}
		return nil
	})
	if rank == 1 {
		// far longer than the launcher waits for a rank that has reported nothing
		time.Sleep(400 * time.Millisecond)
		os.Exit(7)
	}
	return err
}

// The exit status is that of the rank that has failed of its own, however long it takes to end.
func TestRunNamesTheCause(t *testing.T) {
	for i, role := range []string{"late", "late, others exit"} {
		for j, options := range [][]string{{"run"}, {"run", "-keep-going"}} {
			fabric := []string{"shm", "tcp"}[(i+j)%2]
			r := self(t, "", append(options, "-n", "3", "-env", "WEFT_FABRIC="+fabric, os.Args[0], "--role", role)...)
			require.Equal(t, 7, r.status, "%s %s %s: %s", role, options, fabric, r.errOut)
			require.Regexp(t, `(?m)^weft run: rank 1 \(.*\): exit status 7`, r.errOut)
			if j == 0 {
				require.NotRegexp(t, `(?m)^weft run: rank [02]`, r.errOut)
			}
		}
	}
}
