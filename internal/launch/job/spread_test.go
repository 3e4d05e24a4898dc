// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// machine is a launcher in another process, as if on another machine.
type machine struct {
	*exec.Cmd
	out, errOut *lineWriter
}

func startMachine(t *testing.T, s launcherSpec) *machine {
	t.Helper()
	s.Janitor = true
	spec, err := json.Marshal(s)
	require.NoError(t, err)
	m := &machine{exec.Command(os.Args[0]), newLineWriter(), newLineWriter()}
	m.Env = append(os.Environ(), roleVariable+"=launcher", specVariable+"="+string(spec))
	m.Stdout, m.Stderr = m.out, m.errOut
	m.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, m.Start())
	t.Cleanup(func() { _ = m.Process.Kill() })
	return m
}

// end waits for the end of the launcher and returns its exit status and what it has written to
// standard error since.
func (m *machine) end() (int, string) {
	_ = m.Wait()
	close(m.errOut.lines)
	var b strings.Builder
	for l := range m.errOut.lines {
		b.WriteString(l + "\n")
	}
	return m.ProcessState.ExitCode(), b.String()
}

// startTwo starts a launcher that listens, and returns it with the spec of one that joins it.
func startTwo(t *testing.T, own launcherSpec, elsewhere int) (*machine, launcherSpec) {
	t.Helper()
	own.SecretFile = filepath.Join(t.TempDir(), "secret")
	own.Listen, own.Elsewhere = "127.0.0.1:0", elsewhere
	m := startMachine(t, own)
	line := m.errOut.await(t, 1, "weft run: listening at ")[0]
	addr := strings.Fields(line)[4]
	return m, launcherSpec{Join: addr, SecretFile: own.SecretFile}
}

func parts(p ...Part) []Part { return p }

func TestTwoLaunchers(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("meet", 2)), Label: true}, 3)
	third := other
	third.Parts, third.First = parts(role("meet", 1)), 2
	other.Parts, other.Label, other.First = parts(role("meet", 2)), true, 3
	b := startMachine(t, other)
	c := startMachine(t, third)
	got := slices.Concat(a.out.await(t, 2, "["), b.out.await(t, 2, "["), c.out.await(t, 1, "met"))
	slices.Sort(got)
	require.Equal(t, []string{"[0] met 0 5 true 0", "[1] met 1 5 true 0", "[3] met 3 5 true 1", "[4] met 4 5 true 1", "met 2 5 true 1"}, got)
	for _, m := range []*machine{a, b, c} {
		status, text := m.end()
		require.Zero(t, status, text)
		require.Empty(t, text)
	}
	requireClean(t, dir)
}

// A rank of one launcher fails: all launchers end with its status.
func TestRankFailsElsewhere(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("wait", 2))}, 2)
	other.Parts = parts(role("wait", 1), shell(1, "sleep 0.1; exit 3"))
	b := startMachine(t, other)
	status, text := a.end()
	require.Equal(t, 3, status, text)
	require.Contains(t, text, "rank 3 (of another launcher): exit status 3; ending the others")
	status, text = b.end()
	require.Equal(t, 3, status, text)
	requireClean(t, dir)
}

// A rank of the listening launcher fails: the joining launcher ends with its status too.
func TestRankFailsHere(t *testing.T) {
	dir := isolate(t)
	signal := filepath.Join(t.TempDir(), "signal")
	a, other := startTwo(t, launcherSpec{Parts: parts(role("wait", 1), shell(1, "while [ ! -e "+signal+" ]; do sleep 0.01; done; exit 5"))}, 1)
	other.Parts = parts(shell(1, "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done"))
	b := startMachine(t, other)
	b.out.await(t, 1, "up")
	require.NoError(t, os.WriteFile(signal, nil, 0o600))
	status, text := a.end()
	require.Equal(t, 5, status, text)
	status, text = b.end()
	require.Equal(t, 5, status, text)
	requireClean(t, dir)
}

