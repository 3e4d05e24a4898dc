// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package mpitest starts programs with the mpirun of the MPI library that a test is linked with.
package mpitest

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limit is the longest time of a job.
const limit = 100 * time.Second

// Run runs a program as n ranks, and returns their output and how the job has ended. library is the
// result of mpi.Version. The test is skipped if library is empty, so this build has no MPI, or if
// there is no mpirun that belongs to the library.
func Run(t testing.TB, library string, n int, program []string, env ...string) (string, error) {
	t.Helper()
	if library == "" {
		t.Skip("this test needs MPI: CC=mpicc go test -tags mpi")
	}
	// The library's mpirun is the first of these names whose version text contains sign.
	names, sign, options := []string{"mpirun.mpich", "mpirun"}, "hydra", []string(nil)
	if strings.HasPrefix(library, "Open MPI") {
		names, sign, options = []string{"mpirun.openmpi", "mpirun"}, "open", []string{"--oversubscribe", "--allow-run-as-root"}
	}
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if out, _ := exec.Command(path, "--version").CombinedOutput(); !strings.Contains(strings.ToLower(string(out)), sign) {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, slices.Concat(options, []string{"-n", strconv.Itoa(n)}, program)...)
		cmd.Env = append(os.Environ(), env...)
		cmd.WaitDelay = 5 * time.Second
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Skipf("no mpirun of %s is in PATH (tried %s)", library, strings.Join(names, ", "))
	return "", nil
}
