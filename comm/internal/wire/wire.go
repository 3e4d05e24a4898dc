// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package wire has the words of the frames that ranks send each other, and reads them. What it
// reads may be wrong in any way: an error says what the frame says, for a caller that declares its
// sender lost.
package wire

import (
	"encoding/binary"
	"fmt"

	"weft/comm/internal/match"
	"weft/comm/internal/mem"
	"weft/internal/fabric"
)

// Protocol is the kind of a frame.
type Protocol uint8

const (
	// Eager: the payload comes with the frame, and the sender is done with it.
	Eager Protocol = 1 + iota
	// Ready: the payload stays at the sender until a receive has matched (rendezvous).
	RTS

	// The rest is between processes only; these frames have no header. Their words are
	//
	//	Wanted    number of the send, key of the transfer, –, kind, bytes
	//	Ending    1: a deadlock, –, –, kind; the data says why
	//	Nudging   context, –, –, kind

	CTS    // a receive has matched a ready message and wants its payload
	Ending // the sender's rank ends the run

	// Of failures, also between ranks of one process:
	//
	//	Mourning  rank, –, –, kind; the data says why
	//	Revoking  context, –, –, kind; the data is the group, none: all ranks
	//	Agreeing  see PackBallot

	FailureNotice // a rank is lost
	Revoking      // a communicator is revoked
	Agreeing      // a message of an agreement

	Nudging // something is new where the ranks of a communicator meet

	// Of deadlocks, between processes. They are not counted as traffic.
	//
	//	Stalling  question, frames sent, frames taken, kind, 1: it waits, 2: and goroutines of its program may act; the data says for what
	//	Asking    question, –, –, kind

	BlockedReport // whether the sender's rank waits for others and does nothing else
	BlockedQuery  // rank 0 asks whether that still holds

	// Of collectives, also between ranks of one process; see comm's history.go and disagree.go:
	//
	//	Comparing    context, rank, number of collectives, kind and flags; the data is the last of these
	//	Answering    –, –, –, kind
	//	Disagreeing  context, number, two ranks, kind, first agreement that is lost by it; the data is
	//	             what they are in

	Comparing
	Answering
	Disagreeing
)

// Word returns the word of a frame's head that has the protocol, where nothing else is in it.
func (p Protocol) Word() uint64 { return uint64(p) << 8 }

// Header is what travels before each payload.
type Header struct {
	Proto    Protocol
	Elem     mem.Kind
	ElemSize uint32
	Ctx      uint64 // of the communicator; even: messages, odd: collectives
	Src      int32  // rank in the communicator
	Tag      int32
	Seq      uint32 // for fabrics that do not keep order; 0 on those that do
	Length   uint64 // bytes of payload
	Aux      uint64 // collectives: which one it is, as the sender sees it
}

// Pack returns the header as the words of a frame's head: context; source, tag; sequence, element
// size; protocol, element kind; length; aux.
func (h *Header) Pack() [fabric.HeadWords]uint64 {
	return [fabric.HeadWords]uint64{
		h.Ctx,
		uint64(uint32(h.Src))<<32 | uint64(uint32(h.Tag)),
		uint64(h.Seq)<<32 | uint64(h.ElemSize),
		uint64(h.Proto)<<8 | uint64(h.Elem),
		h.Length,
		h.Aux,
	}
}

// Unpack reads them.
func (h *Header) Unpack(w *[fabric.HeadWords]uint64) {
	h.Ctx = w[0]
	h.Src, h.Tag = int32(w[1]>>32), int32(w[1])
	h.Seq, h.ElemSize = uint32(w[2]>>32), uint32(w[2])
	h.Proto, h.Elem = Protocol(w[3]>>8), mem.Kind(w[3])
	h.Length = w[4]
	h.Aux = w[5]
}

// Key is what receives are matched by.
func (h *Header) Key() match.Key { return match.Key{Ctx: h.Ctx, Src: h.Src, Tag: h.Tag} }

// PackGroup returns the group of a communicator, as data of a frame; none means all ranks.
func PackGroup(group []int32) []byte {
	var b []byte
	for _, r := range group {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

// UnpackGroup reads it, in a run of so many ranks.
func UnpackGroup(b []byte, size int) ([]int, error) {
	var group []int
	if len(b) == 0 {
		for r := range size {
			group = append(group, r)
		}
		return group, nil
	}
	if len(b)%4 != 0 || len(b)/4 > size {
		return nil, fmt.Errorf("it sends a group in %d bytes", len(b))
	}
	for ; len(b) > 0; b = b[4:] {
		r := binary.LittleEndian.Uint32(b)
		if uint64(r) >= uint64(size) {
			return nil, fmt.Errorf("it sends a group with rank %d", r)
		}
		group = append(group, int(r))
	}
	return group, nil
}
