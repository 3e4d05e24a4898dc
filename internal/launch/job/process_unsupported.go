// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package job

import (
	"io"
	"os"
	"syscall"
)

// supported is false: this platform has no process groups that can be signalled as one.
const supported = false

const sigcont = syscall.Signal(0)

// Forwarded lists no signals here.
func Forwarded() []os.Signal { return nil }

func rankAttr() *syscall.SysProcAttr               { return nil }
func sendGroup(int, os.Signal) error               { return os.ErrProcessDone }
func reapGroup(int)                                {}
func adoptOrphans()                                {}
func dying(int) bool                               { return false }
func exitStatus(st *os.ProcessState) (int, string) { return st.ExitCode(), st.String() }
func signalNumber(os.Signal) int                   { return 0 }
func signalName(s os.Signal) string                { return s.String() }
func isBrokenPipe(error) bool                      { return false }
func feedInput(*os.File, io.Reader)                {}

// janitor does nothing here.
type janitor struct{}

func startJanitor() (*janitor, error) { return nil, nil }
func (*janitor) watch(int)            {}
func (*janitor) forget(int)           {}
func (*janitor) clean(string)         {}
func (*janitor) discard(string)       {}
func (*janitor) stop()                {}

// Janitor returns false: this process is no janitor.
func Janitor() bool { return false }

func readNow(*os.File, []byte) int { return 0 }
