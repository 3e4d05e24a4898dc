//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

// #cgo CFLAGS: -O2
// #cgo LDFLAGS: -lpthread
// #include <stdlib.h>
// #include "engine.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"weft/internal/env"
	"weft/internal/fabric"
)

// errMemory is the error of a failed allocation in the C part, not in MPI.
var errMemory = errors.New("no memory for a message")

// Built reports whether this build has MPI.
const Built = true

// Version returns the MPI library's name and version. It works without Start.
func Version() string {
	text := make([]byte, C.MPI_MAX_LIBRARY_VERSION_STRING)
	n := C.int(0)
	if C.MPI_Get_library_version((*C.char)(unsafe.Pointer(&text[0])), &n) != C.MPI_SUCCESS {
		return "unknown MPI library"
	}
	return shorten(string(text[:n]))
}

// shorten makes one short line of a library's version text.
func shorten(text string) string {
	line, _, _ := strings.Cut(strings.TrimRight(text, "\x00"), "\n")
	line, _, _ = strings.Cut(line, ", package")
	return strings.Replace(strings.Join(strings.Fields(line), " "), "MPICH Version: ", "MPICH ", 1)
}

// Process is this process in MPI. It has one endpoint at a time.
type Process struct {
	Rank, Size int

	span uint64 // number of tags

	mu   sync.Mutex
	last *Endpoint // guarded by mu: the endpoint that was opened last
	// guarded by mu: MPI_Finalize is not called, since an endpoint was not closed in order, or
	// other code has initialised MPI
	leaveOpen bool
	finalized bool // guarded by mu: Finalize was called
}

// Start initialises MPI, which is possible once per process. It compares what, the result of
// Detect, with MPI's own rank and size; nil: no comparison.
func Start(what *Launched) (*Process, error) {
	var provided, rank, size, ub, was C.int
	if err := check("init", -1, C.weft_init(&provided, &rank, &size, &ub, &was)); err != nil {
		return nil, err
	}
	p := &Process{Rank: int(rank), Size: int(size), span: uint64(ub) + 1, leaveOpen: was != 0}
	if provided < C.MPI_THREAD_SERIALIZED {
		return nil, &Error{Op: "init", Rank: -1, Err: fmt.Errorf("%s allows calls from one thread only; MPI_THREAD_SERIALIZED or more is needed", Version())}
	}
	if what != nil {
		if err := what.agree(Version(), p.Rank, p.Size); err != nil {
			return nil, &Error{Op: "init", Rank: -1, Err: err}
		}
	}
	return p, nil
}

// Finalize ends MPI, which waits for the other processes. It does not end MPI if a peer was lost or
// has not closed, or if other code has initialised MPI.
func (p *Process) Finalize() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.waitReleased("finalize", Linger)
	if err != nil || p.finalized || p.leaveOpen {
		p.finalized = true
		return err
	}
	p.finalized = true
	return check("finalize", -1, C.MPI_Finalize())
}

// waitReleased waits until the endpoint that was opened last has given everything back to MPI. The
// caller holds mu.
func (p *Process) waitReleased(op string, limit time.Duration) error {
	e := p.last
	switch {
	case e == nil:
		return nil
	case !e.closed.Load():
		return &Error{Op: op, Rank: -1, Err: errors.New("an endpoint of this process is open")}
	}
	select {
	case <-e.released:
		p.last = nil
		p.leaveOpen = p.leaveOpen || !e.orderly
		return nil
	case <-time.After(limit):
		p.leaveOpen = true
		return &Error{Op: op, Rank: -1, Err: fmt.Errorf("other ranks have not closed within %v", limit)}
	}
}

