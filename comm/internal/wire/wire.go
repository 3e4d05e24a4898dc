// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package wire packs and unpacks the frames that ranks send each other. A frame may be wrong in any
// way. An error says what is wrong in it; the caller then marks the frame's sender as lost.
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
	// Eager: the frame has the payload, and the sender is done with it.
	Eager Protocol = 1 + iota
	// RTS (request to send): the sender keeps the payload until a receive has matched. This begins
	// the rendezvous protocol.
	RTS

	// All other frames have no Header. The tables show the words of their heads in order; "–" is a
	// word that is not used, and "kind" is the word of the protocol, see Word.
	//
	// Between processes only:
	//
	//	CTS      number of the send, key of the transfer, –, kind, bytes
	//	Ending   1: because of a deadlock, –, –, kind; the data is the reason

	CTS    // clear to send: a receive has matched an RTS, and its rank is ready for the payload
	Ending // the sender's rank ends the run

	// Failures, also between ranks of one process:
	//
	//	FailureNotice  rank, –, –, kind; the data is the reason
	//	Revoking       context, –, –, kind; the data is the group, empty: all ranks
	//	Agreeing       see PackAgreement

	FailureNotice // a rank is lost
	Revoking      // a communicator is revoked
	Agreeing      // a message of an agreement

	// Collectives in mapped memory, between processes:
	//
	//	Nudging  context, –, –, kind

	Nudging // the receiver has to examine the communicator's shared memory for its rank

	// Deadlock detection, between processes. These frames are not counted as traffic.
	//
	//	BlockedReport  query, frames sent, frames taken, kind, state; the data is what is waited for
	//	BlockedQuery   query, –, –, kind
	//
	// A query is a number; a report by itself has 0. The state is 0: something may go on, 1: all
	// wait, 2: all wait, but goroutines of the program may act.

	BlockedReport // whether the sender's rank waits for other ranks and does nothing else
	BlockedQuery  // rank 0 asks whether the last report still holds

	// Disagreements about collectives, also between ranks of one process; see history.go and
	// disagree.go of package comm:
	//
	//	Comparing    context, rank, number of collectives, kind and flags; the data is the last of these
	//	Answering    –, –, –, kind
	//	Disagreeing  context, number, two ranks, kind, first agreement that is lost by it; the data is
	//	             the collectives that the two ranks are in

	Comparing
	Answering
	Disagreeing
)

// Word returns the word of a frame's head that has the protocol and nothing else.
func (p Protocol) Word() uint64 { return uint64(p) << 8 }

// Header is the head of a frame of protocol Eager or RTS.
type Header struct {
	Proto    Protocol
	Elem     mem.Kind
	ElemSize uint32
	Ctx      uint64 // of the communicator; even: messages, odd: collectives
	Src      int32  // rank in the communicator
	Tag      int32
	Seq      uint32 // on fabrics that do not keep order; else 0
	Length   uint64 // bytes of payload
	Aux      uint64 // collectives: the coll.Collective, as the sender sees it
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

// Unpack reads the words of a frame's head.
func (h *Header) Unpack(w *[fabric.HeadWords]uint64) {
	h.Ctx = w[0]
	h.Src, h.Tag = int32(w[1]>>32), int32(w[1])
	h.Seq, h.ElemSize = uint32(w[2]>>32), uint32(w[2])
	h.Proto, h.Elem = Protocol(w[3]>>8), mem.Kind(w[3])
	h.Length = w[4]
	h.Aux = w[5]
}

// Key returns the key by which receives are matched.
func (h *Header) Key() match.Key { return match.Key{Ctx: h.Ctx, Src: h.Src, Tag: h.Tag} }

// PackGroup returns the group of a communicator as data of a frame. No data means all ranks.
func PackGroup(group []int32) []byte {
	var b []byte
	for _, r := range group {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

// UnpackGroup reads the data of PackGroup, in a run of size ranks.
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
