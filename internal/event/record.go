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

// Record is one trace event: time, kind, and three words whose fields the table describes.
type Record struct {
	when    uint64 // bits 8–63: ticks of the clock; bits 0–7: the kind
	A, B, C uint64
}

// Make returns a record. It is for tests and readers; programs record into rings.
func Make(ticks int64, k Kind, a, b, c uint64) Record {
	return Record{uint64(ticks)<<8 | uint64(k), a, b, c}
}

// Kind returns what happened.
func (r *Record) Kind() Kind { return Kind(r.when) }

// Ticks returns when it happened, by the recording's clock.
func (r *Record) Ticks() int64 { return int64(r.when >> 8) }

// Get returns the value of a field. A field of a signed type is sign-extended.
func (r *Record) Get(f *Field) int64 {
	w := [...]uint64{r.A, r.B, r.C}[f.Word] >> f.Shift
	if f.Type.signed() {
		return int64(w<<(64-f.Bits)) >> (64 - f.Bits)
	}
	return int64(w & (1<<f.Bits - 1))
}

// The layouts of words with several fields. The fields in table.go say the same; a test compares
// them.

// Flags of Spawned.
const (
	SpawnedReady      = 1 << iota // the task has no accesses: it is ready at once
	SpawnedUndeferred             // its creator waits for its body
	SpawnedWait                   // it keeps its accesses until its descendants are complete
	SpawnedFinal                  // its descendants are undeferred
	SpawnedMain                   // it is the main task of a run
	SpawnedLoop                   // it is part of a recorded loop
	SpawnedOnReady                // it has an OnReady
)

// SpawnedSampled is the shift of the field sampled of SpawnedC: with adaptive sampling, the task
// was chosen from 2^sampled tasks.
const SpawnedSampled = 56

// SpawnedC packs word C of Spawned, except the field sampled.
func SpawnedC(spec uint32, priority int32, flags uint8) uint64 {
	p := max(min(priority, 1<<15-1), -1<<15)
	return uint64(spec) | uint64(uint16(p))<<32 | uint64(flags)<<48
}

// Flags of Ended and RequestDone.
const (
	EndedCompleted = 1 << iota // accesses released, no descendants: the task is complete
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

// PeerB packs the peer of a message: its rank in the communicator, and the tag. Both may be
// negative: -1 is a wildcard.
func PeerB(peer, tag int) uint64 { return uint64(uint32(int32(peer))) | uint64(uint32(int32(tag)))<<32 }

// Reasons of Blocked.
const (
	BlockedWait       = iota // for the task's children
	BlockedBlock             // in Block, Await, or a call of package tampi
	BlockedUndeferred        // for the body of an undeferred child, or for the accesses of a WaitOn
	BlockedWindow            // for fewer live children: the throttle
	BlockedOutside           // in Blocking: the body continues without a slot
)

// Values of Bound's field how.
const (
	BoundTo = iota
	WaitedFor
)

// Flags of EpochClosing.
const (
	FenceOpens = 1 << iota // operations may follow, and belong to the next epoch
	FenceLast              // the fence of Free: no operations follow
)

// FenceB packs a window and the flags of a fence.
func FenceB(window uint32, flags uint8) uint64 { return uint64(window) | uint64(flags)<<32 }

// TargetA packs the target rank of an operation, and the operation's epoch.
func TargetA(peer int, epoch uint64) uint64 { return uint64(uint32(int32(peer))) | epoch<<32 }

// OperationB packs a window and the number of an operation on the window.
func OperationB(window, operation uint32) uint64 { return uint64(window) | uint64(operation)<<32 }

// Values of WindowNamed's field how.
const (
	Allocated = iota
	AttachedTo
)

// WindowNamedC packs the number of a name, and whether the window was allocated or attached to.
func WindowNamedC(name uint32, how uint8) uint64 { return uint64(name) | uint64(how)<<32 }

// CollectiveB packs a collective: its root, or -1; its kind; the number of ranks.
func CollectiveB(root int32, kind uint8, size int) uint64 {
	return uint64(uint32(root)) | uint64(kind)<<32 | uint64(size)<<40
}

// Sentence describes a record in words. spec returns the text of an origin.
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

// text formats the value of a field.
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

// XML escapes any text, such as the label of a task, for XML. What XML cannot contain becomes the
// replacement character: most control characters, and invalid UTF-8.
func XML(text string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // for invalid UTF-8, r is the replacement character already
	}, text))
}
