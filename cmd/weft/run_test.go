// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/launch/job"
	"weft/internal/leaktest"
)

// This test binary is also the command, and the programs that the command starts.
const roleVariable = "COMMAND_TEST_ROLE"

func TestMain(m *testing.M) {
	if job.Janitor() {
		return
	}
	role := os.Getenv(roleVariable)
	if len(os.Args) > 1 && os.Args[1] == "--role" {
		role = os.Args[2]
	}
	switch role {
	case "":
		// With the race detector, a process waits for a second when it exits.
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
			panic(err)
		}
		os.Exit(leaktest.Main(m))
	case "weft":
		main()
	default:
		if err := program(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// programs are the programs of other test files, by role.
var programs = map[string]func() error{}

// program is a weft program: it prints its rank, and fails if its role says so.
func program(role string) error {
	if f := programs[role]; f != nil {
		return f()
	}
	var cfg comm.Config
	if role == "three" {
		cfg.Ranks = 3
	}
	return comm.Main(context.Background(), cfg, func(c *comm.Comm) error {
		fmt.Printf("rank %d of %d\n", c.Rank(), c.Size())
		switch {
		case role == "fail":
			return errors.New("as told")
		case role == "kill" && c.Rank() == 1:
			me, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			if err := c.Barrier(); err != nil {
				return err
			}
			return me.Kill()
		case role == "kill":
			if err := c.Barrier(); err != nil {
				return err
			}
		}
		return c.Barrier()
	})
}

// self runs the command as a process.
func self(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("ranks as processes need Unix")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"=weft")
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestRun(t *testing.T) {
	r := self(t, "input\n", "run", "-n", "2", "cat", ":", "-np=2", "-x", "A=b", "-wdir", "/", "sh", "-c", "echo $A; pwd")
	require.Zero(t, r.status, r.errOut)
	require.ElementsMatch(t, []string{"input", "b", "/", "b", "/", ""}, strings.Split(r.out, "\n"))
	require.Empty(t, r.errOut)

	r = self(t, "", "run", "-l", "-n", "3", "sh", "-c", "exit $((4 + WEFT_RANK))")
	require.Contains(t, []int{4, 5, 6}, r.status)
	require.Regexp(t, `^weft run: rank [012] \(sh\): exit status [456]`, r.errOut)

	r = self(t, "", "run", "surely-not-there")
	require.Equal(t, job.StatusNoProgram, r.status)
	require.Equal(t, "weft: surely-not-there: there is no such program in PATH\n", r.errOut)
	r = self(t, "", "run", "./")
	require.Equal(t, job.StatusCannotRun, r.status)
	r = self(t, "", "run", "-wdir", "/surely/not", "sh")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.errOut, "Try 'weft run -h'.")

	dir := filepath.Join(t.TempDir(), "logs")
	r = self(t, "", "run", "-timeout", "1h", "-grace", "1s", "-keep-going", "-o", dir, "-n", "2", "sh", "-c", "echo hello")
	require.Zero(t, r.status, r.errOut)
	require.Empty(t, r.out)
	text, err := os.ReadFile(filepath.Join(dir, "rank.1.out"))
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(text))
}

// The launcher reports unknown variables, of its own environment and of its options. The ranks do
// not report them again.
func TestRunReportsUnknownVariables(t *testing.T) {
	t.Setenv("WEFT_BNID", "core")
	r := self(t, "", "run", "-n", "2", "-env", "WEFT_WROKERS=2", os.Args[0], "--role", "say", ":", "-env", "PSP_GUARD=1", os.Args[0], "--role", "say")
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "weft: environment variable PSP_GUARD: ParaStation MPI's, which weft does not have\n"+
		"weft: environment variable WEFT_BNID: no such variable; did you mean WEFT_BIND?\n"+
		"weft: environment variable WEFT_WROKERS: no such variable; did you mean WEFT_WORKERS?\n", r.errOut)
	// A variable that a script between launcher and program sets is reported by rank 0.
	r = self(t, "", "run", "-n", "2", "sh", "-c", `WEFT_WINDWO=9 exec "$0" --role say`, os.Args[0])
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "weft: environment variable WEFT_BNID: no such variable; did you mean WEFT_BIND?\n"+
		"weft: environment variable WEFT_WINDWO: no such variable; did you mean WEFT_WINDOW?\n", r.errOut)
}

// The command in a pipeline whose reader exits, and its exit after a signal that kills the ranks.
func TestRunInAShell(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("ranks as processes need Unix")
	}
	sh := exec.Command("bash", "-c", `"$0" run -n 3 yes | head -n 1; echo ${PIPESTATUS[0]}`, os.Args[0])
	sh.Env = append(os.Environ(), roleVariable+"=weft")
	var errOut strings.Builder
	sh.Stderr = &errOut
	out, err := sh.Output()
	require.NoError(t, err)
	require.Equal(t, "y\n141\n", string(out))
	require.Empty(t, errOut.String())

	cmd := exec.Command(os.Args[0], "run", "-n", "2", "sh", "-c", "echo ready; exec sleep 1000")
	cmd.Env = append(os.Environ(), roleVariable+"=weft")
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var a, b string
	_, err = fmt.Fscan(pipe, &a, &b)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
}

