// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
)

// Errors of this package, inside an *Error.
var (
	ErrEnvironment  = errors.New("bad environment")
	ErrLauncherLost = errors.New("the launcher is gone") // lost: the job
	// lost: the value that the call waited for; see Death
	ErrEnded   = errors.New("a rank has ended")
	ErrAborted = errors.New("the job is being ended") // lost: the job
	// lost: the connection
	ErrProtocol = errors.New("protocol error")
	// lost: the connection
	ErrRefused = errors.New("refused by the launcher")
	// lost: the connection
	ErrSecret      = errors.New("the peer does not know the secret of the job")
	ErrLimit       = errors.New("beyond a limit")              // lost: nothing
	ErrDuplicate   = errors.New("the key has a value already") // lost: nothing
	ErrLeft        = errors.New("this rank has left the job")  // lost: nothing
	ErrUnsupported = errors.New("not supported on this platform")
)

// Error is an error between a rank and its launcher.
type Error struct {
	Op   string
	Rank int // the rank that it concerns; -1: none in particular
	Err  error
}

func (e *Error) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("launch: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("launch: %s: rank %d: %v", e.Op, e.Rank, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Death says that a rank has ended, and how. It is an error that matches ErrEnded.
type Death struct {
	Rank int
	// Code is as a shell reports it: the exit status, or 128 plus the signal; -1: not known, the
	// process may still exist.
	Code int
	How  string // "exit status 3", "killed by signal 9 (killed)", ...
	// Cause is the cause of the failure, if the rank has given one; else nil.
	Cause *Blame
	// Clean: the rank left the job, or never joined, and its exit status is 0.
	Clean bool
}

func (d *Death) Error() string { return fmt.Sprintf("rank %d has ended: %s", d.Rank, d.How) }

// Is makes a death match ErrEnded.
func (d *Death) Is(target error) bool { return target == ErrEnded }

// StatusDeadlock is the exit status of a job whose ranks wait for each other. It is ParaStation
// MPI's.
const StatusDeadlock = 112

// Abort says why a job is being ended. It is an error that matches ErrAborted.
type Abort struct {
	// Rank is the rank that asked for the end or is its cause; -1: the launcher itself, or all
	// ranks, which wait for each other.
	Rank   int
	Code   int // exit status of the job
	Reason string
}

func (a *Abort) Error() string {
	if a.Rank < 0 {
		return "the job is being ended: " + a.Reason
	}
	return fmt.Sprintf("the job is being ended because of rank %d: %s", a.Rank, a.Reason)
}

// Is makes an abort match ErrAborted.
func (a *Abort) Is(target error) bool { return target == ErrAborted }
