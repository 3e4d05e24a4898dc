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

// chunk is how many bytes of a shared transfer one side copies at a time.
const chunk = 64 << 10

// bulk is the large transfers of an endpoint that go from memory to memory.
type bulk struct {
	queued xatomic.Int32 // jobs that no goroutine has begun

	mu      xatomic.VisibleMutex
	out     map[transferKey]*outgoing // guarded by mu
	in      map[transferKey]*incoming // guarded by mu
	jobs    []func()                  // guarded by mu
	busy    int                       // guarded by mu: jobs that goroutines are doing
	drained chan struct{}             // guarded by mu: if not nil, closed when out is empty
	idle    chan struct{}             // guarded by mu: if not nil, closed when busy is 0
}

type transferKey struct {
	p   *peer
	key uint64
}

// outgoing is a transfer from memory of this process. It ends when the receiver reports the end, or
// when this side has copied the last chunk; never while this side copies.
type outgoing struct {
	data []byte
	done func(error)

	// Guarded by bulk.mu.
	busy bool // this side copies
	over bool // done is to be called when it is not busy
	err  error
}

// incoming is a transfer to memory of this process.
type incoming struct {
	dst     []byte
	counter int // index in ringControl.counters; -1: none

	// Guarded by bulk.mu.
	busy bool // this side copies
	over bool // the transfer ends when it is not busy
	err  error
}

// add leaves a copy to Work. The caller holds mu.
func (b *bulk) add(job func()) {
	b.jobs = append(b.jobs, job)
	b.queued.Add(1)
}

// Work makes the queued copies. The caller does not have the turn to poll.
func (e *Endpoint) Work() {
	b := &e.bulk
	for b.queued.Load() > 0 {
		b.mu.Lock()
		if len(b.jobs) == 0 {
			b.mu.Unlock()
			return
		}
		job := b.jobs[0]
		b.jobs = b.jobs[1:]
		b.queued.Add(-1)
		b.busy++
		b.mu.Unlock()
		job()
		b.mu.Lock()
		if b.busy--; b.busy == 0 && b.idle != nil {
			close(b.idle)
			b.idle = nil
		}
		b.mu.Unlock()
	}
}

// awaitIdle waits until no goroutine does a job, and reports whether that is so. It is called once,
// when no more jobs are added. Jobs are done without the turn: a goroutine that released the turn
// long ago may still copy.
func (b *bulk) awaitIdle(d deadline) bool {
	b.mu.Lock()
	if b.busy == 0 {
		b.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	b.idle = idle
	b.mu.Unlock()
	d.await(idle)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy == 0
}

// push sends a transfer to the peer.
func (p *peer) push(key uint64, data []byte, done func(error)) {
	p.mu.Lock()
	direct := p.open() == nil && p.singleCopy && len(data) >= p.e.cfg.SingleCopy
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

// offered handles an offer of the peer. The caller has the turn to poll.
func (p *peer) offered(key, addr, n uint64) error {
	e, b := p.e, &p.e.bulk
	if n == 0 || n > 1<<48 || !p.singleCopy {
		return fmt.Errorf("an invalid offer of %d bytes", n)
	}
	dst, err := e.expected.Begin(p.rank, key, 0, int(n))
	if err != nil {
		return err
	}
	if dst == nil { // Forget took the expectation back
		p.sendControl(kindOver, key, 0)
		return nil
	}
	in := &incoming{dst: dst, counter: -1, busy: true}
	t := transferKey{p, key}
	b.mu.Lock()
	b.in[t] = in
	free := ^p.countersInUse & (1<<numCounters - 1)
	if n > chunk && free != 0 {
		in.counter = bits.TrailingZeros32(free)
		p.countersInUse |= 1 << in.counter
	}
	var generation uint32
	if in.counter >= 0 {
		generation = p.in.ctl.counters[in.counter].start()
	}
	b.add(func() { p.read(t, in, addr, generation) })
	b.mu.Unlock()
	if in.counter >= 0 {
		p.sendControl(kindInvite, key, address(dst), n, uint64(in.counter)<<32|uint64(generation))
	}
	return nil
}

// sendControl sends a control frame, which the peer's fabric handles itself. It ignores errors:
// they mean that the peer is lost, which ends the transfer anyway.
func (p *peer) sendControl(kind uint64, words ...uint64) {
	var f fabric.Frame
	copy(f.Head[:], words)
	_ = p.send(kind, &f, nil)
}

func chunksOf(n int) uint64 { return uint64((n + chunk - 1) / chunk) }

// read makes the receiver's copies.
func (p *peer) read(t transferKey, in *incoming, addr uint64, generation uint32) {
	if in.counter < 0 {
		p.readEnded(t, true, readPeer(p.pid, in.dst, addr))
		return
	}
	last, err := p.copyChunks(&p.in.ctl.counters[in.counter], generation, in.dst, addr, readPeer)
	p.readEnded(t, last, err)
}

// copyChunks copies the chunks that the counter hands out to this side, between mem and the peer's
// memory. It reports whether the last copy to end was among them.
func (p *peer) copyChunks(counter *chunkCounter, generation uint32, mem []byte, addr uint64, move func(int, []byte, uint64) error) (last bool, err error) {
	chunks := chunksOf(len(mem))
	for err == nil && !last {
		c, ok := counter.take(generation, chunks)
		if !ok {
			break
		}
		off := int(c) * chunk
		if err = move(p.pid, mem[off:min(off+chunk, len(mem))], addr+uint64(off)); err == nil {
			last = counter.end(chunks)
		}
	}
	return last, err
}

// readEnded is called when the receiver's side has stopped copying. last: all chunks are copied.
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
		if last { // if in.err is set nevertheless, the peer is lost, and the frame goes nowhere
			p.sendControl(kindOver, t.key, 0)
		}
	case err != nil:
		p.copyFailed("reading", err)
	}
}