// A weft program needs no flag.
func TestRunWeftProgram(t *testing.T) {
	me := os.Args[0]
	r := self(t, "", "run", me, "--role", "any")
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "rank 0 of 1\n", r.out)

	r = self(t, "", "run", me, "--role", "fail")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errOut, "comm: rank 0: as told\n")
	require.Contains(t, r.errOut, "weft run: rank 0 (")

	r = self(t, "", "run", "-n", "2", me, "--role", "three")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errOut, "the program wants 3 ranks, and is one of 2 that were started")

	for _, ranks := range []int{2, 4} {
		r = self(t, "", "run", "-n", fmt.Sprint(ranks), me, "--role", "any")
		require.Zero(t, r.status, r.errOut)
		var want []string
		for i := range ranks {
			want = append(want, fmt.Sprintf("rank %d of %d", i, ranks))
		}
		require.ElementsMatch(t, want, strings.Split(strings.TrimSpace(r.out), "\n"))
		require.Empty(t, r.errOut)
	}

	// One rank fails, and one is killed: the others learn of it in whatever call they wait.
	r = self(t, "", "run", "-grace", "1h", "-n", "3", me, "--role", "fail")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errOut, "as told")
	r = self(t, "", "run", "-keep-going", "-n", "3", me, "--role", "kill")
	require.Equal(t, 137, r.status, r.errOut)
	// Each of the others reports it: rank 1, or a rank that ended because of rank 1.
	require.Len(t, regexp.MustCompile(`(?m)^comm: rank [02]: barrier: rank [012] is lost: `).FindAllString(r.errOut, -1), 2, r.errOut)

	r = self(t, "", "run", me, "--role", "any", ":", "-env", "WEFT_WORKERS=2", "-env", "PSP_SMP_NODE_ID=x", me, "--role", "any")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errOut, `PSP_SMP_NODE_ID="x"; legal: 0 to`)
}

func TestRunArguments(t *testing.T) {
	spec, help, err := parseRun(strings.Fields("-l -n 2 --wdir=/tmp -env A=1 -x B= ./a -n 7 -- : -np 3 -- -prog : b : c"))
	require.NoError(t, err)
	require.False(t, help)
	require.True(t, spec.Label)
	require.Equal(t, []job.Part{
		{Ranks: 2, Dir: "/tmp", Env: []string{"A=1", "B="}, Program: "./a", Args: []string{"-n", "7", "--"}},
		{Ranks: 3, Program: "-prog", Args: []string{}},
		{Ranks: 1, Program: "b", Args: []string{}},
		{Ranks: 1, Program: "c", Args: []string{}},
	}, spec.Parts)

	for _, row := range []struct{ line, want string }{
		{"", "there is no program to run; it is [OPTION...] PROGRAM"},
		{"-n 2", "there is no program to run"},
		{"-n", "-n needs a number of ranks"},
		{"-n : a", "-n needs a number of ranks"},
		{"-n 0 a", "-n 0: it must be a number of ranks, 1 to 4096"},
		{"-n 4097 a", "1 to 4096"},
		{"-np x a", "-np x: it must be a number of ranks"},
		{"-n=-1 a", "-n -1: it must be"},
		{"-frob a", "unknown option -frob; legal are -bind, -elsewhere, -env, -first, -grace, -join, -keep-going, -l, -label, -listen, -n, -np, -o, -output, -secret-file, -timeout, -trace, -v, -verbose, -wait, -wdir, -x, -h"},
		{"--host a b", "-host: weft run starts ranks on its own machine only, and is no launcher for clusters; on another one, start another weft run with -join"},
		{"-hostfile f a", "start another weft run with -join"},
		{"-elsewhere 0 a", "-elsewhere 0: it must be the number of ranks, 1 to 4096"},
		{"-first x a", "-first x: it must be the number of the first rank, 1 to 4095"},
		{"-l=yes a", "-l=yes: it takes no value"},
		{"a : -l b", "-l is an option of the whole job; it belongs before the first program"},
		{"a :", "part 2 of the command line has no program; colons separate parts"},
		{": a", "part 1 of the command line"},
		{"a : -n 2 : b", "part 2 of the command line"},
		{"-env A a", "-env A: it must be NAME=VALUE"},
		{"-env =A a", "it must be NAME=VALUE"},
		{"-x SURELY_NOT_SET a", "-x SURELY_NOT_SET: there is no such variable in the environment"},
		{"-timeout 5 a", "-timeout 5: it must be a time above 0 with a unit"},
		{"-grace -1s a", "-grace -1s: it must be a time"},
		{"-l -o d a", "choose one"},
		{"-wdir= a", "it must be a directory"},
	} {
		_, _, err := parseRun(strings.Fields(row.line))
		require.ErrorContains(t, err, row.want, row.line)
		r := weft(append([]string{"run"}, strings.Fields(row.line)...)...)
		require.Equal(t, exitUsage, r.status, row.line)
	}
	_, _, err = parseRun([]string{"-x", "PATH", "a"})
	require.NoError(t, err)
	for _, line := range []string{"-h", "--help", "-n 3 -h", "a : -h"} {
		_, help, err := parseRun(strings.Fields(line))
		require.NoError(t, err)
		require.True(t, help, line)
	}
	// The text explains every option.
	for _, o := range runOptions {
		for _, n := range o.names {
			require.Regexp(t, `(?m)^  .*-`+n+`\b`, runHelp)
		}
	}
	r := weft("run", "-h")
	require.Zero(t, r.status)
	require.Contains(t, r.out, "-keep-going")
	require.Contains(t, r.out, "Usage:")
}
