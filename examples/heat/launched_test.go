// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/internal/launch/job"
	"weft/nam"
)

// killEnv makes one rank of a job kill itself when the window w has six complete epochs. Its value
// is the rank.
const killEnv = "HEAT_TEST_KILL"

// dieInTheMiddle kills this rank in the middle of the run, if killEnv names it.
func dieInTheMiddle() {
	if rank, ok := os.LookupEnv(killEnv); !ok || rank != os.Getenv("WEFT_RANK") {
		return
	}
	go func() {
		store, err := nam.Open("", nam.Config{})
		for err == nil {
			time.Sleep(time.Millisecond) // the moment of death is the input of this test
			if a, err := store.Stat("w"); err == nil && a.Epochs >= 6 {
				if me, err := os.FindProcess(os.Getpid()); err == nil {
					_ = me.Kill()
				}
			}
		}
	}()
}

// launched runs the program with ranks as processes: one part of the job for each line.
func launched(t *testing.T, ranks int, env []string, lines ...string) (status int, stdout, stderr string) {
	return launchedFor(t, time.Minute, ranks, env, lines...)
}

func launchedFor(t *testing.T, limit time.Duration, ranks int, env []string, lines ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	spec := job.Spec{Stdout: &out, Stderr: &errs, Timeout: limit, Grace: 10 * time.Second}
	for _, line := range lines {
		// With the race detector, a process waits for a second when it exits.
		spec.Parts = append(spec.Parts, job.Part{Ranks: ranks, Program: os.Args[0],
			Env: append(env, childEnv+"="+line, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))})
	}
	status, err := job.Run(spec)
	require.NoError(t, err)
	return status, out.String(), errs.String()
}

// Every variant on one to three processes: the result equals the sequential sweep, all snapshots
// are in the store, and each message is printed once.
func TestRanksAsProcesses(t *testing.T) {
	for _, variant := range conf.Variants {
		for ranks := 1; ranks <= 3; ranks++ {
			t.Run(fmt.Sprintf("%s/%d", variant, ranks), func(t *testing.T) {
				newTestDir(t)
				fabric := "shm"
				if ranks == 3 {
					fabric = "tcp,shm"
				}
				status, stdout, stderr := launched(t, ranks, []string{"WEFT_FABRIC=" + fabric, "WEFT_TRACE=run.weft"},
					"-variant "+variant+" -r 96 -c 80 -R 16 -C 20 -t 30 -nam-freq 10 -window w -check -gif w.gif -progress")
				require.Zero(t, status, stderr)
				require.Equal(t, 1, strings.Count(stdout, "\n"), stdout)
				require.Contains(t, stdout, fmt.Sprintf(", ranks, %d,", ranks))
				require.Equal(t, 1, strings.Count(stderr, "check passed"), stderr)
				require.Equal(t, 3, strings.Count(stderr, "\n"), stderr)
				store, err := nam.Open("", nam.Config{})
				require.NoError(t, err)
				defer func() { require.NoError(t, store.Close()) }()
				require.Equal(t, 4, requireSnapshots(t, store, "w", 10))
				requireMovie(t, "w.gif", 4)
				requireLegal(t, ranks)
			})
		}
	}
}

