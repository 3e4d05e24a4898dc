// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"fmt"
	"sync"

	"weft/comm"
)

// Replace is an operator for Accumulate that sets the target's elements to the source's. Unlike
// Put, it is atomic per element. It accepts every kind of element. It is not for reductions.
var Replace = comm.OpFunc(false, func(in, inout []byte) { copy(inout, in) })

// wireOps are the operators of Accumulate by their numbers in commands, from 1.
var wireOps = []comm.Op{{}, comm.Sum, comm.Prod, comm.Min, comm.Max, Replace}

// opKinds has the kinds of element that each operator is defined for. Replace, which accepts all
// kinds, is not in it.
var opKinds = func() (table map[comm.Op][comm.Opaque + 1]bool) {
	table = make(map[comm.Op][comm.Opaque + 1]bool)
	for _, op := range wireOps[1:] {
		if op == Replace {
			continue
		}
		kinds := [comm.Opaque + 1]bool{comm.None: true}
		for k := comm.Byte; k < comm.Opaque; k++ {
			none := comm.Raw(nil, k)
			kinds[k] = op.Apply(none, none) == nil
		}
		table[op] = kinds
	}
	return table
}()

// checkOp refuses an operator before anything is written.
func checkOp(op comm.Op, kind comm.Kind) error {
	if op == Replace {
		return nil
	}
	kinds, ok := opKinds[op]
	if !ok {
		return fmt.Errorf("%w: %v; legal are comm.Sum, Prod, Min, Max and rma.Replace", ErrOp, op)
	}
	if !kinds[kind] {
		return fmt.Errorf("%w: %v is not defined for %v elements", ErrOp, op, kind)
	}
	return nil
}

const chunkBytes = 2048 // a multiple of every element size

// chunk is aligned memory, to which Apply copies elements that are not contiguous or not aligned.
type chunk struct{ src, dst [chunkBytes / 8]uint64 }

var chunks = sync.Pool{New: func() any { return new(chunk) }}

// Apply combines src with dst, element by element, for backings: dst = dst op src. dst has the size
// of src and any alignment. Apply is not atomic: the caller excludes concurrent access to dst.
func Apply(dst []byte, src comm.Buffer, op comm.Op) error {
	if op == Replace {
		src.CopyToBytes(dst, 0)
		return nil
	}
	kind := src.Kind()
	if _, ok := src.Contiguous(); ok {
		if d := comm.Raw(dst, kind); d.Err() == nil {
			return op.Apply(src, d)
		}
	}
	c := chunks.Get().(*chunk)
	defer chunks.Put(c)
	s, d := wordBytes(c.src[:]), wordBytes(c.dst[:])
	for off := 0; off < len(dst); off += chunkBytes {
		n := min(chunkBytes, len(dst)-off)
		src.CopyToBytes(s[:n], off)
		copy(d[:n], dst[off:])
		if err := op.Apply(comm.Raw(s[:n], kind), comm.Raw(d[:n], kind)); err != nil {
			return err
		}
		copy(dst[off:], d[:n])
	}
	return nil
}
