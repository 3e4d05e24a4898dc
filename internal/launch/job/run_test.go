// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

func TestRanksAndParts(t *testing.T) {
	o := run(t, Spec{Label: true, Parts: []Part{
		shell(2, "echo $WEFT_RANK of $WEFT_RANKS $A"),
		{Ranks: 1, Program: "sh", Args: []string{"-c", "echo $WEFT_RANK of $WEFT_RANKS $A; pwd"}, Env: []string{"A=x", "A=b c"}, Dir: "/"},
	}})
	require.NoError(t, o.err)
	require.Zero(t, o.status, o.errOut)
	lines := o.lines()
	slices.Sort(lines)
	require.Equal(t, []string{"[0] 0 of 3", "[1] 1 of 3", "[2] /", "[2] 2 of 3 b c"}, lines)
	require.Empty(t, o.errOut)
}

func TestExitStatuses(t *testing.T) {
	for name, row := range map[string]struct {
		parts     []Part
		status    int
		message   string
		keepGoing bool
	}{
		"success":                {[]Part{shell(3, "exit 0")}, 0, "", false},
		"failure":                {[]Part{shell(1, "exit 5")}, 5, "rank 0 (sh): exit status 5\n", false},
		"signal":                 {[]Part{shell(1, "kill -9 $$")}, 137, "rank 0 (sh): killed by signal 9 (killed", false},
		"the first counts":       {[]Part{shell(1, "trap 'exit 9' TERM; while :; do sleep 0.01; done"), shell(1, "exit 4")}, 4, "rank 1 (sh): exit status 4; ending the others", false},
		"others are ended":       {[]Part{shell(2, "sleep 1000"), shell(1, "exit 6")}, 6, "rank 2", false},
		"others go on":           {[]Part{shell(1, "while [ ! -e $F ]; do sleep 0.01; done; echo done"), shell(1, "(sleep 0.05; : >$F) & trap '' TERM; wait; exit 6")}, 6, "rank 1 (sh): exit status 6", true},
		"ends without leaving":   {[]Part{role("vanish", 2)}, 1, "exit status 0, without leaving the job", false},
		"fails without leaving":  {[]Part{role("vanish3", 2)}, 3, "exit status 3", false},
		"leaves":                 {[]Part{role("leave0", 3)}, 0, "", false},
		"aborts":                 {[]Part{role("abort", 3)}, 7, "rank 1 ends the job: enough of this", false},
		"aborts, keep going":     {[]Part{role("abort", 3)}, 7, "rank 1 ends the job: enough of this", true},
		"loses connection":       {[]Part{role("close-connection", 2)}, 1, "rank 1 (", false},
		"what is no weft rank":   {[]Part{role("leave0", 1), shell(1, "exit 0")}, 0, "", false},
		"a rank without program": {[]Part{shell(1, "exec /nowhere/at/all")}, 127, "rank 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("F", filepath.Join(t.TempDir(), "f"))
			o := run(t, Spec{Parts: row.parts, KeepGoing: row.keepGoing})
			require.NoError(t, o.err)
			require.Equal(t, row.status, o.status, o.errOut)
			require.Contains(t, o.errOut, row.message)
			if row.message == "" {
				require.Empty(t, o.errOut)
			}
			if name == "others go on" {
				require.Equal(t, "done\n", o.out)
			}
		})
	}
}

func TestOthersHearOfADeath(t *testing.T) {
	o := run(t, Spec{KeepGoing: true, Parts: []Part{role("watch", 3)}})
	require.Equal(t, 9, o.status)
	require.Equal(t, "rank 1 has ended: exit status 9\nrank 1 has ended: exit status 9\n", o.out)
}

