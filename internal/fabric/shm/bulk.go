//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// chunk is how much of a shared transfer one side copies at a time.
const chunk = 64 << 10

// bulk is the large transfers of an endpoint that go from memory to memory.
type bulk struct {
	waits xatomic.Int32 // jobs that nobody does yet

	mu    xatomic.VisibleMutex
	out   map[transferKey]*outgoing // guarded by mu
	in    map[transferKey]*incoming // guarded by mu
	jobs  []func()                  // guarded by mu
	busy  int                       // guarded by mu: jobs that are done just now
	rest  chan struct{}             // guarded by mu: if not nil, closed when out is empty
	still chan struct{}             // guarded by mu: if not nil, closed when busy is 0
}

type transferKey struct {
	p   *peer
	key uint64
}

// outgoing is a transfer whose memory is here. It ends when the receiver says so, or when this side
// has copied the last chunk; never while this side copies.
type outgoing struct {
	data []byte
	done func(error)

	// Guarded by bulk.mu.
	busy bool // this side copies
	over bool // done is to be called when it is not busy
	err  error
}

// incoming is a transfer to memory here.
type incoming struct {
	dst  []byte
	deal int // -1: none

	// Guarded by bulk.mu.
	busy bool
	over bool
	err  error
}

// add leaves a copy to Work.
func (b *bulk) add(job func()) {
	b.jobs = append(b.jobs, job)
	b.waits.Add(1)
}

// Work makes the copies that wait. The caller does not poll.
func (e *Endpoint) Work() {
	b := &e.bulk
	for b.waits.Load() > 0 {
		b.mu.Lock()
		if len(b.jobs) == 0 {
			b.mu.Unlock()
			return
		}
		job := b.jobs[0]
		b.jobs = b.jobs[1:]
		b.waits.Add(-1)
		b.busy++
		b.mu.Unlock()
		job()
		b.mu.Lock()
		if b.busy--; b.busy == 0 && b.still != nil {
			close(b.still)
			b.still = nil
		}
		b.mu.Unlock()
	}
}

// settle waits until nobody does a job any more, and reports whether that is so. It is called once,
// when nobody adds any. Jobs are done without the turn, so the turn does not tell: a goroutine that
// has left it long ago may still copy.
func (b *bulk) settle(d deadline) bool {
	b.mu.Lock()
	if b.busy == 0 {
		b.mu.Unlock()
		return true
	}
	still := make(chan struct{})
	b.still = still
	b.mu.Unlock()
	d.await(still)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy == 0
}

// push sends a transfer to the peer.
func (p *peer) push(key uint64, data []byte, done func(error)) {
	p.mu.Lock()
	direct := p.open() == nil && p.copy && len(data) >= p.e.cfg.SingleCopy
	p.mu.Unlock()
	if !direct {
		p.pieces(key, data, done)
		return
	}
	b := &p.e.bulk
	t := transferKey{p, key}
	b.mu.Lock()
	b.out[t] = &outgoing{data: data, done: done}
	b.mu.Unlock()
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{key, address(data), uint64(len(data))}}
	if err := p.send(kindOffer, &f, nil); err != nil {
		b.endOut(t, err)
	}
}

// pieces sends a transfer through the ring.
func (p *peer) pieces(key uint64, data []byte, done func(error)) {
	done = fabric.Last((len(data)+piece-1)/piece, done)
	for off := 0; off < len(data); off += piece {
		f := fabric.Frame{Head: [fabric.HeadWords]uint64{key, uint64(off)}, Data: data[off:min(off+piece, len(data))]}
		if err := p.send(kindPiece, &f, done); err != nil {
			done(err)
		}
	}
}

// offered is the arrival of an offer. The caller has the turn to poll.
func (p *peer) offered(key, addr, n uint64) error {
	e, b := p.e, &p.e.bulk
	if n == 0 || n > 1<<48 || !p.copy {
		return fmt.Errorf("it offers %d bytes", n)
	}
	dst, err := e.expected.Begin(p.rank, key, 0, int(n))
	if err != nil {
		return err
	}
	if dst == nil { // taken back
		p.tell(kindOver, key, 0)
		return nil
	}
	in := &incoming{dst: dst, deal: -1, busy: true}
	t := transferKey{p, key}
	b.mu.Lock()
	b.in[t] = in
	free := ^p.deals & (1<<numDeals - 1)
	if n > chunk && free != 0 {
		in.deal = bits.TrailingZeros32(free)
		p.deals |= 1 << in.deal
	}
	var generation uint32
	if in.deal >= 0 {
		generation = p.in.ctl.deals[in.deal].start()
	}
	b.add(func() { p.read(t, in, addr, generation) })
	b.mu.Unlock()
	if in.deal >= 0 {
		p.tell(kindInvite, key, address(dst), n, uint64(in.deal)<<32|uint64(generation))
	}
	return nil
}

// tell sends a frame of this fabric's own. An error means that the peer is lost, which ends the
// transfer anyway.
func (p *peer) tell(kind uint64, words ...uint64) {
	var f fabric.Frame
	copy(f.Head[:], words)
	_ = p.send(kind, &f, nil)
}

func chunksOf(n int) uint64 { return uint64((n + chunk - 1) / chunk) }

