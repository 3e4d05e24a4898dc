// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"fmt"

	"weft/comm"
)

// Put copies src to the target's region, from displacement disp (in the target's units) on. The target sees it after
// the next fence. The copy may be made later, when the target is in another process or a fence is outstanding; src must not
// change until the next fence is complete. Errors: ErrRank, ErrRange, ErrSync, ErrFreed, those of the buffer.
func (w *Win) Put(src comm.Buffer, rank, disp int) error {
	return w.access(entry{kind: kindPut, buf: src, rank: rank}, disp)
}

// Get copies from the target's region to dst. dst is filled when the next fence is complete; the region should not
// be written to in the same epoch. Errors as for Put.
func (w *Win) Get(dst comm.Buffer, rank, disp int) error {
	return w.access(entry{kind: kindGet, buf: dst, rank: rank}, disp)
}

// Accumulate combines src with the target's region, element by element: target = target op src. It is atomic per
// element with respect to other Accumulates, and those of one rank to one element happen in the order of the calls.
// Operators: Sum, Prod, Min, Max and [Replace]. Errors as for Put, and ErrOp.
func (w *Win) Accumulate(src comm.Buffer, rank, disp int, op comm.Op) error {
	if err := checkOp(op, src.Kind()); err != nil {
		return w.wrap("accumulate", rank, err)
	}
	return w.access(entry{kind: kindAccumulate, buf: src, rank: rank, op: op}, disp)
}

// access checks an operation before anything of it happens, and issues it.
func (w *Win) access(e entry, disp int) error {
	if e.rank == comm.ProcNull {
		return nil
	}
	if err := e.buf.Err(); err != nil {
		return w.wrap(e.kind.String(), e.rank, err)
	}
	if uint(e.rank) >= uint(len(w.regions)) {
		return w.wrap(e.kind.String(), e.rank, fmt.Errorf("%w: legal are 0 to %d", ErrRank, len(w.regions)-1))
	}
	g := &w.regions[e.rank]
	n := e.buf.Bytes()
	// In this order nothing overflows.
	if disp < 0 || disp > g.Size/g.Unit || n > g.Size-disp*g.Unit {
		return w.wrap(e.kind.String(), e.rank, fmt.Errorf("%w: %d bytes at displacement %d (unit %d) of a region of %d bytes",
			ErrRange, n, disp, g.Unit, g.Size))
	}
	e.off = disp * g.Unit
	return w.issue(e)
}

// perform carries out a checked operation.
func (w *Win) perform(e *entry) error {
	if e.buf.Bytes() == 0 {
		return nil
	}
	var err error
	switch e.kind {
	case kindPut:
		err = w.b.Put(e.rank, e.off, e.buf)
	case kindGet:
		err = w.b.Get(e.rank, e.off, e.buf)
	case kindAccumulate:
		err = w.b.Accumulate(e.rank, e.off, e.buf, e.op)
	}
	if err != nil {
		return w.wrap(e.kind.String(), e.rank, err)
	}
	return nil
}