// copyFailed handles the failure of a copy. If the peer's process has ended, the peer is lost after
// its last frame; with another error it is lost at once.
func (p *peer) copyFailed(doing string, err error) {
	if errors.Is(err, unix.ESRCH) {
		p.unreachable()
		return
	}
	p.lose(fmt.Errorf("%s its memory: %w", doing, err))
}

// endIn ends an incoming transfer once: now, or when this side has stopped copying.
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
	if in.counter >= 0 {
		p.countersInUse &^= 1 << in.counter
	}
	b.mu.Unlock()
	p.e.expected.End(p.rank, t.key, len(in.dst), err)
}

// invited handles an invitation to help with a transfer. The caller has the turn to poll.
func (p *peer) invited(key, addr, n, which uint64) error {
	b := &p.e.bulk
	t := transferKey{p, key}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.out[t]
	if out == nil { // it has ended
		return nil
	}
	if n != uint64(len(out.data)) || which>>32 >= numCounters || out.busy || !p.singleCopy {
		return fmt.Errorf("an invalid invitation to write %d bytes of a transfer of %d with counter %d", n, len(out.data), which>>32)
	}
	out.busy = true
	b.add(func() { p.write(t, out, addr, int(which>>32), uint32(which)) })
	return nil
}

// write makes the sender's copies.
func (p *peer) write(t transferKey, out *outgoing, addr uint64, which int, generation uint32) {
	b := &p.e.bulk
	last, err := p.copyChunks(&p.out.ctl.counters[which], generation, out.data, addr, writePeer)
	b.mu.Lock()
	out.busy = false
	over := out.over
	b.mu.Unlock()
	switch {
	case over:
		b.endOut(t, out.err)
	case last:
		b.endOut(t, nil)
		p.sendControl(kindOver, t.key, 1)
	case err != nil:
		p.copyFailed("writing", err)
	}
}

// endOut ends an outgoing transfer once: now, or when this side has stopped copying.
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
	if b.drained != nil && len(b.out) == 0 {
		close(b.drained)
		b.drained = nil
	}
	b.mu.Unlock()
	out.done(err)
}

// over handles the peer's report that a transfer has ended.
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
		return errors.New("the end of a transfer that is not in progress")
	}
	p.endIn(t, nil)
	return nil
}

// fail ends the transfers with a peer; with all peers if p is nil.
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

// flush waits until no outgoing transfer is left. It is called once.
func (b *bulk) flush(d deadline) {
	b.mu.Lock()
	if len(b.out) == 0 {
		b.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	b.drained = drained
	b.mu.Unlock()
	d.await(drained)
}
