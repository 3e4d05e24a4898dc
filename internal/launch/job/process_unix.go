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

// Forwarded lists the signals that a launcher passes on. An ignored signal, such as SIGHUP under
// nohup, is not among them and stays ignored.
func Forwarded() []os.Signal {
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	return slices.DeleteFunc(list, signal.Ignored)
}

// rankAttr returns attributes that make a rank's process the leader of a process group.
func rankAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr
}

// sendGroup sends a signal to a process group. os.ErrProcessDone: the group is gone.
func sendGroup(pgid int, sig os.Signal) error {
	err := syscall.Kill(-pgid, sig.(syscall.Signal))
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// reapGroup reaps processes of a group that have ended and that this process has adopted.
// Precondition: the leader of the group was reaped.
func reapGroup(pgid int) {
	for pid, err := 1, error(nil); pid > 0 && err == nil; {
		pid, err = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
	}
}

// exitStatus returns how a process has ended, as a number and in words.
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

// feedInput passes a terminal's input on. If the launcher is in the background of its shell, a read
// would stop it by SIGTTIN; with SIGTTIN ignored, the read fails instead, which ends the input. The
// ranks do not inherit that, since they have been started before.
func feedInput(to *os.File, from io.Reader) {
	signal.Ignore(syscall.SIGTTIN)
	_, _ = io.Copy(to, from) // the rank may close its input, and the terminal may go
	_ = to.Close()
}

// readNow reads the content of a pipe regardless of its deadline. It returns 0 if the pipe is
// empty.
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