func TestBadJobs(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o644))
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, []byte("\x7fno program"), 0o755))
	ok := filepath.Join(dir, "ok")
	require.NoError(t, os.WriteFile(ok, []byte("#!/bin/sh\necho ran in $(pwd)\n"), 0o755))
	t.Chdir(dir)
	for name, row := range map[string]struct {
		spec   Spec
		status int
		want   string
	}{
		"no parts":          {Spec{}, StatusUsage, "no program"},
		"no ranks":          {Spec{Parts: []Part{{Ranks: 0, Program: "sh"}}}, StatusUsage, "0 ranks of sh; 1 to 4096 are legal"},
		"too many":          {Spec{Parts: []Part{{Ranks: 4000, Program: "sh"}, {Ranks: 97, Program: "sh"}}}, StatusUsage, "4097 ranks in all; at most 4096"},
		"no name":           {Spec{Parts: []Part{{Ranks: 1}}}, StatusUsage, "name of the program is empty"},
		"not in PATH":       {Spec{Parts: []Part{{Ranks: 1, Program: "ok"}}}, StatusNoProgram, "there is no such program in PATH; there is one in the working directory, which is ./ok"},
		"nowhere":           {Spec{Parts: []Part{{Ranks: 1, Program: "surely-not-there"}}}, StatusNoProgram, "surely-not-there: there is no such program in PATH"},
		"no file":           {Spec{Parts: []Part{{Ranks: 1, Program: "./none"}}}, StatusNoProgram, "./none: there is no file " + dir},
		"no file in either": {Spec{Parts: []Part{{Ranks: 1, Program: "./none", Dir: "/"}}}, StatusNoProgram, "or /none"},
		"directory":         {Spec{Parts: []Part{{Ranks: 1, Program: dir}}}, StatusCannotRun, "it is a directory"},
		"not executable":    {Spec{Parts: []Part{{Ranks: 1, Program: "./plain"}}}, StatusCannotRun, "./plain: cannot be run: it is not executable"},
		"no format":         {Spec{Parts: []Part{shell(1, "sleep 1000"), {Ranks: 1, Program: "./broken"}}}, StatusCannotRun, "rank 1: ./broken: cannot be run: exec format error"},
		"no directory":      {Spec{Parts: []Part{{Ranks: 1, Program: "sh", Dir: "/nowhere"}}}, StatusUsage, "working directory /nowhere: no such file"},
		"a file":            {Spec{Parts: []Part{{Ranks: 1, Program: "sh", Dir: plain}}}, StatusUsage, "it is not a directory"},
		"environment":       {Spec{Parts: []Part{{Ranks: 1, Program: "sh", Env: []string{"A"}}}}, StatusUsage, "NAME=VALUE"},
		"reserved":          {Spec{Parts: []Part{{Ranks: 1, Program: "sh", Env: []string{"WEFT_RANK=3"}}}}, StatusUsage, "WEFT_RANK is set by the launcher"},
		"output":            {Spec{Parts: []Part{shell(1, ":")}, OutputDir: plain + "/x"}, StatusUsage, "directory for output"},
		"grace":             {Spec{Parts: []Part{shell(1, ":")}, Grace: -1}, StatusUsage, "negative"},
	} {
		t.Run(name, func(t *testing.T) {
			o := run(t, row.spec)
			require.ErrorContains(t, o.err, row.want)
			var e *Error
			require.ErrorAs(t, o.err, &e)
			require.Equal(t, row.status, e.Status)
		})
	}
	o := run(t, Spec{Parts: []Part{{Ranks: 1, Program: "./ok", Dir: "/"}}})
	require.Equal(t, "ran in /\n", o.out)
	t.Chdir("/")
	o = run(t, Spec{Parts: []Part{{Ranks: 1, Program: "./ok", Dir: dir}}})
	require.NoError(t, o.err)
	require.Contains(t, o.out, "ran in ")
}

func TestTimeLimit(t *testing.T) {
	o := run(t, Spec{Parts: []Part{shell(2, "sleep 1000")}, Timeout: 20 * time.Millisecond})
	require.Equal(t, StatusTimeout, o.status)
	require.Contains(t, o.errOut, "the time limit of 20ms is over; ending all ranks")
}

