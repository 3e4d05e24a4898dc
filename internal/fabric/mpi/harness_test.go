//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// envRole says what a test binary that mpirun has started is to be.
const envRole = "WEFT_TEST_MPI_ROLE"

// roles are the programs of the jobs that tests start; each returns the exit status.
var roles = map[string]func(p *Process) int{}

// process is this process's, in a job.
var process *Process

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		os.Exit(m.Run())
	}
	l, err := Detect()
	if err == nil {
		process, err = Start(l)
	}
	if err != nil {
		println(err.Error())
		os.Exit(3)
	}
	status := 0
	if role == "suite" {
		status = suite(m)
	} else {
		status = roles[role](process)
	}
	if err := process.Finalize(); err != nil {
		println(err.Error())
		status = 4
	}
	os.Exit(status)
}

// mpirun returns the launcher that belongs to the library which this binary is linked with, or skips the test.
func mpirun(t testing.TB, n int) []string {
	t.Helper()
	names, sign, options := []string{"mpirun.openmpi", "mpirun"}, "open", []string{"--oversubscribe", "--allow-run-as-root"}
	if strings.HasPrefix(Version(), "MPICH") {
		names, sign, options = []string{"mpirun.mpich", "mpirun"}, "hydra", nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			out, _ := exec.Command(path, "--version").CombinedOutput()
			if strings.Contains(strings.ToLower(string(out)), sign) {
				return append(append([]string{path}, options...), "-n", strconv.Itoa(n))
			}
		}
	}
	t.Skipf("no mpirun that belongs to %s is in PATH (tried %s)", Version(), strings.Join(names, ", "))
	return nil
}

// job runs this test binary as n ranks, and returns what they have written and their exit status.
func job(t testing.TB, n int, role string, args []string, env ...string) (string, error) {
	t.Helper()
	line := append(mpirun(t, n), os.Args[0])
	line = append(line, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), envRole+"="+role)
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// succeed runs a role as a job that must succeed.
func succeed(t testing.TB, n int, role string, env ...string) string {
	t.Helper()
	out, err := job(t, n, role, nil, env...)
	require.NoError(t, err, "%s", out)
	return out
}

// world is the list of all ranks.
func world(p *Process) []int {
	ranks := make([]int, p.Size)
	for i := range ranks {
		ranks[i] = i
	}
	return ranks
}
