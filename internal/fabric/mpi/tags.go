//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

// tags chooses the MPI tags of the transfers that a rank expects. Both ends derive the same tag
// from a transfer's key, so that nothing has to be said; but there are more keys than tags, and two
// transfers from one rank that are under way at a time must not have one. The second then gets
// another tag, which the sender is told (see README.md).
type tags struct {
	span uint64 // tags from 0 to span-1
	busy map[place]bool
	next uint64 // where to look for another tag
}

type place struct{ peer, tag int }

func (t *tags) of(key uint64) int { return int(key % t.span) }

// take returns a tag for a transfer, which nobody else has until it is given back, and whether it
// is another one than that of the key; false if there is none left.
func (t *tags) take(peer int, key uint64) (tag int, other, ok bool) {
	if t.busy == nil {
		t.busy = make(map[place]bool)
	}
	tag = t.of(key)
	if t.claim(peer, tag) {
		return tag, false, true
	}
	for range min(t.span, uint64(len(t.busy))+1) { // one of so many is free, if one is
		t.next = (t.next + 1) % t.span
		if tag = int(t.next); t.claim(peer, tag) {
			return tag, true, true
		}
	}
	return 0, false, false
}

func (t *tags) claim(peer, tag int) (ok bool) {
	ok = !t.busy[place{peer, tag}]
	t.busy[place{peer, tag}] = true
	return ok
}

func (t *tags) give(peer, tag int) { delete(t.busy, place{peer, tag}) }

const (
	version   = 2
	headSize  = 8 + 8*fabric.HeadWords // origin and target, the words
	frameSize = headSize + MaxFrame
	slots     = 64 // receives of frames that are posted

	maxShare, maxShares = 1 << 16, 1 << 30 // bytes of an exchange
)

// The tags of messages on the frames' communicator.
const (
	kindFrame = 1 + iota // a frame: head, data
	kindBye              // nothing comes behind this
	kindTag              // the transfer of a key has another tag: head with key and tag
)
