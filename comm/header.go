// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"weft/comm/internal/match"
	"weft/comm/internal/mem"
	"weft/internal/fabric"
)

// protocol is the kind of a frame.
type protocol uint8

const (
	// eager: the payload comes with the frame, and the sender is done with it.
	eager protocol = 1 + iota
	// ready: the payload stays at the sender until a receive has matched (rendezvous).
	ready

	// The rest is between processes only; these frames have no header. Their words are
	//
	//	wanted    number of the send, key of the transfer, –, kind, bytes
	//	ending    1: a deadlock, –, –, kind; the data says why
	//	nudging   context, –, –, kind

	wanted // a receive has matched a ready message and wants its payload
	ending // the sender's rank ends the run

	// Of failures, also between ranks of one process:
	//
	//	mourning  rank, –, –, kind; the data says why
	//	revoking  context, –, –, kind; the data is the group, none: all ranks
	//	agreeing  see failure.go

	mourning // a rank is lost
	revoking // a communicator is revoked
	agreeing // a message of an agreement

	nudging // something is new where the ranks of a communicator meet

	// Of deadlocks, where no launcher finds them. They are not counted as traffic.
	//
	//	stalling  question, frames sent, frames taken, kind, 1: it waits, 2: and goroutines of its program may act; the data says for what
	//	asking    question, –, –, kind

	stalling // whether the sender's rank waits for others and does nothing else
	asking   // rank 0 asks whether that still holds

	// Of collectives, also between ranks of one process; see history.go and disagree.go:
	//
	//	comparing    context, rank, number of collectives, kind and flags; the data is the last of these
	//	answering    –, –, –, kind
	//	disagreeing  context, number, two ranks, kind, first agreement that is lost by it; the data is
	//	             what they are in

	comparing
	answering
	disagreeing
)

// word returns the word of a frame's head that has the protocol, where nothing else is in it.
func (p protocol) word() uint64 { return uint64(p) << 8 }

// header is what travels before each payload.
type header struct {
	proto    protocol
	elem     mem.Kind
	elemSize uint32
	ctx      uint64 // of the communicator; even: messages, odd: collectives
	src      int32  // rank in the communicator
	tag      int32
	seq      uint32 // for fabrics that do not keep order; 0 on those that do
	length   uint64 // bytes of payload
	aux      uint64 // collectives: which one it is, as the sender sees it
}

// pack returns the header as the words of a frame's head: context; source, tag; sequence, element
// size; protocol, element kind; length; aux.
func (h *header) pack() [fabric.HeadWords]uint64 {
	return [fabric.HeadWords]uint64{
		h.ctx,
		uint64(uint32(h.src))<<32 | uint64(uint32(h.tag)),
		uint64(h.seq)<<32 | uint64(h.elemSize),
		uint64(h.proto)<<8 | uint64(h.elem),
		h.length,
		h.aux,
	}
}

func (h *header) unpack(w *[fabric.HeadWords]uint64) {
	h.ctx = w[0]
	h.src, h.tag = int32(w[1]>>32), int32(w[1])
	h.seq, h.elemSize = uint32(w[2]>>32), uint32(w[2])
	h.proto, h.elem = protocol(w[3]>>8), mem.Kind(w[3])
	h.length = w[4]
	h.aux = w[5]
}

func (h *header) key() match.Key { return match.Key{Ctx: h.ctx, Src: h.src, Tag: h.tag} }

// The group of a communicator, as data of a frame; none means all ranks.

func packGroup(group []int32) []byte {
	var b []byte
	for _, r := range group {
		b = binary.LittleEndian.AppendUint32(b, uint32(r))
	}
	return b
}

func unpackGroup(b []byte, size int) ([]int, error) {
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

// maxReason bounds the text of an error that goes to the other processes.
const maxReason = 4 << 10

// errFrame is the cause of ErrPeerLost where a peer breaks the protocol.
var errFrame = errors.New("bad frame")

// leaving is the context of the last barrier. newContext returns none below 1<<32.
const leaving = 2

// Special ranks, tags and colours.
const (
	AnySource = -1        // receive from any rank
	AnyTag    = -1        // receive any tag
	ProcNull  = -2        // a peer that is not there: messages to and from it complete at once, empty
	Undefined = -32766    // no colour, no index, no count
	TagUB     = 1<<31 - 1 // the largest tag
)
