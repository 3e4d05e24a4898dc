// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"

	"weft/comm"
)

// Errors of this package. Every call returns them wrapped in an [*Error]; unless a call says
// otherwise, only that one operation is lost and nothing was written.
var (
	// ErrRank: the window has no region of that rank.
	ErrRank = errors.New("no such target rank")
	// ErrRange: displacement and length do not lie in the target's region.
	ErrRange = errors.New("outside the target's region")
	// ErrSync: no fence has opened an epoch, or the last one closed it for good (NoSucceed).
	ErrSync = errors.New("operation outside an epoch")
	// ErrFreed: the window has been freed. If the end of the run has freed it, the error also wraps
	// the error that ended the run, and has its text.
	ErrFreed = errors.New("window is freed")
	// ErrAssert: unknown assertion bits.
	ErrAssert = errors.New("bad assertion")
	// ErrOp: Accumulate with a user's operator, or with one that is not defined for the element
	// kind.
	ErrOp = errors.New("bad accumulate operator")
	// ErrSize: a negative size, or a displacement unit below 1. Every rank gets this error.
	ErrSize = errors.New("bad size")
	// ErrInfo: an info key that this package knows has an unknown value.
	ErrInfo = errors.New("bad info value")
	// ErrUnsupported: Accumulate of elements so large that they cannot reach a rank of another
	// process in one piece.
	ErrUnsupported = errors.New("not supported")
	// ErrProtocol: a rank of another process has sent a message that breaks the protocol. The run
	// ends.
	ErrProtocol = errors.New("a rank breaks the protocol")
)

// NoPeer stands in Error.Peer for "not applicable".
const NoPeer = -1 << 31

// Error is the error of an operation.
type Error struct {
	Op   string // "put", "get", "accumulate", "fence", "free", ...
	Rank int    // the rank that called, in the window's communicator
	Peer int    // the target rank, or NoPeer
	Err  error
}

// Error names the operation, the ranks and the cause.
func (e *Error) Error() string {
	target := ""
	if e.Peer != NoPeer {
		target = fmt.Sprintf(", target %d", e.Peer)
	}
	return fmt.Sprintf("rma: %s on rank %d%s: %s", e.Op, e.Rank, target, e.Err.Error())
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// abandonedError is ErrFreed for a window whose run ended before Free. Its text is that of the
// error that ended the run.
type abandonedError struct{ cause error }

func (e abandonedError) Error() string   { return e.cause.Error() }
func (e abandonedError) Unwrap() []error { return []error{e.cause, ErrFreed} }

// cause returns the reason why an operation on a communicator has failed, without the name of the
// operation, because the program has not called it.
func cause(err error) error {
	if e, ok := err.(*comm.Error); ok {
		return e.Err
	}
	return err
}
