// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/comm/internal/mem"
)

// collective says which collective a collective is. It is part of every message of one, and of every place at a hub or board,
// so that whoever sees two parts compares them. Its bits are
//
//	0–7    kind, or what the collective is for (collKind)
//	8–15   operator
//	16–31  some bits of the communicator's history, this collective included
//	32–55  root, plus 1
//	56–63  kind of the elements; None if there are none
//
// The last one may differ where bytes are moved as plain memory; the others must not.
type collective uint64

const (
	historyShift = 16
	historyBits  = 0xffff << historyShift
	rootShift    = 32
	rootMask     = 1<<24 - 1 // maxRanks fits
	elemShift    = 56
)

func newCollective(k collKind, op Op, root int) collective {
	v := uint64(k)
	if op.impl != nil {
		v |= uint64(op.impl.id) << 8
	}
	return collective(v | uint64(root+1)<<rootShift)
}

func (v collective) kind() collKind { return collKind(v & 0xff) }
func (v collective) reduces() bool  { return v>>8&0xff != 0 }
func (v collective) root() int      { return int(v>>rootShift&rootMask) - 1 } // -1: none
func (v collective) elem() mem.Kind { return mem.Kind(v >> elemShift) }

// votes reports whether this is Agree or Shrink.
func (v collective) votes() bool { return v.kind() == agree || v.kind() == shrink }

// name returns the operation, as in Error.Op.
func (v collective) name() string {
	if k := int(v.kind()); k < len(collNames) {
		return collNames[k]
	}
	return fmt.Sprintf("collective %d", v.kind())
}

// String returns the collective as in "reduce (sum, root 3)".
func (v collective) String() string {
	op := ""
	switch id := v >> 8 & 0xff; id {
	case 0:
	case 1, 2, 3, 4:
		op = [...]string{"", "sum", "min", "max", "prod"}[id]
	default:
		op = "user operator"
	}
	switch root := v.root(); {
	case op != "" && root >= 0:
		return fmt.Sprintf("%s (%s, root %d)", v.name(), op, root)
	case op != "":
		return fmt.Sprintf("%s (%s)", v.name(), op)
	case root >= 0:
		return fmt.Sprintf("%s (root %d)", v.name(), root)
	}
	return v.name()
}

// fits reports whether two ranks may make the collectives v and w together, as far as these words say. Mostly they are equal,
// which the caller may look at first.
func (v collective) fits(w collective) bool {
	switch {
	case (v^w)<<(64-elemShift) != 0:
		return false
	case v.reduces():
		return v.elem() == w.elem()
	}
	return mem.Fits(v.elem(), w.elem(), 0, 0)
}

// signature is all that ranks must agree on in one collective.
type signature struct {
	what collective // without bits of a history
	elem uint64     // kind and size of the elements, as in elemOf
	unit uint64     // bytes of a rank's part
}

func newSignature(what collective, elem uint64, unit int) signature {
	if unit == 0 {
		elem = 0
	}
	what = what&^(historyBits|0xff<<elemShift) | collective(elem>>32)<<elemShift
	return signature{what, elem, uint64(unit)}
}

// digest returns a history with this collective at its end. Elements that are moved as plain memory are not in it.
func (s signature) digest(before uint64) uint64 {
	x := uint64(s.what)&(1<<elemShift-1) ^ s.unit*0x9e3779b97f4a7c15
	if s.what.reduces() {
		x ^= s.elem * 0xc2b2ae3d27d4eb4f
	}
	x = (before ^ x) * 0xff51afd7ed558ccd
	return x ^ x>>32
}

// agrees reports whether two ranks may make the collectives together.
func (s signature) agrees(o signature) bool {
	if s.what.votes() && o.what.votes() {
		return true // see note
	}
	if !s.what.fits(o.what) || s.unit != o.unit {
		return false
	}
	size, other := int(uint32(s.elem)), int(uint32(o.elem))
	return s.unit == 0 || mem.Fits(mem.Kind(s.elem>>32), mem.Kind(o.elem>>32), size, other)
}

// String returns the signature as in "bcast (root 1) of 4 int64 (32 bytes)".
func (s signature) String() string {
	size := uint64(uint32(s.elem))
	switch {
	case s.unit == 0 || s.what.kind().madeAs() != s.what.kind(): // the elements are ours
		return s.what.String()
	case size == 0:
		return fmt.Sprintf("%v of %d bytes", s.what, s.unit)
	case s.what.elem() == mem.Opaque:
		return fmt.Sprintf("%v of %d elements of %d bytes (%d bytes)", s.what, s.unit/size, size, s.unit)
	}
	return fmt.Sprintf("%v of %d %v (%d bytes)", s.what, s.unit/size, s.what.elem(), s.unit)
}
