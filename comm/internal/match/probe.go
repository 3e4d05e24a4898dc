// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math"
	"sync/atomic"
)

// Probe is what the last Iprobe of a rank has seen. A loop of Iprobe looks here before it takes the
// rank's lock, which senders need: comm/README.md, "Progress without waiting". It has cache lines
// of its own: such a loop must not read lines that senders write for each message.
type Probe struct {
	_ [cacheLine]byte
	// Vain of a key, found or zero; what is not zero is written under the rank's lock
	word atomic.Uint64
	_    [cacheLine]byte
}

const (
	cacheLine = 64
	// found: a message was there, which a receive is likely to come for.
	found = 1
)

// Vain returns the word that stands for "nothing is here for this key". It is zero for keys that do
// not fit into a word; Iprobe takes the lock for these.
func Vain(ctx uint64, src, tag int) uint64 {
	const makers, comms, sources, tags = 10, 14, 16, 22 // bits
	maker, n, s, t := ctx>>32, ctx&math.MaxUint32>>1, uint64(src-Wild), uint64(tag-Wild)
	if maker>>makers|n>>comms|s>>sources|t>>tags != 0 {
		return 0
	}
	return 1<<63 | ((maker<<comms|n)<<sources|s)<<tags | t
}

// In reports whether the last Iprobe had this key and found nothing, and nothing has been filed
// since.
func (l *Probe) In(key uint64) bool { return key != 0 && l.word.Load() == key }

// Nothing says that nothing is here for the key, Found that a message is. The caller holds the
// rank's lock.
func (l *Probe) Nothing(key uint64) { l.word.Store(key) }
func (l *Probe) Found()             { l.word.Store(found) }

// Filed says that a message is filed. The caller holds the rank's lock.
func (l *Probe) Filed() {
	if l.word.Load() != 0 {
		l.word.Store(0)
	}
}

// Taken reports whether the last Iprobe found a message, to the first caller.
func (l *Probe) Taken() bool { return l.word.Load() == found && l.word.CompareAndSwap(found, 0) }
