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

// errMemory is C's, without MPI's knowing.
var errMemory = errors.New("no memory for a message")

// Built says whether this build has MPI.
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

// shorten makes one short line of what a library says of itself.
func shorten(text string) string {
	line, _, _ := strings.Cut(strings.TrimRight(text, "\x00"), "\n")
	line, _, _ = strings.Cut(line, ", package")
	return strings.Replace(strings.Join(strings.Fields(line), " "), "MPICH Version: ", "MPICH ", 1)
}

// Process is this process as MPI knows it. It has one endpoint at a time.
type Process struct {
	Rank, Size int

	span uint64 // tags

	mu   sync.Mutex
	last *Endpoint // guarded by mu: opened last
	// guarded by mu: an endpoint did not close in order, or MPI was not initialised here; MPI is
	// left as it is
	dirty bool
	over  bool // guarded by mu
}

// Start makes this process known to MPI, which is possible once. what is what the environment has
// told, and is compared with what MPI says; nil: nothing.
func Start(what *Launched) (*Process, error) {
	var provided, rank, size, ub, was C.int
	if err := check("init", -1, C.weft_init(&provided, &rank, &size, &ub, &was)); err != nil {
		return nil, err
	}
	p := &Process{Rank: int(rank), Size: int(size), span: uint64(ub) + 1, dirty: was != 0}
	if provided < C.MPI_THREAD_SERIALIZED {
		return nil, &Error{Op: "init", Rank: -1, Err: fmt.Errorf("%s allows calls by one thread only; MPI_THREAD_SERIALIZED or more is needed", Version())}
	}
	if what != nil {
		if err := what.agree(Version(), p.Rank, p.Size); err != nil {
			return nil, &Error{Op: "init", Rank: -1, Err: err}
		}
	}
	return p, nil
}

// Finalize ends MPI, if all is in order: it waits for the others. If a peer was lost or has not
// closed, or MPI was begun by somebody else, it leaves MPI as it is.
func (p *Process) Finalize() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.settle("finalize", Linger)
	if err != nil || p.over || p.dirty {
		p.over = true
		return err
	}
	p.over = true
	return check("finalize", -1, C.MPI_Finalize())
}

// settle waits until the endpoint that was opened last has given back all that it had of MPI. The
// caller holds mu.
func (p *Process) settle(op string, limit time.Duration) error {
	e := p.last
	switch {
	case e == nil:
		return nil
	case !e.closed.Load():
		return &Error{Op: op, Rank: -1, Err: errors.New("an endpoint of this process is open")}
	}
	select {
	case <-e.faded:
		p.last = nil
		p.dirty = p.dirty || !e.orderly
		return nil
	case <-time.After(limit):
		p.dirty = true
		return &Error{Op: op, Rank: -1, Err: fmt.Errorf("other ranks have not closed within %v", limit)}
	}
}

// Exchange gives all processes of the world what each has to say, by rank. All call it.
func (p *Process) Exchange(share []byte) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, &Error{Op: "exchange", Rank: -1, Err: errors.New("this process has ended MPI")}
	}
	if e := p.last; e != nil && !e.closed.Load() {
		e.take()
		defer e.rise()
	} else if err := p.settle("exchange", Gather); err != nil {
		return nil, err
	}
	counts, places := make([]C.int, p.Size), make([]C.int, p.Size)
	if err := check("exchange", -1, C.weft_lengths(C.int(len(share)), &counts[0])); err != nil {
		return nil, err
	}
	n := 0
	for r, c := range counts {
		if c < 0 || int(c) > maxShare || n > maxShares {
			return nil, &Error{Op: "exchange", Rank: r, Err: fmt.Errorf("%w: %d bytes of %d in all", ErrFrame, c, n)}
		}
		places[r] = C.int(n)
		n += int(c)
	}
	all := make([]byte, n+1) // one more, so that there is a first byte
	mine := append(share[:len(share):len(share)], 0)
	code := C.weft_gather((*C.char)(unsafe.Pointer(&mine[0])), C.int(len(share)), (*C.char)(unsafe.Pointer(&all[0])), &counts[0], &places[0])
	if err := check("exchange", -1, code); err != nil {
		return nil, err
	}
	shares := make([][]byte, p.Size)
	for r, c := range counts {
		shares[r] = all[places[r] : places[r]+c : places[r]+c]
	}
	return shares, nil
}

// Open connects ranks of the MPI world, which are numbered by their places in the list. All of them
// call Open with the same list.
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
			return nil, &Error{Op: "open", Rank: -1, Err: fmt.Errorf("%w: the list %v; it has ranks from 0 to %d, each once", fabric.ErrRank, ranks, p.Size-1)}
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
		p.dirty = true // the others may have no such error, and wait: Finalize would wait for them
		return nil, &Error{Op: "environment", Rank: -1, Err: err}
	}
	if p.over {
		return nil, &Error{Op: "open", Rank: -1, Err: errors.New("this process has ended MPI")}
	}
	if err := p.settle("open", Gather); err != nil {
		return nil, err
	}
	e := newEndpoint(p, me, len(ranks), span, longest)
	cards := make([]card, len(ranks))
	cards[me] = myCard(span)
	code := C.weft_open(&e.c, e.words(), &list[0], C.int(len(ranks)), slots, frameSize, (*C.uint64_t)(unsafe.Pointer(&cards[0])))
	if err := check("open", -1, code); err != nil {
		e.pin.Unpin()
		return nil, err
	}
	for r, c := range cards {
		if c != cards[me] {
			C.weft_close(e.c, 1)
			e.pin.Unpin()
			return nil, &Error{Op: "open", Rank: r, Err: fmt.Errorf("%w: it is another version of weft, or on another kind of machine (%x, this one %x)", ErrFrame, c, cards[me])}
		}
	}
	e.desk, e.number = C.weft_desk_of(e.c), C.weft_number(uintptr(unsafe.Pointer(e.c)))
	C.weft_post(e.c)
	p.last = e
	runtime.AddCleanup(e, func(c *C.weft_engine) { C.weft_free(c) }, e.c)
	return e, nil
}

// card is what the processes tell each other when they meet: it must be the same.
type card [4]uint64

// myCard has the version of the messages, in the byte order of this machine, and their limits.
func myCard(span uint64) card {
	return card{'w'<<24 | 'e'<<16 | 'f'<<8 | 't', version, frameSize, span}
}

// check makes an error of an MPI error code.
func check(op string, rank int, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	text := make([]byte, C.MPI_MAX_ERROR_STRING)
	class := C.int(0)
	n := C.weft_error_text(code, (*C.char)(unsafe.Pointer(&text[0])), &class)
	return &Error{Op: op, Rank: rank, Class: int(class), Err: fmt.Errorf("%w: %s", ErrLibrary, strings.TrimSpace(string(text[:n])))}
}
