//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

// tags chooses the MPI tags of the transfers that a rank expects. Both ends derive the same tag
// from a transfer's key, so no message is needed. But there are more keys than tags, and two
// transfers from one rank that are under way at the same time must have different tags. So the
// second one gets another tag, and a message tells the sender (README.md).
type tags struct {
	span uint64        // tags are from 0 to span-1
	busy map[slot]bool // the reserved tags
	next uint64        // the search for another tag starts here
}

// slot is a tag for transfers from one peer.
type slot struct{ peer, tag int }

func (t *tags) of(key uint64) int { return int(key % t.span) }

// choose reserves a tag for a transfer, until release. other: the tag is not the one of the key. ok
// is false if no tag is free.
func (t *tags) choose(peer int, key uint64) (tag int, other, ok bool) {
	if t.busy == nil {
		t.busy = make(map[slot]bool)
	}
	tag = t.of(key)
	if t.reserve(peer, tag) {
		return tag, false, true
	}
	for range min(t.span, uint64(len(t.busy))+1) { // among these tags one is free, if any is
		t.next = (t.next + 1) % t.span
		if tag = int(t.next); t.reserve(peer, tag) {
			return tag, true, true
		}
	}
	return 0, false, false
}

func (t *tags) reserve(peer, tag int) (ok bool) {
	ok = !t.busy[slot{peer, tag}]
	t.busy[slot{peer, tag}] = true
	return ok
}

func (t *tags) release(peer, tag int) { delete(t.busy, slot{peer, tag}) }

const (
	version   = 2
	headSize  = 8 + 8*fabric.HeadWords // origin and target, the words
	frameSize = headSize + MaxFrame
	slots     = 64 // number of posted receives for frames

	maxShare, maxShares = 1 << 16, 1 << 30 // bytes of an exchange
)

// The tags of messages on the frames' communicator.
const (
	kindFrame = 1 + iota // a frame: head, data
	kindBye              // the closing message: the last one of its sender
	kindTag              // the transfer of a key has another tag: head with key and tag
)
