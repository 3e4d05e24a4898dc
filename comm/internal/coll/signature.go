// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"encoding/binary"
	"fmt"

	"weft/comm/internal/mem"
)

// Collective identifies a collective. Each message and each cell of a collective has it, so that
// two ranks' can be compared. Its bits are
//
//	0–7    kind (Kind)
//	8–15   operator
//	16–31  some bits of the communicator's history, this collective included
//	32–55  root, plus 1
//	56–63  kind of the elements; None if there are none
//
// The kind of the elements may differ if they are only moved; the other bits must be equal.
type Collective uint64

const (
	HistoryShift = 16
	HistoryBits  = 0xffff << HistoryShift
	rootShift    = 32
	rootMask     = 1<<24 - 1 // maxRanks fits
	ElemShift    = 56
)

func NewCollective(k Kind, op *Operator, root int) Collective {
	v := uint64(k)
	if op != nil {
		v |= uint64(op.id) << 8
	}
	return Collective(v | uint64(root+1)<<rootShift)
}

func (v Collective) Kind() Kind     { return Kind(v & 0xff) }
func (v Collective) Reduces() bool  { return v>>8&0xff != 0 }
func (v Collective) Root() int      { return int(v>>rootShift&rootMask) - 1 } // -1: none
func (v Collective) elem() mem.Kind { return mem.Kind(v >> ElemShift) }

// IsAgreement reports whether this is Agree or Shrink.
func (v Collective) IsAgreement() bool { return v.Kind() == Agree || v.Kind() == Shrink }

// Name returns the name of the operation, as in Error.Op.
func (v Collective) Name() string {
	if k := int(v.Kind()); k < len(Names) {
		return Names[k]
	}
	return fmt.Sprintf("collective %d", v.Kind())
}

// String returns the collective as in "reduce (sum, root 3)".
func (v Collective) String() string {
	op := ""
	switch id := int(v >> 8 & 0xff); {
	case id == 0:
	case id < len(operators):
		op = operators[id].name
	default:
		op = "user operator"
	}
	switch root := v.Root(); {
	case op != "" && root >= 0:
		return fmt.Sprintf("%s (%s, root %d)", v.Name(), op, root)
	case op != "":
		return fmt.Sprintf("%s (%s)", v.Name(), op)
	case root >= 0:
		return fmt.Sprintf("%s (root %d)", v.Name(), root)
	}
	return v.Name()
}

// Fits reports whether v and w may be the same collective at two ranks, as far as these words say.
// Mostly they are equal, so the caller may compare them first.
func (v Collective) Fits(w Collective) bool {
	switch {
	case (v^w)<<(64-ElemShift) != 0:
		return false
	case v.Reduces():
		return v.elem() == w.elem()
	}
	return mem.Fits(v.elem(), w.elem(), 0, 0)
}

// Signature has all on which ranks must agree in one collective.
type Signature struct {
	What Collective // without bits of a history
	Elem uint64     // kind and size of the elements, as in Call.Elem
	Unit uint64     // bytes of a rank's block, as in Call.Unit
}

func NewSignature(what Collective, elem uint64, unit int) Signature {
	if unit == 0 {
		elem = 0
	}
	what = what&^(HistoryBits|0xff<<ElemShift) | Collective(elem>>32)<<ElemShift
	return Signature{what, elem, uint64(unit)}
}

// Digest returns the digest of a history with this collective added. The elements are not in it if
// they are only moved.
func (s Signature) Digest(before uint64) uint64 {
	x := uint64(s.What)&(1<<ElemShift-1) ^ s.Unit*0x9e3779b97f4a7c15
	if s.What.Reduces() {
		x ^= s.Elem * 0xc2b2ae3d27d4eb4f
	}
	x = (before ^ x) * 0xff51afd7ed558ccd
	return x ^ x>>32
}

// Agrees reports whether s and o may be the same collective at two ranks.
func (s Signature) Agrees(o Signature) bool {
	if s.What.IsAgreement() && o.What.IsAgreement() {
		return true // see History.Note
	}
	if !s.What.Fits(o.What) || s.Unit != o.Unit {
		return false
	}
	size, other := int(uint32(s.Elem)), int(uint32(o.Elem))
	return s.Unit == 0 || mem.Fits(mem.Kind(s.Elem>>32), mem.Kind(o.Elem>>32), size, other)
}

// String returns the signature as in "bcast (root 1) of 4 int64 (32 bytes)".
func (s Signature) String() string {
	size := uint64(uint32(s.Elem))
	switch {
	case s.Unit == 0 || s.What.Kind().MadeAs() != s.What.Kind(): // the elements are internal
		return s.What.String()
	case size == 0:
		return fmt.Sprintf("%v of %d bytes", s.What, s.Unit)
	case s.What.elem() == mem.Opaque:
		return fmt.Sprintf("%v of %d elements of %d bytes (%d bytes)", s.What, s.Unit/size, size, s.Unit)
	}
	return fmt.Sprintf("%v of %d %v (%d bytes)", s.What, s.Unit/size, s.What.elem(), s.Unit)
}

// SignatureBytes is the length of a signature in a frame.
const SignatureBytes = 24

// Append appends the signature to the data of a frame.
func (s Signature) Append(b []byte) []byte {
	for _, w := range []uint64{uint64(s.What), s.Elem, s.Unit} {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// SignatureOf reads a signature of Append.
func SignatureOf(b []byte) Signature {
	return Signature{Collective(binary.LittleEndian.Uint64(b)), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
}