// read is the receiver's copying.
func (p *peer) read(t transferKey, in *incoming, addr uint64, generation uint32) {
	if in.deal < 0 {
		p.readEnded(t, true, readPeer(p.pid, in.dst, addr))
		return
	}
	last, err := p.copyChunks(&p.in.ctl.deals[in.deal], generation, in.dst, addr, readPeer)
	p.readEnded(t, last, err)
}

// copyChunks copies between mem and the peer's memory what the deal has for this side, and reports
// whether the last chunk was among that.
func (p *peer) copyChunks(d *deal, generation uint32, mem []byte, addr uint64, move func(int, []byte, uint64) error) (last bool, err error) {
	chunks := chunksOf(len(mem))
	for err == nil && !last {
		c, ok := d.take(generation, chunks)
		if !ok {
			break
		}
		off := int(c) * chunk
		if err = move(p.pid, mem[off:min(off+chunk, len(mem))], addr+uint64(off)); err == nil {
			last = d.end(chunks)
		}
	}
	return last, err
}

// readEnded is the end of the receiver's copying, which has all if last.
func (p *peer) readEnded(t transferKey, last bool, err error) {
	b := &p.e.bulk
	b.mu.Lock()
	in := b.in[t]
	in.busy = false
	over := in.over || last && err == nil
	b.mu.Unlock()
	switch {
	case over:
		p.endIn(t, in.err)
		if last { // where it has an error nevertheless, the peer is lost, and is told nothing
			p.tell(kindOver, t.key, 0)
		}
	case err != nil:
		p.cut("reading", err)
	}
}

// cut is the failure of a copy.
func (p *peer) cut(doing string, err error) {
	if errors.Is(err, unix.ESRCH) {
		p.unreachable()
		return
	}
	p.lose(fmt.Errorf("%s its memory: %w", doing, err))
}

// endIn ends an incoming transfer once.
func (p *peer) endIn(t transferKey, err error) {
	b := &p.e.bulk
	b.mu.Lock()
	in := b.in[t]
	if in == nil || in.busy {
		if in != nil {
			in.over, in.err = true, err
		}
		b.mu.Unlock()
		return
	}
	delete(b.in, t)
	if in.deal >= 0 {
		p.deals &^= 1 << in.deal
	}
	b.mu.Unlock()
	p.e.expected.End(p.rank, t.key, len(in.dst), err)
}

// invited is the arrival of an invitation to help. The caller has the turn to poll.
func (p *peer) invited(key, addr, n, which uint64) error {
	b := &p.e.bulk
	t := transferKey{p, key}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.out[t]
	if out == nil { // over
		return nil
	}
	if n != uint64(len(out.data)) || which>>32 >= numDeals || out.busy || !p.copy {
		return fmt.Errorf("it invites to write %d bytes of %d by the counter %d", n, len(out.data), which>>32)
	}
	out.busy = true
	b.add(func() { p.write(t, out, addr, int(which>>32), uint32(which)) })
	return nil
}

// write is the sender's copying.
func (p *peer) write(t transferKey, out *outgoing, addr uint64, which int, generation uint32) {
	b := &p.e.bulk
	last, err := p.copyChunks(&p.out.ctl.deals[which], generation, out.data, addr, writePeer)
	b.mu.Lock()
	out.busy = false
	over := out.over
	b.mu.Unlock()
	switch {
	case over:
		b.endOut(t, out.err)
	case last:
		b.endOut(t, nil)
		p.tell(kindOver, t.key, 1)
	case err != nil:
		p.cut("writing", err)
	}
}

// endOut ends an outgoing transfer once.
func (b *bulk) endOut(t transferKey, err error) {
	b.mu.Lock()
	out := b.out[t]
	if out == nil || out.busy {
		if out != nil {
			out.over, out.err = true, err
		}
		b.mu.Unlock()
		return
	}
	delete(b.out, t)
	if b.rest != nil && len(b.out) == 0 {
		close(b.rest)
		b.rest = nil
	}
	b.mu.Unlock()
	out.done(err)
}

// over is the arrival of the end of a transfer.
func (p *peer) over(key, fromSender uint64) error {
	t := transferKey{p, key}
	if fromSender == 0 {
		p.e.bulk.endOut(t, nil)
		return nil
	}
	b := &p.e.bulk
	b.mu.Lock()
	in := b.in[t]
	b.mu.Unlock()
	if in == nil {
		return errors.New("it ends a transfer that is not under way")
	}
	p.endIn(t, nil)
	return nil
}

// fail ends the transfers with a peer, or all.
func (b *bulk) fail(p *peer, err error) {
	b.mu.Lock()
	outs, ins := slices.Collect(maps.Keys(b.out)), slices.Collect(maps.Keys(b.in))
	b.mu.Unlock()
	for _, t := range outs {
		if p == nil || t.p == p {
			b.endOut(t, err)
		}
	}
	for _, t := range ins {
		if p == nil || t.p == p {
			t.p.endIn(t, err)
		}
	}
}

// flush waits until nothing is going out. It is called once.
func (b *bulk) flush(d deadline) {
	b.mu.Lock()
	if len(b.out) == 0 {
		b.mu.Unlock()
		return
	}
	rest := make(chan struct{})
	b.rest = rest
	b.mu.Unlock()
	d.await(rest)
}
