// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package job

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const supported = true

const sigcont = syscall.SIGCONT

// Forwarded lists the signals that a launcher passes on. One that is ignored, as SIGHUP is under
// nohup, stays ignored.
func Forwarded() []os.Signal {
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(list, signal.Ignored)
}

// rankAttr makes a process the leader of a group.
func rankAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr
}

// sendGroup sends a signal to a process group. os.ErrProcessDone: there is none.
func sendGroup(pgid int, sig os.Signal) error {
	err := syscall.Kill(-pgid, sig.(syscall.Signal))
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// reapGroup takes notice of processes of a group that have ended and are children of this one by
// adoption. The leader of the group has been waited for.
func reapGroup(pgid int) {
	for pid, err := 1, error(nil); pid > 0 && err == nil; {
		pid, err = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
	}
}

// exitStatus says how a process has ended, as a number and in words.
func exitStatus(st *os.ProcessState) (code int, how string) {
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		core := ""
		if ws.CoreDump() {
			core = ", core dumped"
		}
		return StatusSignalBase + int(ws.Signal()), fmt.Sprintf("killed by signal %d (%v%s)", int(ws.Signal()), ws.Signal(), core)
	}
	return st.ExitCode(), fmt.Sprintf("exit status %d", st.ExitCode())
}

func signalNumber(s os.Signal) int { return int(s.(syscall.Signal)) }

func signalName(s os.Signal) string { return s.String() }

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

// feedInput passes a terminal's input on. In a job in the background of its shell, reading would
// stop the launcher; with the signal ignored it is an end of input. The ranks, which are started by
// then, do not inherit that.
func feedInput(to *os.File, from io.Reader) {
	signal.Ignore(syscall.SIGTTIN)
	_, _ = io.Copy(to, from) // the rank may close its input, and the terminal may go
	_ = to.Close()
}

// readNow reads what is in a pipe, whatever its deadline. It returns 0 if there is nothing.
func readNow(f *os.File, b []byte) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		for err = syscall.EINTR; err == syscall.EINTR; {
			n, err = syscall.Read(int(fd), b)
		}
	})
	return max(n, 0)
}
