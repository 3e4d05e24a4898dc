// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"errors"
	"fmt"

	"weft/comm/internal/mem"
	"weft/internal/names"
)

// Kind is the kind of a collective.
type Kind uint8

const (
	Barrier Kind = 1 + iota
	Bcast
	Reduce
	Allreduce
	Scan
	Gather
	Scatter
	Allgather
	Alltoall

	// Operations that are made as one of these collectives, or begin with one. Ranks must agree on
	// the operation as well.

	Dup      // allgather
	Split    // allgather
	Window   // begins with an allgather
	Fence    // barrier
	Freeing  // barrier
	Allocate // begins with an allgather
	Attach   // begins with an allgather
	SetInfo  // begins with an allgather

	// In histories only:

	Agree
	Shrink
	NumKinds
)

// This line fails to compile if package names does not list the collectives.
const _ = -uint(len(names.Collectives) ^ int(Dup))

// Names are the names of the kinds, as in Error.Op.
var Names = [NumKinds]string{"no collective", Dup: "dup", "split", "create window", "fence", "free window", "allocate", "attach", "set info", "agree", "shrink"}

// flows is by Kind.
var flows [1 << 8]names.Flow

func init() {
	for k, c := range names.Collectives {
		flows[k] = c.Flow
		if k > 0 {
			Names[k] = c.Name
		}
	}
}

// FromRoot reports whether each rank needs the contribution of the root, and of no other rank.
func (k Kind) FromRoot() bool { return flows[k] == names.FromRoot }

// ToRoot reports whether the root needs the contributions of all ranks, and other ranks need none.
func (k Kind) ToRoot() bool { return flows[k] == names.ToRoot }

// Upward reports whether each rank needs the contributions of the ranks up to its own.
func (k Kind) Upward() bool { return flows[k] == names.Upward }

// MadeAs returns the kind of the collective as which an operation is made.
func (k Kind) MadeAs() Kind {
	switch k {
	case Dup, Split, Window, Allocate, Attach, SetInfo:
		return Allgather
	case Fence, Freeing:
		return Barrier
	}
	return k
}

// Errors of package comm, which documents them.
var (
	ErrRank     = errors.New("no such rank")
	ErrMismatch = errors.New("ranks do not agree on the collective")
)

// Call is one rank's call of a collective.
type Call struct {
	What    Collective
	Kind    Kind
	Seq     uint64 // the number of a collective by messages, if it has one already
	Root    int
	Unit    int // bytes of a rank's block, or of the payload if it has no blocks
	Large   bool
	Total   int // of a large one: pieces, or the way it runs; see package smcoll
	Op      *Operator
	In, Out mem.Buffer
}

// Elem returns the kind of the elements << 32 | their size; 0 if there are none.
func (d *Call) Elem() uint64 {
	t := d.In.Element()
	if t == nil {
		t = d.Out.Element()
	}
	if t == nil {
		return 0
	}
	return uint64(t.Kind)<<32 | uint64(t.Size)
}

// Check returns what is wrong with the arguments of a collective, at a rank of size ranks. If
// nothing is, it sets Unit and drops the buffers that are not used at this rank.
func (d *Call) Check(rank, size int) error {
	if d.Kind == Barrier {
		return nil
	}
	if err := d.In.Err(); err != nil {
		return err
	}
	if err := d.Out.Err(); err != nil {
		return err
	}
	atRoot := d.Root == rank
	if (d.Kind.FromRoot() || d.Kind.ToRoot()) && uint(d.Root) >= uint(size) {
		return fmt.Errorf("%w: root %d; this communicator has ranks 0 to %d", ErrRank, d.Root, size-1)
	}
	d.Unit = d.In.Bytes()
	switch d.Kind {
	case Bcast:
		if atRoot {
			d.Out = mem.Buffer{}
		} else {
			d.In = mem.Buffer{}
		}
	case Gather:
		if !atRoot {
			d.Out = mem.Buffer{}
			return nil
		}
		return checkShape(d.In, d.Out, size, "receive buffer")
	case Allgather:
		return checkShape(d.In, d.Out, size, "receive buffer")
	case Scatter:
		d.Unit = d.Out.Bytes()
		if !atRoot {
			d.In = mem.Buffer{}
			return nil
		}
		return checkShape(d.Out, d.In, size, "send buffer")
	case Alltoall:
		d.Unit /= size
		if err := checkShape(d.In, d.Out, 1, "receive buffer"); err != nil {
			return err
		}
		if d.In.Len()%size != 0 {
			return fmt.Errorf("%w: %d elements are not a multiple of %d ranks", mem.ErrBuffer, d.In.Len(), size)
		}
	case Reduce, Allreduce, Scan:
		if err := d.Op.Check(d.In); err != nil {
			return err
		}
		if d.Kind == Reduce && !atRoot {
			d.Out = mem.Buffer{}
			return nil
		}
		return checkShape(d.In, d.Out, 1, "result buffer")
	}
	return nil
}

// checkShape checks that whole has n times as many elements as part, and the same element type.
func checkShape(part, whole mem.Buffer, n int, what string) error {
	if whole.Len() != n*part.Len() {
		return fmt.Errorf("%w: %s of %d elements, where %d times %d are needed", mem.ErrBuffer, what, whole.Len(), n, part.Len())
	}
	if part.Len() > 0 && (part.Kind() != whole.Kind() || part.ElemSize() != whole.ElemSize()) {
		return mem.Mismatch(whole.Kind(), part.Kind(), whole.ElemSize(), part.ElemSize())
	}
	return nil
}

// CellBytes returns the size of the largest contribution of a rank; it is the same at all ranks.
func (d *Call) CellBytes(n int) int {
	if d.Kind == Scatter || d.Kind == Alltoall {
		return d.Unit * n
	}
	return d.Unit
}

// Published returns how many bytes a rank publishes in its cell.
func (d *Call) Published(me, n int) int {
	switch d.Kind {
	case Barrier:
		return 0
	case Bcast:
		if me != d.Root {
			return 0
		}
	case Scatter:
		if me != d.Root {
			return 0
		}
		return d.Unit * n
	case Alltoall:
		return d.Unit * n
	}
	return d.Unit
}

// Concerns returns the range of ranks, lo included and hi not, whose cells a rank must compare in a
// collective that is not large.
func (d *Call) Concerns(me, n int) (lo, hi int) {
	switch {
	case d.Kind.FromRoot():
		return d.Root, d.Root + 1
	case d.Kind.ToRoot() && me != d.Root:
		return 0, 0
	}
	return 0, n
}
