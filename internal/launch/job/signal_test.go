// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireDead waits until a process is gone, or a zombie that its new parent has not reaped.
func requireDead(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		if errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			return true
		}
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err == nil && strings.Contains(string(stat), ") Z ")
	}, 60*time.Second, time.Millisecond, "process %s lives", pid)
}

func TestSignalsArePassedOn(t *testing.T) {
	signals := make(chan os.Signal, 16)
	out := newLineWriter()
	done := make(chan outcome, 1)
	isolate(t)
	go func() {
		done <- run(t, Spec{Stdout: out, Signals: signals, Parts: []Part{role("signals", 2)}})
	}()
	out.await(t, 2, "ready")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		signals <- s
		out.await(t, 2, s.String())
	}
	o := <-done
	require.Zero(t, o.status, o.errOut)
	require.Empty(t, o.errOut)
}

func TestSecondInterruptKills(t *testing.T) {
	signals := make(chan os.Signal, 16)
	out := newLineWriter()
	done := make(chan outcome, 1)
	isolate(t)
	go func() {
		done <- run(t, Spec{Stdout: out, Signals: signals, Parts: []Part{role("deaf", 3)}})
	}()
	out.await(t, 3, "ready")
	signals <- syscall.SIGINT
	signals <- syscall.SIGINT
	o := <-done
	require.Equal(t, 130, o.status)
	require.Contains(t, o.errOut, "killing ranks 0, 1, 2, on a second interrupt")
}

// A launcher in another process.
func startLauncher(t *testing.T, s launcherSpec) (*exec.Cmd, *lineWriter, *bytes.Buffer) {
	t.Helper()
	spec, err := json.Marshal(s)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=launcher", specVariable+"="+string(spec))
	out, errOut := newLineWriter(), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out, errOut
}

func pidsOf(lines []string) (pids []string) {
	for _, l := range lines {
		pids = append(pids, strings.Fields(l)[1])
	}
	return pids
}

// requireClean waits until nothing is left of a job.
func requireClean(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool {
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		return len(left) == 0
	}, 60*time.Second, time.Millisecond)
}

// If the launcher is killed, the ranks end, whether or not they have joined the job, with the
// processes that they have started. Nothing is left.
func TestLauncherIsKilled(t *testing.T) {
	dir := isolate(t)
	if path, err := exec.LookPath("setsid"); err == nil && runtime.GOOS == "linux" {
		t.Setenv("S", path)
	}
	// Wait waits for the end of the launcher's standard output and error, which end with the last
	// process that has them.
	cmd, out, _ := startLauncher(t, launcherSpec{Janitor: true, Parts: []Part{
		role("fence", 2),
		shell(1, "trap '' TERM HUP INT; $S sleep 1000 & echo ready $!; echo ready $$; while :; do sleep 1000; done"),
	}})
	// The fences never end, since rank 2 calls none. It has two processes, in two sessions where
	// that is possible.
	lines := out.await(t, 2, "ready")
	job, err := filepath.Glob(filepath.Join(dir, "weft-job-*"))
	require.NoError(t, err)
	require.Len(t, job, 1)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, pid := range pidsOf(lines) {
		requireDead(t, pid)
	}
	requireClean(t, dir)
}

// The launcher is killed, and there is no janitor. The kernel may kill the launcher's children. The
// ranks, which are children of these, notice by themselves, remove the files and end.
func TestLauncherIsKilledAlone(t *testing.T) {
	dir := isolate(t)
	p := shell(3, `"$0" & wait; sleep 1000`)
	p.Args, p.Env = append(p.Args, os.Args[0]), role("fence", 1).Env
	cmd, out, _ := startLauncher(t, launcherSpec{Parts: []Part{p}})
	pids := pidsOf(out.await(t, 3, "ready"))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireClean(t, dir)
	for _, pid := range pids {
		requireDead(t, pid)
	}
}

// A rank is killed while all ranks make fences: the others hear of that at once and are ended.
func TestRankIsKilledDuringFences(t *testing.T) {
	dir := isolate(t)
	cmd, out, errOut := startLauncher(t, launcherSpec{Janitor: true, Grace: time.Minute, Parts: []Part{role("fence", 3)}})
	pids := pidsOf(out.await(t, 3, "ready"))
	pid, err := strconv.Atoi(pids[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	err = cmd.Wait()
	require.Equal(t, 137, cmd.ProcessState.ExitCode(), "%v\n%s", err, errOut)
	require.Contains(t, errOut.String(), "killed by signal 9 (killed); ending the others")
	for _, pid := range pids {
		requireDead(t, pid)
	}
	requireClean(t, dir)
}
