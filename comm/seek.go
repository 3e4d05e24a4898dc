// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math"
	"sync/atomic"

	"weft/internal/fabric"
)

// seeker is the short way of a blocking receive from a rank of another process that shares memory with this one: who waits looks for the message in the
// ring and takes it from there, without posting the receive, so without the matcher and without being woken. README.md, "The short way", says why no
// message is missed or overtaken.
type seeker struct {
	// Constant after construction.
	p    *proc
	eyes fabric.Seeker
	near []bool // by rank of the run: all that comes from there is found by looking

	// Owned by who looks.
	op   recvOp
	ctx  uint64
	from uint64 // source and tag, as in a frame's head
	torn bool   // the message has come, and is not one that can be taken here; so those behind it must not be
}

func (s *seeker) init(p *proc, size int) {
	s.p = p
	eyes, ok := p.ep.(fabric.Seeker)
	if !ok {
		return
	}
	s.near = make([]bool, size)
	for r := range s.near {
		if s.near[r] = p.ep.Caps(r).SharedMemory && p.ep.Local(r) == nil; s.near[r] {
			s.eyes = eyes
		}
	}
	s.op.call = callRecv
}

// seek receives a message if it is one that comes soon and is found here. If not, the caller posts its receive, and may look already.
func (s *seeker) seek(c *Comm, buf *Buffer, src, tag int) sought {
	p := s.p
	if src < 0 || tag < 0 || !s.near[c.worldRank(src)] || p.ev != nil || !p.progress.looker.Enter() {
		return sought{}
	}
	// Behind Enter: what another goroutine has delivered before is in the matcher, and what comes from src from now on is seen here first.
	p.mu.Lock()
	free := p.m.idle() && p.trouble.Load() == nil
	p.mu.Unlock()
	if !free {
		return sought{looks: true}
	}
	s.ctx, s.from, s.torn = c.ctx, uint64(uint32(src))<<32|uint64(uint32(tag)), false
	s.op.c, s.op.buf = c, *buf
	s.op.entry.key.ctx, s.op.entry.key.src, s.op.entry.key.tag = c.ctx, int32(src), int32(tag)
	picked, tired := s.eyes.Seek(s)
	s.op.buf.ptr = nil // not to be kept until the next receive
	if !picked {
		return sought{looks: true, tired: tired}
	}
	found := sought{st: s.op.st, err: s.op.err, received: true}
	p.progress.looker.Leave()
	return found
}

// sought is what has come of that.
type sought struct {
	received bool
	st       Status
	err      error

	looks bool // the caller, still
	tired bool // it has done so for long enough
}

// await is proc.await of one who has sought.
func (s *sought) await(p *proc, ch <-chan struct{}) {
	switch {
	case s.tired:
		p.progress.looker.Leave()
	default:
		p.progress.look(ch, s.looks)
	}
	s.looks = false
	<-ch
}

// Pick takes the message that is looked for.
func (s *seeker) Pick(src int, f *fabric.Frame) bool {
	if s.torn || f.Head[0] != s.ctx || f.Head[1] != s.from {
		return false
	}
	var h header
	h.unpack(&f.Head)
	if h.proto != eager || h.aux != 0 || s.p.world.troubled.Load() || s.p.admit(&h, src, f.Data) != nil {
		s.torn = true
		return false
	}
	s.op.transfer(&h, f.Data, nil, neither)
	if s.p.world.apart {
		s.p.traffic.here.Add(1)
	}
	return true
}

// Enough reports whether the receive has to be posted.
func (s *seeker) Enough() bool { return s.torn || s.p.world.troubled.Load() }

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