// Exchange sends share to all processes of the MPI world, and returns the shares of all by rank.
// All processes call it.
func (p *Process) Exchange(share []byte) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finalized {
		return nil, &Error{Op: "exchange", Rank: -1, Err: errors.New("this process has ended MPI")}
	}
	if e := p.last; e != nil && !e.closed.Load() {
		e.lock()
		defer e.unlock()
	} else if err := p.waitReleased("exchange", Gather); err != nil {
		return nil, err
	}
	counts, offsets := make([]C.int, p.Size), make([]C.int, p.Size)
	if err := check("exchange", -1, C.weft_lengths(C.int(len(share)), &counts[0])); err != nil {
		return nil, err
	}
	n := 0
	for r, c := range counts {
		if c < 0 || int(c) > maxShare || n > maxShares {
			return nil, &Error{Op: "exchange", Rank: r, Err: fmt.Errorf("%w: %d bytes of %d in all", ErrFrame, c, n)}
		}
		offsets[r] = C.int(n)
		n += int(c)
	}
	all := make([]byte, n+1) // one more, so that all[0] exists
	mine := append(share[:len(share):len(share)], 0)
	code := C.weft_gather((*C.char)(unsafe.Pointer(&mine[0])), C.int(len(share)), (*C.char)(unsafe.Pointer(&all[0])), &counts[0], &offsets[0])
	if err := check("exchange", -1, code); err != nil {
		return nil, err
	}
	shares := make([][]byte, p.Size)
	for r, c := range counts {
		shares[r] = all[offsets[r] : offsets[r]+c : offsets[r]+c]
	}
	return shares, nil
}

// Open connects ranks of the MPI world. Their new ranks are their positions in the list. All of
// them call Open with the same list.
func (p *Process) Open(ranks []int) (fabric.Endpoint, error) {
	e, err := p.open(ranks, p.span)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (p *Process) open(ranks []int, span uint64) (*Endpoint, error) {
	if len(ranks) == 0 || span == 0 {
		return nil, &Error{Op: "open", Rank: -1, Err: fmt.Errorf("%w: no ranks", fabric.ErrRank)}
	}
	me := slices.Index(ranks, p.Rank)
	list := make([]C.int, len(ranks))
	for i, r := range ranks {
		if r < 0 || r >= p.Size || slices.Index(ranks, r) != i {
			return nil, &Error{Op: "open", Rank: -1, Err: fmt.Errorf("%w: the list is %v; legal are ranks from 0 to %d, each once", fabric.ErrRank, ranks, p.Size-1)}
		}
		list[i] = C.int(r)
	}
	if me < 0 {
		return nil, &Error{Op: "open", Rank: -1, Err: fmt.Errorf("%w: this process, %d, is not in the list %v", fabric.ErrRank, p.Rank, ranks)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	longest, err := env.MPISleep.Value()
	if err != nil {
		// the other processes may have no such error, and wait in Open: MPI_Finalize would wait for
		// them
		p.leaveOpen = true
		return nil, &Error{Op: "environment", Rank: -1, Err: err}
	}
	if p.finalized {
		return nil, &Error{Op: "open", Rank: -1, Err: errors.New("this process has ended MPI")}
	}
	if err := p.waitReleased("open", Gather); err != nil {
		return nil, err
	}
	e := newEndpoint(p, me, len(ranks), span, longest)
	all := make([]parameters, len(ranks))
	all[me] = ownParameters(span)
	code := C.weft_open(&e.c, e.words(), &list[0], C.int(len(ranks)), slots, frameSize, (*C.uint64_t)(unsafe.Pointer(&all[0])))
	if err := check("open", -1, code); err != nil {
		e.pin.Unpin()
		return nil, err
	}
	for r, c := range all {
		if c != all[me] {
			C.weft_close(e.c, 1)
			e.pin.Unpin()
			return nil, &Error{Op: "open", Rank: r, Err: fmt.Errorf("%w: it has another version of weft, or another kind of machine (%x, this process %x)", ErrFrame, c, all[me])}
		}
	}
	e.report, e.number = C.weft_report_of(e.c), C.weft_number(uintptr(unsafe.Pointer(e.c)))
	C.weft_post(e.c)
	p.last = e
	runtime.AddCleanup(e, func(c *C.weft_engine) { C.weft_free(c) }, e.c)
	return e, nil
}

// parameters are exchanged in Open. They must be the same in all processes.
type parameters [4]uint64

// ownParameters returns the version and the limits of the messages, in the byte order of this
// machine.
func ownParameters(span uint64) parameters {
	return parameters{'w'<<24 | 'e'<<16 | 'f'<<8 | 't', version, frameSize, span}
}

// check returns the error of an MPI error code, nil for MPI_SUCCESS.
func check(op string, rank int, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	text := make([]byte, C.MPI_MAX_ERROR_STRING)
	class := C.int(0)
	n := C.weft_error_text(code, (*C.char)(unsafe.Pointer(&text[0])), &class)
	return &Error{Op: op, Rank: rank, Class: int(class), Err: fmt.Errorf("%w: %s", ErrLibrary, strings.TrimSpace(string(text[:n])))}
}
