// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/comm"
	"weft/nam/internal/store"
	"weft/rma"
)

// Errors of this package. Every call returns them wrapped in an [*Error]. A failed collective call
// returns the same of these on all ranks, and leaves nothing behind. Put, Get, Accumulate and the
// fences return rma's errors.
var (
	ErrExist = store.ErrExist // the name is in use
	// no such window: it was never made, is not complete, or was removed
	ErrName    = store.ErrName
	ErrNoSpace = store.ErrNoSpace // the capacity of the store or the disk does not suffice
	ErrAccess  = store.ErrAccess  // owner and mode of the window forbid it
	ErrCorrupt = store.ErrCorrupt // the store's files are damaged
	ErrVersion = store.ErrVersion // the store was made by a program with another layout
	// another process holds the store's lock, or is making the window
	ErrBusy        = store.ErrBusy
	ErrClosed      = store.ErrClosed      // the store is closed
	ErrUnsupported = store.ErrUnsupported // not on this operating system
	ErrSize        = store.ErrSize        // illegal sizes, units, names or modes

	// ErrInfo, which is rma's: an unknown psnam key or value, an option of another call, or ranks
	// that differ in what must be the same on all.
	ErrInfo = rma.ErrInfo
	// ErrLost: part of the memory is gone (its file was cut, replaced or removed, or its disk has
	// failed), or it can no longer be made durable. The epoch count stays as it is: the window is
	// lost for writing. If Attach finds the loss, the error is ErrCorrupt as well.
	ErrLost = store.ErrLost
	// ErrUnsynced: the machine stopped while the window was in use and not yet on the disk. So the
	// disk may have its epoch count and not the data. Stat reports how many epochs are certain; see
	// Unsynced.
	ErrUnsynced = store.ErrUnsynced
)

// NoPeer stands in Error.Peer for "not applicable".
const NoPeer = rma.NoPeer

// Error is the error of an operation.
type Error struct {
	Op   string // "open", "allocate", "attach", "remove", ...
	Name string // the window or store; may be empty
	Peer int    // the rank on which it happened, or NoPeer
	Err  error
}

// Error names the operation, the window, the rank and the cause.
func (e *Error) Error() string {
	s := "nam: " + e.Op
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	if e.Peer != NoPeer {
		s += fmt.Sprintf(" (rank %d)", e.Peer)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// fail wraps an error of the store; it returns nil for nil.
func fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Name: name, Peer: NoPeer, Err: err}
}

// ErrStore: the ranks of a collective call have different stores open. Every rank gets it.
var ErrStore = errors.New("different stores")

// kinds numbers the errors that travel between ranks. 0 is no error; the last one stands for all
// others.
var kinds = []error{nil, ErrExist, ErrName, ErrNoSpace, ErrAccess, store.ErrGone, ErrCorrupt, ErrVersion, ErrBusy, ErrClosed, ErrUnsupported,
	ErrSize, ErrInfo, ErrLost, ErrUnsynced, errOther}

var errOther = errors.New("failure on another rank")

func kindOf(err error) int64 {
	if i := slices.IndexFunc(kinds, func(k error) bool { return errors.Is(err, k) }); i >= 0 {
		return int64(i)
	}
	return int64(len(kinds) - 1)
}

// errorOf returns the error with a number from kindOf. A newer program may send unknown numbers.
func errorOf(kind int64) error {
	if kind < 0 || kind >= int64(len(kinds)) {
		return errOther
	}
	return kinds[kind]
}

// remoteError is an error of another rank: its kind and its text.
type remoteError struct {
	kind error
	text string
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

const maxErrorText = 1024 // bytes that travel

// agree makes a step of a collective call succeed or fail on all ranks. If any rank has an error,
// all ranks return the error of the lowest such rank. Collective.
func agree(c *comm.Comm, op, name string, err error) error {
	results := make([]int64, c.Size())
	what := comm.ForAllocate
	switch op {
	case "attach":
		what = comm.ForAttach
	case "set info":
		what = comm.ForInfo
	}
	if cerr := c.AllgatherFor(what, comm.Of([]int64{kindOf(err)}), comm.Of(results)); cerr != nil {
		return fail(op, name, errors.Join(err, cerr))
	}
	for r, kind := range results {
		if kind == 0 {
			continue
		}
		text := make([]byte, maxErrorText)
		if r == c.Rank() {
			copy(text, err.Error())
		}
		if cerr := c.Bcast(comm.Of(text), r); cerr != nil {
			return fail(op, name, errors.Join(err, cerr))
		}
		if r != c.Rank() {
			err = &remoteError{kind: errorOf(kind), text: strings.TrimRight(string(text), "\x00")}
		}
		return &Error{Op: op, Name: name, Peer: r, Err: err}
	}
	return nil
}
