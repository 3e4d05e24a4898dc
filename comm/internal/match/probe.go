// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"sync/atomic"
)

// Probe has the result of a rank's last Iprobe. A loop of Iprobe reads it before it takes the
// rank's lock, which senders need: comm/README.md, "Progress without waiting". A Probe shares no
// cache line with other data: such a loop must not read lines that senders write for each message.
type Probe struct {
	_ [cacheLine]byte
	// ProbeWord of a key, found, or zero. Only a holder of the rank's lock writes other values than
	// zero.
	word atomic.Uint64
	_    [cacheLine]byte
}

const (
	cacheLine = 64
	// The last Iprobe found a message; a receive of it will probably follow.
	found = 1
)

// ProbeWord returns the word that means "there is no message for this key". It is zero for keys
// that do not fit into a word; for these Iprobe takes the lock.
func ProbeWord(ctx uint64, src, tag int) uint64 {
	const makers, comms, sources, tags = 10, 14, 16, 22 // bits
	maker, n, s, t := ctx>>32, ctx&math.MaxUint32>>1, uint64(src-Wild), uint64(tag-Wild)
	if maker>>makers|n>>comms|s>>sources|t>>tags != 0 {
		return 0
	}
	return 1<<63 | ((maker<<comms|n)<<sources|s)<<tags | t
}

// StillNothing reports whether the last Iprobe had this key and found nothing, and no message has
// been filed since.
func (l *Probe) StillNothing(key uint64) bool { return key != 0 && l.word.Load() == key }

// Nothing notes that an Iprobe has found no message for the key, and Found that one has found a
// message. The caller holds the rank's lock.
func (l *Probe) Nothing(key uint64) { l.word.Store(key) }
func (l *Probe) Found()             { l.word.Store(found) }

// Filed notes that a message has been filed. The caller holds the rank's lock.
func (l *Probe) Filed() {
	if l.word.Load() != 0 {
		l.word.Store(0)
	}
}

// Taken reports whether the last Iprobe found a message. Only the first caller gets true.
func (l *Probe) Taken() bool { return l.word.Load() == found && l.word.CompareAndSwap(found, 0) }
