// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !mpi

package comm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/launch/job"
)

const oddVariable = "COMM_TEST_ODD" // a setting that only rank 1 has

func init() {
	roles["plain"] = func() error {
		cfg := Config{}
		if name, value, ok := strings.Cut(os.Getenv(oddVariable), "="); ok && os.Getenv("WEFT_RANK") == "1" {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		if len(os.Args) > 1 && os.Args[1] == "log" {
			cfg.Logger = slog.New(slog.NewJSONHandler(os.Stdout, nil))
		}
		for range 2 { // reports about the environment come once
			if err := Main(context.Background(), cfg, func(c *Comm) error {
				fmt.Printf("rank %d of %d\n", c.Rank(), c.Size())
				return nil
			}); err != nil {
				return err
			}
			if os.Getenv("WEFT_JOB") != "" {
				break
			}
		}
		return nil
	}
}

// alone runs this binary as a program that no launcher has started.
func alone(t *testing.T, role string, env []string, args ...string) (status int, out, errOut string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// Variables with unknown names are reported, once.
func TestUnknownVariables(t *testing.T) {
	env := []string{"WEFT_WROKERS=2", "PSP_ONDEMAND=1", "WEFT_RANKS=2"}
	const lines = "weft: environment variable PSP_ONDEMAND: ParaStation MPI's, which weft does not have\n" +
		"weft: environment variable WEFT_WROKERS: no such variable; did you mean WEFT_WORKERS?\n"
	status, out, errOut := alone(t, "plain", env)
	require.Zero(t, status, errOut)
	require.Equal(t, 4, strings.Count(out, "of 2"), out)
	require.Equal(t, lines, errOut)

	status, out, errOut = alone(t, "plain", env, "log")
	require.Zero(t, status, errOut)
	require.Empty(t, errOut)
	require.Equal(t, 1, strings.Count(out, "WEFT_WROKERS"), out)
	require.Equal(t, 1, strings.Count(out, "PSP_ONDEMAND"), out)

	// A launcher that does not report them itself: rank 0 does.
	status, _, errOut = start(t, "plain", 3, job.Spec{}, env[:2]...)
	require.Zero(t, status, errOut)
	require.Equal(t, lines, errOut)
	status, _, errOut = start(t, "plain", 3, job.Spec{}, env[0], env[1], "WEFT_REPORTED=PSP_ONDEMAND,WEFT_WROKERS")
	require.Zero(t, status, errOut)
	require.Empty(t, errOut)
}

// An illegal value is an error in every build, also of a variable that this run does not need.
func TestIllegalValues(t *testing.T) {
	for _, c := range []struct{ name, value, legal string }{
		{"WEFT_MPI", "yes", "legal: 0, 1"},
		{"WEFT_MPI_SLEEP", "16", "legal: a time from 0s"},
		{"WEFT_MPI_SLEEP", "2s", "legal: a time from 0s"},
		{"WEFT_BOUND", "all", "is not a processor"},
		{"WEFT_BOUND", "3-1", "is not a processor"},
	} {
		named := fmt.Sprintf("%s=%q; ", c.name, c.value)
		status, out, errOut := alone(t, "plain", []string{c.name + "=" + c.value})
		require.Equal(t, 1, status, named)
		require.Empty(t, out)
		require.Contains(t, errOut, named)
		require.Contains(t, errOut, c.legal)
		require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)

		t.Setenv(c.name, c.value)
		err := Run(context.Background(), Config{}, func(*Comm) error { return nil })
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, named)
		t.Setenv(c.name, "")
	}
	for _, env := range [][]string{{"WEFT_MPI=0", "WEFT_MPI_SLEEP=0s", "WEFT_BOUND="}, {"WEFT_MPI_SLEEP=1s", "WEFT_BOUND=0-3,7"}} {
		status, _, errOut := alone(t, "plain", env)
		require.Zero(t, status, errOut)
		require.Empty(t, errOut)
	}
}

// A setting that is wrong at one rank only is the error of all.
func TestIllegalValueOfOneRank(t *testing.T) {
	for name, wrong := range map[string]string{EnvSpare: "yes", "WEFT_MPI_SLEEP": "5h", "PSP_TCP": "often", "PSP_RETRY": "-1", "PSP_SMP_NODE_ID": "here", EnvCollectives: "magic"} {
		status, out, errOut := start(t, "plain", 3, job.Spec{Grace: time.Minute}, oddVariable+"="+name+"="+wrong)
		require.Equal(t, 1, status, errOut)
		require.Empty(t, out)
		said := 0
		for line := range strings.Lines(errOut) {
			if strings.HasPrefix(line, "comm: ") { // the launcher may be quicker at ending a rank
				require.Regexp(t, "^comm: run: rank 1 of 3: (launch: meet: rank 1: )?bad (configuration|environment): .*"+name+".*"+wrong, line)
				said++
			}
		}
		require.Positive(t, said, errOut)
		require.Contains(t, errOut, "weft run: rank 1 ")
	}
}

// A program that srun has started several times, without telling the processes of each other,
// refuses to run.
func TestStartedSeveralTimesBySlurm(t *testing.T) {
	step := []string{"SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1", "SLURM_NTASKS=4"}
	status, out, errOut := alone(t, "plain", step)
	require.Equal(t, 1, status)
	require.Empty(t, out)
	for _, way := range []string{"srun has started 4 of this program", "-tags mpi", "--mpi=pmix", "weft run -n 4", "-join", "WEFT_MPI=0", "SLURM_STEP_NUM_TASKS"} {
		require.Contains(t, errOut, way)
	}
	require.Equal(t, 1, strings.Count(errOut, "\n"), errOut)

	for _, env := range [][]string{append(step, "WEFT_MPI=0"), {"SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=4"}, {"SLURM_NTASKS=4", "SLURM_PROCID=0"}} {
		status, out, errOut = alone(t, "plain", env)
		require.Zero(t, status, errOut)
		require.Contains(t, out, "rank 0 of 1")
		require.Empty(t, errOut)
	}
	status, out, errOut = start(t, "plain", 2, job.Spec{}, step...)
	require.Zero(t, status, errOut)
	require.Contains(t, out, "rank 1 of 2")
}