// Mistakes are printed once, whichever ranks make them, and every rank ends.
func TestMistakesOfLaunchedRanks(t *testing.T) {
	newTestDir(t)
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	for _, c := range []struct {
		ranks  int
		lines  []string
		status int
		want   string
	}{
		{3, []string{"-ranks 2"}, exitUsage, "heat: -ranks is 2, but 3 ranks were started: leave the flag out, or start as many\n"},
		{2, []string{"-foo"}, exitUsage, "heat: flag provided but not defined: -foo; heat -h lists the legal flags\n"},
		{1, []string{"-t 1 -nam-freq 0", "-foo"}, exitUsage, "heat: rank 1: flag provided but not defined: -foo; heat -h lists the legal flags\n"},
		{1, []string{"-t 1 -nam-freq 0", "-t 2 -nam-freq 0"}, exitUsage, "heat: rank 1: its flags are not those of rank 0; all ranks of a run need the same\n"},
		{2, []string{"-t 1 -gif no/such/x.gif"}, exitUsage, "cannot write no/such/x.gif"},
		{2, []string{"-t 1 -nam-dir file"}, exitFailed, "heat: cannot open the store"},
		{1, []string{"-size 64 -t 5 -nam-dir one -window a", "-size 64 -t 5 -nam-dir two -window a"}, exitFailed, "is not the store of rank 0"},
	} {
		status, _, stderr := launched(t, c.ranks, nil, c.lines...)
		require.Equal(t, c.status, status, stderr)
		require.Contains(t, stderr, c.want)
		require.Equal(t, 1, strings.Count(stderr, "heat: ")-strings.Count(stderr, "heat: snapshots go"), stderr)
	}
	status, stdout, stderr := launched(t, 2, nil, "-h")
	require.Zero(t, status, stderr)
	require.Equal(t, conf.Help, stdout)
}

// A bad setting of a single rank is printed as well.
func TestBadSettingOfOneRank(t *testing.T) {
	newTestDir(t)
	for name, value := range map[string]string{"WEFT_SPARE": "yes", "PSP_SMP_NODE_ID": "here"} {
		var errs bytes.Buffer
		spec := job.Spec{Stdout: io.Discard, Stderr: &errs, Timeout: time.Minute, Grace: 10 * time.Second}
		for r := range 2 {
			env := []string{childEnv + "=-t 1 -nam-freq 0", "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE")}
			if r == 1 {
				env = append(env, name+"="+value)
			}
			spec.Parts = append(spec.Parts, job.Part{Ranks: 1, Program: os.Args[0], Env: env})
		}
		status, err := job.Run(spec)
		require.NoError(t, err)
		require.Equal(t, exitFailed, status, errs.String())
		require.Contains(t, errs.String(), fmt.Sprintf("%s=%q", name, value))
		require.Equal(t, 1, strings.Count(errs.String(), "heat: "), errs.String())
	}
}

// One rank is killed in the middle. The others end soon, and the complete snapshots are in the
// store.
func TestKilledRankLeavesCompleteSnapshots(t *testing.T) {
	for i, variant := range conf.Variants {
		t.Run(variant, func(t *testing.T) {
			newTestDir(t)
			const freq = 100
			steps := 6000 // too many to end before the kill
			if variant == conf.MPI {
				steps = 60_000
			}
			status, stdout, stderr := launched(t, 3, []string{fmt.Sprintf("%s=%d", killEnv, i)},
				fmt.Sprintf("-variant %s -size 96 -bs 16 -timesteps %d -nam-freq %d -window w", variant, steps, freq))
			require.Equal(t, 128+int(syscall.SIGKILL), status, stderr)
			require.Empty(t, stdout)
			// The launcher names one rank, with the signal. Another rank may also report the
			// failure, if it learns of it before the launcher's SIGTERM arrives.
			require.Equal(t, 1, strings.Count(stderr, "weft run: rank "), stderr)
			require.Equal(t, 1, strings.Count(stderr, "): killed by signal 9"), stderr)
			// The launcher's SIGTERM may arrive before the failure notice.
			require.LessOrEqual(t, strings.Count(stderr, "heat: ")-strings.Count(stderr, "heat: snapshots go"), 1, stderr)
			store, err := nam.Open("", nam.Config{})
			require.NoError(t, err)
			defer func() { require.NoError(t, store.Close()) }()
			complete := requireSnapshots(t, store, "w", freq)
			require.GreaterOrEqual(t, complete, 3)
			require.Less(t, complete, 1+steps/freq)
			require.NoError(t, store.Remove("w"))
		})
	}
}