func TestLauncherThatListensIsKilled(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("fence", 1))}, 1)
	other.Parts = parts(role("fence", 1))
	b := startMachine(t, other)
	pids := pidsOf(slices.Concat(a.out.await(t, 1, "ready"), b.out.await(t, 1, "ready")))
	require.NoError(t, a.Process.Kill())
	status, text := b.end()
	require.Equal(t, StatusFailure, status, text)
	require.Contains(t, text, "the launcher of the job, at "+other.Join+", is gone")
	_ = a.Wait()
	for _, pid := range pids {
		requireDead(t, pid)
	}
	requireClean(t, dir)
}

func TestLauncherThatHasJoinedIsKilled(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("fence", 1))}, 1)
	other.Parts = parts(role("fence", 1))
	b := startMachine(t, other)
	pids := pidsOf(slices.Concat(a.out.await(t, 1, "ready"), b.out.await(t, 1, "ready")))
	require.NoError(t, b.Process.Kill())
	status, text := a.end()
	require.NotZero(t, status, text)
	require.Contains(t, text, "rank 1 (of another launcher): its ")
	_ = b.Wait()
	for _, pid := range pids {
		requireDead(t, pid)
	}
	requireClean(t, dir)
}

// A signal to the launcher that listens goes to all ranks; a second one kills.
func TestSignalsGoElsewhere(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("signals", 1))}, 2)
	other.Parts = parts(role("signals", 1), role("deaf", 1))
	b := startMachine(t, other)
	a.out.await(t, 1, "ready")
	b.out.await(t, 2, "ready")
	require.NoError(t, a.Process.Signal(syscall.SIGINT))
	a.out.await(t, 1, "interrupt")
	b.out.await(t, 1, "interrupt")
	require.NoError(t, a.Process.Signal(syscall.SIGINT))
	status, text := a.end()
	require.Equal(t, 130, status, text)
	status, _ = b.end()
	require.Equal(t, 130, status)
	requireClean(t, dir)
}

// Ranks elsewhere get one SIGTERM too, whichever launchers are sent one and whatever fails because
// of it. A stopped rank is continued.
func TestOneSIGTERMElsewhere(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprint("both launchers ", both), func(t *testing.T) {
			dir := isolate(t)
			a, other := startTwo(t, launcherSpec{Grace: time.Minute, Parts: parts(shell(1, "echo ready; exec sleep 1000"))}, 2)
			count := "n=0; trap 'n=$((n+1)); echo term' TERM; echo ready $$; while [ $n = 0 ]; do sleep 0.01; done; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.03; done; echo over $n"
			other.Grace = time.Minute
			other.Parts = parts(shell(2, count))
			b := startMachine(t, other)
			a.out.await(t, 1, "ready")
			stopped, err := strconv.Atoi(pidsOf(b.out.await(t, 2, "ready"))[1])
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
			if both {
				require.NoError(t, b.Process.Signal(syscall.SIGTERM))
				b.out.await(t, 2, "term")
			}
			require.NoError(t, a.Process.Signal(syscall.SIGTERM))
			require.Equal(t, []string{"over 1", "over 1"}, b.out.await(t, 2, "over"))
			status, text := a.end()
			require.Equal(t, 143, status, text)
			status, text = b.end()
			require.Equal(t, 143, status, text)
			requireClean(t, dir)
		})
	}
}

// A joining launcher that was asked to end, and whose ranks have ended, does not wait for other
// ranks after a second signal, or when its grace period is over.
func TestLauncherThatHasJoinedIsAskedToEnd(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			if signal.Ignored(sig) {
				t.Skip("the signal is ignored, as under nohup, and a shell cannot trap it then")
			}
			dir := isolate(t)
			a, other := startTwo(t, launcherSpec{Grace: time.Minute, Parts: parts(shell(1, "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"))}, 1)
			other.Parts = parts(shell(1, "trap 'echo over $$; exit 0' INT TERM HUP; echo ready; while :; do sleep 0.01; done"))
			if other.Grace = time.Minute; sig == syscall.SIGHUP {
				other.Grace = 50 * time.Millisecond
			}
			b := startMachine(t, other)
			a.out.await(t, 1, "ready")
			b.out.await(t, 1, "ready")
			require.NoError(t, b.Process.Signal(sig))
			requireDead(t, pidsOf(b.out.await(t, 1, "over"))[0])
			if sig != syscall.SIGHUP {
				require.NoError(t, b.Process.Signal(sig))
			}
			status, text := b.end()
			require.Equal(t, StatusSignalBase+int(sig), status, text)
			require.NoError(t, a.Process.Signal(syscall.SIGUSR1))
			status, text = a.end()
			require.Zero(t, status, text)
			require.NotContains(t, text, "weft run", "it has lost no rank")
			requireClean(t, dir)
		})
	}
}

