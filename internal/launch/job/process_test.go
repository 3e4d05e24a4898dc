// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// The end of a process is reported as a shell's status, and in words.
func TestExitStatusOfAProcess(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0": "0 exit status 0", "exit 3": "3 exit status 3", "exit 255": "255 exit status 255", "kill -9 $$": "137 killed by signal 9 (killed)", "kill -15 $$": "143 killed by signal 15 (terminated)",
	} {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run()
		code, how := exitStatus(cmd.ProcessState)
		require.Equal(t, want, fmt.Sprint(code, " ", how), script)
	}
	require.Equal(t, 15, signalNumber(syscall.SIGTERM))
	require.Equal(t, "terminated", signalName(syscall.SIGTERM))
	for err, broken := range map[error]bool{syscall.EPIPE: true, &os.PathError{Err: syscall.EPIPE}: true, syscall.ENOSPC: false, os.ErrClosed: false} {
		require.Equal(t, broken, isBrokenPipe(err))
	}
}

// group starts a waiting process that leads a process group. The test's cleanup kills it.
func group(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = rankAttr()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _, _ = cmd.Process.Wait() })
	require.Greater(t, cmd.Process.Pid, 1)
	pgid, err := syscall.Getpgid(cmd.Process.Pid)
	require.NoError(t, err)
	require.Equal(t, cmd.Process.Pid, pgid)
	return cmd
}

// A signal reaches a whole group, and an error reports that the group is gone.
func TestSignalsToAGroup(t *testing.T) {
	cmd := group(t)
	pgid := cmd.Process.Pid
	require.NoError(t, sendGroup(pgid, syscall.Signal(0)))
	require.NoError(t, sendGroup(pgid, syscall.SIGTERM))
	_, _ = cmd.Process.Wait()
	require.Equal(t, os.ErrProcessDone, sendGroup(pgid, syscall.Signal(0)))
}

// When its launcher is dead, a janitor kills the groups that are not gone, ignores lines that it
// does not know, and removes the job's directory.
func TestWhatAJanitorDoes(t *testing.T) {
	home, err := os.MkdirTemp("", "j")
	require.NoError(t, err)
	defer os.Remove(home)
	dir := filepath.Join(home, "weft-job-0123456789abcdef")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	here, gone := group(t), group(t)
	marked := exec.Command("sleep", "1000")
	marked.Env = append(os.Environ(), env.Job.Name+"="+dir)
	require.NoError(t, marked.Start())
	other := exec.Command("sleep", "1000")
	other.Env = append(os.Environ(), env.Job.Name+"="+dir+"x", "X"+env.Job.Name+"="+dir)
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _, _ = other.Process.Wait() })
	j, err := startJanitor()
	require.NoError(t, err)
	j.watch(here.Process.Pid)
	j.watch(gone.Process.Pid)
	j.forget(gone.Process.Pid)
	_, err = j.pipe.WriteString("\n+\n+x\n=x\n")
	require.NoError(t, err)
	j.clean(dir)
	require.NoError(t, j.pipe.Close()) // as the kernel does
	st, err := j.proc.Wait()
	require.NoError(t, err)
	require.Zero(t, st.ExitCode())
	for _, cmd := range []*exec.Cmd{here, marked} {
		st, err := cmd.Process.Wait()
		require.NoError(t, err)
		require.Equal(t, syscall.SIGKILL, st.Sys().(syscall.WaitStatus).Signal())
	}
	require.NoError(t, sendGroup(gone.Process.Pid, syscall.Signal(0)))
	require.NoError(t, other.Process.Signal(syscall.Signal(0)))
	require.NoDirExists(t, dir)
}

// A janitor has a new session, and does not inherit the mark of a launcher that is a rank of
// another job.
func TestWhereAJanitorLives(t *testing.T) {
	t.Setenv(env.Job.Name, "/of/another/job")
	j, err := startJanitor()
	require.NoError(t, err)
	defer j.stop()
	pid := strconv.Itoa(j.proc.Pid)
	vars, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		t.Skip("only Linux tells")
	}
	require.NotContains(t, string(vars), env.Job.Name+"=")
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	require.NoError(t, err)
	// state, parent, group, session
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	require.Equal(t, []string{pid, pid}, fields[2:4])
}

// The time limit, output files, labels and the directory of a rank, in one job each.
func TestWhatARankIsGiven(t *testing.T) {
	dir := t.TempDir()
	dir, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	o := run(t, Spec{Parts: []Part{{Ranks: 1, Program: "sh", Args: []string{"-c", "echo $PWD; cat; echo $WEFT_BOUND."}, Dir: dir}}})
	require.NoError(t, o.err)
	require.Equal(t, dir+"\n.\n", o.out)
	o = run(t, Spec{Label: true, Parts: []Part{shell(10, "echo $WEFT_RANK")}})
	require.Contains(t, o.out, "[3] 3\n")
	o = run(t, Spec{Timeout: time.Hour, Parts: []Part{shell(1, "exit 4")}})
	require.Equal(t, 4, o.status)
	o = run(t, Spec{OutputDir: filepath.Join(dir, "o"), Parts: []Part{shell(1, "echo out; echo err >&2; exit 2")}})
	require.Equal(t, 2, o.status)
	require.Equal(t, "weft run: rank 0 (sh): exit status 2\n", o.errOut)
	list, err := os.ReadDir(filepath.Join(dir, "o"))
	require.NoError(t, err)
	require.Len(t, list, 2)
}
