// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"strings"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/internal/boot"
	"weft/internal/launch"
)

// Errors of this package. Every call returns them wrapped in an [*Error].
var (
	// ErrAborted: the run has ended or was aborted; the cause is wrapped with it. All is lost.
	ErrAborted = errors.New("the run is aborted")
	// ErrEnded is the cause of ErrAborted for what was still pending when all ranks had returned.
	ErrEnded = errors.New("all ranks have returned")
	// ErrTruncated: the message is larger than the receive buffer. The buffer is filled, the rest
	// of the message is lost, the status tells the message's full size. The operation is lost.
	ErrTruncated = errors.New("message is larger than the receive buffer")
	// ErrType: the element type has pointers, or sender's and receiver's element kinds differ, or
	// an operator does not know the type. The operation is lost; nothing was copied.
	ErrType = mem.ErrType
	// ErrBuffer: a buffer's layout does not lie inside its slice, or its size does not fit the
	// operation. Nothing was sent.
	ErrBuffer = mem.ErrBuffer
	// ErrRank: no such rank in this communicator. Nothing was sent.
	ErrRank = coll.ErrRank
	// ErrTag: the tag is not in 0..TagUB (or AnyTag, for a receive). Nothing was sent.
	ErrTag = errors.New("bad tag")
	// ErrCancelled: the receive was cancelled before a message arrived.
	ErrCancelled = errors.New("cancelled")
	// ErrMismatch: ranks do not agree on a collective (which one, its root, operator, size or
	// type). All ranks get it, and the error names two calls that differ. A rank gets it in that
	// collective, or in its next one of the communicator, or from the run. The communicator's
	// collectives are lost; its messages are not.
	ErrMismatch = coll.ErrMismatch
	// ErrColor: a colour is neither Undefined nor 0 or more.
	ErrColor = errors.New("bad colour")
	// ErrPeerLost: a rank has died, or breaks the protocol. The run ends; or, with Config.Survive,
	// operations that need the rank are lost and nothing else.
	ErrPeerLost = errors.New("a rank is lost")
	// ErrRevoked: a rank has called Revoke on the communicator. The communicator is lost, but for
	// Agree and Shrink.
	ErrRevoked = errors.New("the communicator is revoked")
	// ErrDeadlock: all ranks wait for each other; see DeadlockError. The run has ended.
	ErrDeadlock = errors.New("deadlock: all ranks wait, and nothing is under way")
	// ErrNoFabric: the ranks are in processes that no fabric of this build connects. The run is
	// lost.
	ErrNoFabric = boot.ErrNoFabric
	// ErrConfig: Config or the environment is unusable.
	ErrConfig = boot.ErrConfig
)

// NoPeer in Error.Peer and Error.Tag means "not applicable".
const NoPeer = -1 << 31

// Error is the error of an operation.
type Error struct {
	Op   string // "send", "recv", "bcast", ...
	Rank int    // the rank that called, in its communicator; NoPeer if unknown
	Peer int    // the other rank (source, destination or root), AnySource, or NoPeer
	Tag  int    // the tag, AnyTag, or NoPeer
	Err  error
}

// Error names the operation, the ranks and the cause.
func (e *Error) Error() string { return "comm: " + e.text(NoPeer) }

// text is the error without the name of the package, and without the rank if that is around, which
// the surrounding text names.
func (e *Error) text(around int) string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Rank != NoPeer && e.Rank != around {
		fmt.Fprintf(&b, " on rank %d", e.Rank)
	}
	switch e.Peer {
	case NoPeer:
	case AnySource:
		b.WriteString(", any source")
	default:
		fmt.Fprintf(&b, ", peer %d", e.Peer)
	}
	switch e.Tag {
	case NoPeer:
	case AnyTag:
		b.WriteString(", any tag")
	default:
		fmt.Fprintf(&b, ", tag %d", e.Tag)
	}
	b.WriteString(": ")
	b.WriteString(strings.TrimPrefix(e.Err.Error(), "launch: ")) // one package name is enough
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// RankError is what Run returns when a rank ended the run: it names the rank.
type RankError struct {
	Rank int
	Err  error
}

// Error names the rank and its error, in one sentence.
func (e *RankError) Error() string {
	switch err := e.Err.(type) {
	case *RankError:
		if err.Rank == e.Rank {
			return err.Error()
		}
	case *LostError:
		if err.Rank == e.Rank {
			return "comm: " + err.Error()
		}
	case *Error:
		return fmt.Sprintf("comm: rank %d: %s", e.Rank, err.text(e.Rank))
	}
	return fmt.Sprintf("comm: rank %d: %v", e.Rank, e.Err)
}

// Unwrap returns the rank's own error.
func (e *RankError) Unwrap() error { return e.Err }

// PanicError is a panic of a rank's body, as an error.
type PanicError struct {
	Value any
	Stack []byte
}

// Error shows the panic value and the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.Value, e.Stack) }

// Unwrap returns the panic value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// abortError is ErrAborted with its cause.
type abortError struct{ cause error }

func (e *abortError) Error() string {
	return ErrAborted.Error() + ": " + strings.TrimPrefix(e.cause.Error(), "comm: ")
}
func (e *abortError) Unwrap() []error { return []error{ErrAborted, e.cause} }
func (e *abortError) EndsRun() bool   { return true }

// RemoteError is the error of a rank in another process, of which only the text is known.
type RemoteError struct{ Text string }

// Error returns the text.
func (e *RemoteError) Error() string { return e.Text }

// LostError says which rank is lost, and why. It wraps ErrPeerLost.
type LostError struct {
	Rank int // in the run, as in the first communicator
	Err  error
}

// Error names the rank and the cause.
func (e *LostError) Error() string {
	if d, ok := e.Err.(*launch.Death); ok && d.Rank == e.Rank {
		return fmt.Sprintf("rank %d is lost: %s", e.Rank, d.How)
	}
	// A fabric's error names the rank too, and so does the rank's own error.
	how := strings.Replace(e.Err.Error(), fmt.Sprintf(": rank %d: ", e.Rank), ": ", 1)
	return fmt.Sprintf("rank %d is lost: %s", e.Rank, strings.TrimPrefix(how, "comm: "))
}

// Unwrap returns ErrPeerLost and the cause.
func (e *LostError) Unwrap() []error { return []error{ErrPeerLost, e.Err} }

// maxReason bounds the text of an error that goes to the other processes.
const maxReason = 4 << 10

// errFrame is the cause of ErrPeerLost where a peer breaks the protocol.
var errFrame = errors.New("bad frame")

// leaveCtx is the context of the last barrier. newContext returns none below 1<<32.
const leaveCtx = 2

// Special ranks, tags and colours.
const (
	AnySource = -1 // receive from any rank
	AnyTag    = -1 // receive any tag
	// no peer: messages to and from it complete at once, empty
	ProcNull  = -2
	Undefined = -32766    // no colour, no index, no count
	TagUB     = 1<<31 - 1 // the largest tag
)
