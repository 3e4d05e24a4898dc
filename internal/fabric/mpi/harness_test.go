//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/mpi/mpitest"
	"weft/internal/leaktest"
)

// envRole names the role of a test binary that mpirun has started.
const envRole = "WEFT_TEST_MPI_ROLE"

// roles are the programs of the jobs that tests start; each returns the exit status.
var roles = map[string]func(p *Process) int{}

// process is this process in a job, nil outside.
var process *Process

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		os.Exit(leaktest.Main(m))
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

// job runs this test binary as n ranks, and returns their output and how the job has ended.
func job(t testing.TB, n int, role string, args []string, env ...string) (string, error) {
	t.Helper()
	return mpitest.Run(t, Version(), n, append([]string{os.Args[0]}, args...), append(env, envRole+"="+role)...)
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
