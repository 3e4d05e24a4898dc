// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Record is one event as it is recorded: when, what, and three words whose fields the table
// describes.
type Record struct {
	when    uint64 // ticks of the clock, 56 bits, above the kind
	A, B, C uint64
}

// Make returns a record. It is for tests and readers; what runs uses the rings.
func Make(ticks int64, k Kind, a, b, c uint64) Record {
	return Record{uint64(ticks)<<8 | uint64(k), a, b, c}
}

// Kind returns what happened.
func (r *Record) Kind() Kind { return Kind(r.when) }

// Ticks returns when it happened, by the recording's clock.
func (r *Record) Ticks() int64 { return int64(r.when >> 8) }

// Get returns the value of a field. Fields of signed types are sign-extended.
func (r *Record) Get(f *Field) int64 {
	w := [...]uint64{r.A, r.B, r.C}[f.Word] >> f.Shift
	if f.Type.signed() {
		return int64(w<<(64-f.Bits)) >> (64 - f.Bits)
	}
	return int64(w & (1<<f.Bits - 1))
}

// The layouts of the words that have more than one field. table.go has the same in its fields, and
// a test compares them.

// Flags of Spawned.
const (
	SpawnedReady      = 1 << iota // it has no accesses: it is ready from the start
	SpawnedUndeferred             // its creator waits for its body
	SpawnedWait                   // it keeps its accesses until its descendants are over
	SpawnedFinal                  // its descendants are undeferred
	SpawnedMain                   // it is the main task of a run
	SpawnedLoop                   // it is part of a recorded loop
	SpawnedOnReady                // it has an OnReady
)

// SpawnedSampled is where SpawnedC has, where tasks are sampled adaptively, of how many tasks this
// one was chosen by chance: the power of two.
const SpawnedSampled = 56

// SpawnedC packs what Spawned has besides task and parent.
func SpawnedC(spec uint32, priority int32, flags uint8) uint64 {
	p := max(min(priority, 1<<15-1), -1<<15)
	return uint64(spec) | uint64(uint16(p))<<32 | uint64(flags)<<48
}

// Flags of Ended and RequestDone.
const (
	EndedCompleted = 1 << iota // accesses released, no descendants: nothing of it is left
	EndedFailed                // the body, or the operation, had an error
)

// Flags of Access.
const (
	AccessWeak = 1 << iota
	AccessRange
)

// AccessB packs an address and a mode.
func AccessB(address uintptr, mode uint8, weak, slice bool) uint64 {
	w := uint64(address)&(1<<48-1) | uint64(mode)<<48
	if weak {
		w |= AccessWeak << 56
	}
	if slice {
		w |= AccessRange << 56
	}
	return w
}

// PeerB packs the other side of a message: its rank in the communicator and the tag. Both may be
// negative, for wildcards.
func PeerB(peer, tag int) uint64 { return uint64(uint32(int32(peer))) | uint64(uint32(int32(tag)))<<32 }

// Reasons of Blocked.
const (
	BlockedWait       = iota // for its children
	BlockedBlock             // in Block, Await, or a call of package tampi
	BlockedUndeferred        // for the body of an undeferred child, or for what WaitOn names
	BlockedWindow            // it has too many live children
	BlockedOutside           // in Blocking: its body goes on without a slot
)

// Values of Bound's field how.
const (
	BoundTo = iota
	WaitedFor
)

// Flags of EpochClosing.
const (
	FenceOpens = 1 << iota // operations may follow: they are of the next epoch
	FenceLast              // that of Free: nothing follows
)

// FenceB packs a window and the flags of a fence of it.
func FenceB(window uint32, flags uint8) uint64 { return uint64(window) | uint64(flags)<<32 }

// TargetA packs the rank that an operation is on, and its epoch.
func TargetA(peer int, epoch uint64) uint64 { return uint64(uint32(int32(peer))) | epoch<<32 }

// OperationB packs a window and the number of an operation there.
func OperationB(window, operation uint32) uint64 { return uint64(window) | uint64(operation)<<32 }

// Values of WindowNamed's field how.
const (
	Allocated = iota
	AttachedTo
)

// WindowNamedC packs the number of a name, and how a window came to have it.
func WindowNamedC(name uint32, how uint8) uint64 { return uint64(name) | uint64(how)<<32 }

// CollectiveB packs a collective: root, or -1; which it is; of how many ranks.
func CollectiveB(root int32, kind uint8, size int) uint64 {
	return uint64(uint32(root)) | uint64(kind)<<32 | uint64(size)<<40
}

// Sentence says an event in words. spec gives the text of an origin.
func Sentence(r *Record, spec func(uint32) string) string {
	i := r.Kind().Info()
	if i == nil {
		return r.Kind().String()
	}
	s := i.Sentence
	for _, f := range i.Fields {
		s = strings.ReplaceAll(s, "{"+f.Name+"}", f.text(r.Get(&f), spec))
	}
	return s
}

// text writes the value of a field.
func (f *Field) text(v int64, spec func(uint32) string) string {
	switch f.Type {
	case Spec, Name:
		return spec(uint32(v))
	case Address:
		return "0x" + strconv.FormatUint(uint64(v), 16)
	case Bytes:
		return fmt.Sprintf("%d bytes", v)
	case Enum:
		if v < int64(len(f.Values)) {
			return f.Values[v]
		}
	case Rank, Tag:
		if v == -1 {
			return "any"
		}
	case Flags:
		var l []string
		for i, name := range f.Values {
			if v>>i&1 != 0 {
				l = append(l, name)
			}
		}
		return cmp.Or(strings.Join(l, ", "), "-")
	}
	return strconv.FormatInt(v, 10)
}

// XML makes any text, such as the label of a task, one of XML: what XML cannot have, which is most
// control characters and what is no UTF-8, becomes the replacement character.
func XML(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // what is no UTF-8 comes as that already
	}, text))
}