func TestNobodyJoins(t *testing.T) {
	dir := isolate(t)
	a, _ := startTwo(t, launcherSpec{Parts: parts(role("wait", 1)), Wait: 100 * time.Millisecond}, 2)
	status, text := a.end()
	require.Equal(t, StatusFailure, status)
	require.Contains(t, text, "2 of 2 ranks have not been brought by other launchers within 100ms; ending the others")
	requireClean(t, dir)
}

func TestJoinIsRefused(t *testing.T) {
	dir := isolate(t)
	a, other := startTwo(t, launcherSpec{Parts: parts(role("wait", 1))}, 2)
	refused := func(change func(*launcherSpec), want string) {
		t.Helper()
		s := other
		s.Parts, s.Wait = parts(role("wait", 1)), 10*time.Second
		change(&s)
		status, text := startMachine(t, s).end()
		require.NotZero(t, status)
		require.Contains(t, text, want)
	}
	refused(func(s *launcherSpec) { s.Parts[0].Ranks = 3 }, "refused by the launcher: 3 ranks are brought; 2 of 2 are still missing")
	refused(func(s *launcherSpec) { s.First = 3 }, "ranks 3 to 3 are not free; those from other launchers are 1 to 2")
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte(strings.Repeat("0", 64)+"\n"), 0o600))
	refused(func(s *launcherSpec) { s.SecretFile = wrong }, "the secret files may differ")
	refused(func(s *launcherSpec) { s.SecretFile = wrong + "x" }, "no such file")
	open := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.WriteFile(open, []byte(strings.Repeat("0", 64)), 0o644))
	require.NoError(t, os.Chmod(open, 0o644))
	refused(func(s *launcherSpec) { s.SecretFile = open }, "others may read it")
	refused(func(s *launcherSpec) { s.Join, s.Wait = "127.0.0.1:1", 200*time.Millisecond }, "dial tcp 127.0.0.1:1")

	// Ranks that cannot be started are known to have ended.
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	other.Parts, other.OutputDir = parts(role("wait", 2)), file
	status, text := startMachine(t, other).end()
	require.NotZero(t, status)
	require.Contains(t, text, "directory for output")
	status, text = a.end()
	require.Equal(t, StatusUsage, status, text)
	require.Contains(t, text, "rank 1 (of another launcher): directory for output")
	requireClean(t, dir)
}

func TestSpreadSpecs(t *testing.T) {
	for _, row := range []struct {
		spec Spec
		want string
	}{
		{Spec{Listen: "x:1", Join: "x:1"}, "either listens (x:1) or joins"},
		{Spec{Listen: "x:1", Elsewhere: 1}, "need a file with a secret"},
		{Spec{SecretFile: "f"}, "are for launchers that listen or join"},
		{Spec{Wait: time.Second}, "are for launchers that listen or join"},
		{Spec{Listen: "x:1", SecretFile: "f"}, "0 ranks elsewhere; a launcher that listens waits for 1 to 4096"},
		{Spec{Join: "x:1", SecretFile: "f", Elsewhere: 2}, "this one joins"},
		{Spec{Join: "x:1", SecretFile: "f", First: -1}, "first rank -1"},
		{Spec{Join: "x", SecretFile: "f"}, `address "x"; it must be HOST:PORT`},
		{Spec{Listen: "x:1", SecretFile: "f", Elsewhere: 4096}, "4097 ranks in all"},
	} {
		row.spec.Parts = parts(shell(1, "exit 0"))
		o := run(t, row.spec)
		require.ErrorContains(t, o.err, row.want)
		var e *Error
		require.ErrorAs(t, o.err, &e)
		require.Equal(t, StatusUsage, e.Status)
	}
}
