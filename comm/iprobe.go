// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math"
	"sync/atomic"
)

// lastProbe is what the last Iprobe of a rank has seen. A loop of Iprobe looks here before it takes
// the rank's lock, which senders need: README.md, "Progress without waiting". It has cache lines of
// its own: such a loop must not read lines that senders write for each message.
type lastProbe struct {
	_    [cacheLine]byte
	word atomic.Uint64 // vain of a key, found or zero; what is not zero is written under proc.mu
	_    [cacheLine]byte
}

const (
	cacheLine = 64
	// found: a message was there, which a receive is likely to come for.
	found = 1
)

// vain returns the word that stands for "nothing is here for this key". It is zero for keys that do
// not fit into a word; Iprobe takes the lock for these.
func vain(ctx uint64, src, tag int) uint64 {
	const makers, comms, sources, tags = 10, 14, 16, 22 // bits
	maker, n, s, t := ctx>>32, ctx&math.MaxUint32>>1, uint64(src-wild), uint64(tag-wild)
	if maker>>makers|n>>comms|s>>sources|t>>tags != 0 {
		return 0
	}
	return 1<<63 | ((maker<<comms|n)<<sources|s)<<tags | t
}

// in reports whether the last Iprobe had this key and found nothing, and nothing has been filed since.
func (l *lastProbe) in(key uint64) bool { return key != 0 && l.word.Load() == key }

// filed says that a message is filed. The caller holds proc.mu.
func (l *lastProbe) filed() {
	if l.word.Load() != 0 {
		l.word.Store(0)
	}
}

// taken reports whether the last Iprobe found a message, to the first caller.
func (l *lastProbe) taken() bool { return l.word.Load() == found && l.word.CompareAndSwap(found, 0) }

// Iprobe reports whether a message from src with tag (or wildcards) could be received now, and its status. If not, the
// call makes progress, as Request.Test does, and looks once more.
func (c *Comm) Iprobe(src, tag int) (bool, Status, error) {
	if err := c.check("iprobe", &Buffer{}, src, tag, true); err != nil {
		return false, Status{}, err
	}
	if src == ProcNull {
		return true, nullStatus, nil
	}
	key := vain(c.ctx, src, tag)
	if !c.proc.probe.in(key) || c.world.troubled.Load() {
		if here, st, err := c.peek(src, tag, key); here || err != nil {
			return here, st, err
		}
	}
	if !c.proc.progress.try() || c.proc.probe.in(key) {
		return false, Status{}, nil
	}
	return c.peek(src, tag, key)
}

// peek is Iprobe of what is here. key is the vain word of the others.
func (c *Comm) peek(src, tag int, key uint64) (bool, Status, error) {
	p := c.proc
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.m.peek(matchKey{ctx: c.ctx, src: int32(src), tag: int32(tag)})
	if a == nil {
		if err := c.barred(p.trouble.Load(), src, false); err != nil {
			return false, Status{}, c.fail("iprobe", src, tag, err)
		}
		p.probe.word.Store(key)
		return false, Status{}, nil
	}
	p.probe.word.Store(found)
	return true, a.message().h.status(), nil
}