// Processes that ignore SIGTERM are killed, with those that they have started.
func TestGrace(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	script := fmt.Sprintf("trap '' TERM; sleep 1000 & echo $! >>%s; echo $$ >>%s; while :; do sleep 1000; done", pids, pids)
	o := run(t, Spec{Grace: 50 * time.Millisecond, Parts: []Part{
		shell(2, script),
		shell(1, fmt.Sprintf("while [ $(cat %s | wc -l) != 4 ]; do sleep 0.01; done; exit 3", pids)),
	}})
	require.Equal(t, 3, o.status)
	require.Contains(t, o.errOut, "weft run: killing ranks 0, 1, 50ms after SIGTERM\n")
	text, err := os.ReadFile(pids)
	require.NoError(t, err)
	for _, pid := range strings.Fields(string(text)) {
		requireDead(t, pid)
	}
}

// stuck is an output whose writes block until it is released.
type stuck struct{ let chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.let
	return len(b), nil
}

// Ranks are ended also while the launcher's messages are not read.
func TestNobodyListens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	out := stuck{make(chan struct{})}
	isolate(t)
	done := make(chan outcome)
	go func() {
		done <- run(t, Spec{Stdout: out, Stderr: out, Parts: []Part{
			shell(1, fmt.Sprintf("echo x; echo $$ >%s.new; mv %s.new %s; sleep 1000", file, file, file)),
			shell(1, fmt.Sprintf("while [ ! -e %s ]; do sleep 0.01; done; exit 3", file)),
		}})
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, 60*time.Second, time.Millisecond)
	pid, err := os.ReadFile(file)
	require.NoError(t, err)
	requireDead(t, strings.TrimSpace(string(pid)))
	close(out.let)
	require.Equal(t, 3, (<-done).status)
}

// Processes that a rank leaves behind in its group are ended with it, and the rank's output is
// complete nevertheless.
func TestLeftovers(t *testing.T) {
	o := run(t, Spec{Parts: []Part{shell(1, "sleep 1000 & echo $!; echo last")}})
	require.Zero(t, o.status)
	require.Equal(t, "last", o.lines()[1])
	requireDead(t, o.lines()[0])
}

func TestStandardInput(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	text := strings.Repeat("some line\n", 50_000)
	require.NoError(t, os.WriteFile(in, []byte(text), 0o600))
	for _, copied := range []bool{false, true} {
		f, err := os.Open(in)
		require.NoError(t, err)
		o := run(t, Spec{Stdin: f, CopyStdin: copied, Parts: []Part{shell(1, "wc -c"), shell(2, "cat")}})
		require.Zero(t, o.status)
		require.Equal(t, fmt.Sprint(len(text)), strings.TrimSpace(o.out), "rank 0 gets all of it, the others nothing")
		require.NoError(t, f.Close())
	}
	require.Equal(t, "0", strings.TrimSpace(run(t, Spec{Parts: []Part{shell(1, "wc -c")}}).out))
}

func TestEnvironmentOfRanks(t *testing.T) {
	t.Setenv(env.Rank.Name, "17") // of the launcher itself, which may be a rank of another job
	t.Setenv("A", "a")
	o := run(t, Spec{Parts: []Part{{Ranks: 1, Program: "env", Env: []string{"B=1", "A=2"}}}})
	require.NoError(t, o.err)
	var got []string
	for _, l := range o.lines() {
		for _, name := range []string{"A=", "B=", "WEFT_RANK=", "WEFT_RANKS="} {
			if strings.HasPrefix(l, name) {
				got = append(got, l)
			}
		}
	}
	slices.Sort(got)
	require.Equal(t, []string{"A=2", "B=1", "WEFT_RANK=0", "WEFT_RANKS=1"}, got)
}

// A job leaves no goroutine, no descriptor and no process behind.
func TestNothingIsLeft(t *testing.T) {
	isolate(t)
	f, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer f.Close()
	once := func() {
		o := run(t, Spec{Stdin: f, CopyStdin: true, Parts: []Part{role("leave0", 2), shell(2, "echo x; exit 3")}})
		require.Equal(t, 3, o.status)
	}
	once() // makes what is made once only
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		once()
	}
	// The runtime and the test have some goroutines that come and go.
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < goroutines+5 && openFiles(t) < descriptors+5 }, 60*time.Second, time.Millisecond)
}

// openFiles counts the open descriptors of this process, where the system lists them.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Log(err)
	}
	return len(list)
}
