// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
	"weft/internal/launch"
)

// transmit sends a message to a rank of another process. It returns an error if nothing was sent.
// If the message uses rendezvous, the operation from ends by itself later; otherwise from stays the
// caller's.
func (f *remote) transmit(p *proc, h *wire.Header, data []byte, from *sendOp, dst int) error {
	if h.Proto == wire.Eager {
		var blk *mem.Block
		if from != nil {
			blk = mem.NewBlock(int(h.Length))
			from.buf.CopyToBytes(blk.B, 0)
			data = blk.B
		}
		err := p.frame(dst, fabric.Frame{Head: h.Pack(), Data: data})
		if blk != nil {
			blk.Free()
		}
		if p.awaitCause(dst, err, nil) {
			return nil // as if the message had arrived and no receive had come
		}
		return p.sendError(dst, err)
	}
	from.remote = dst
	// from may be reused once the RTS is sent
	c, peer, collective := from.c, from.dst, from.waiter == aSchedule
	id, err := f.addSend(from)
	if err != nil {
		return err
	}
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], id)
	err = p.frame(dst, fabric.Frame{Head: h.Pack(), Data: number[:]})
	if p.awaitCause(dst, err, nil) {
		return nil // it is in f.sends, so kill ends it
	}
	if err = p.sendError(dst, err); err == nil {
		err = p.interrupted(c, peer, collective)
	}
	if err != nil && f.withdraw(id) {
		return err
	}
	return nil
}

// isOwnError reports whether an error is one of this package's, with which a transfer was given up.
func isOwnError(err error) bool {
	return errors.Is(err, ErrPeerLost) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrMismatch)
}

// sendError turns a fabric's error, of a transfer with rank dst of the run, into one of this
// package's.
func (p *proc) sendError(dst int, err error) error {
	if err == nil {
		return nil
	}
	if a := p.world.aborted.Load(); a != nil {
		return a
	}
	if isOwnError(err) {
		return err
	}
	lost := &LostError{Rank: dst, Err: err}
	p.world.blameSuspect(p, lost)
	return lost
}

func (f *remote) addSend(op *sendOp) (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead != nil {
		return 0, f.dead
	}
	if f.sends == nil {
		f.sends = make(map[uint64]*sendOp)
	}
	f.last++
	f.sends[f.last] = op
	return f.last, nil
}

// withdraw takes back a send that no CTS has come for; false if another goroutine ends it.
func (f *remote) withdraw(id uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, ok := f.sends[id]
	if ok {
		f.withdrawLocked(id, op.remote)
	}
	return ok
}

// sendCTS answers the RTS of message id, which op has matched: it asks the sender, rank src of the
// run, for the payload. It returns true if op has its result, and then the caller ends op;
// otherwise op ends by itself when the payload is here.
func (op *recvOp) sendCTS(p *proc, h *wire.Header, src int, id uint64) bool {
	op.st, op.err = statusOf(h), nil
	if n := op.c.counter; n != nil {
		n.Receive(int(h.Src), h.Length)
	}
	if ev := p.ev; ev != nil {
		op.recordMatch(ev, h)
	}
	want := h.Length
	if err := op.check(h); err != nil {
		op.err, want = op.fail(err), 0
	} else if room := uint64(op.buf.Bytes()); want > room {
		op.err, want = op.fail(fmt.Errorf("%w: %d bytes into %d", ErrTruncated, h.Length, room)), room
	}
	if want == 0 {
		_ = p.frame(src, fabric.Frame{Head: [fabric.HeadWords]uint64{id, 0, 0, wire.CTS.Word(), 0}})
		return true
	}
	t := &transfer{op: op, src: src}
	c, collective := op.c, op.waiter == aSchedule // op may be reused once the payload is here
	f := &p.remote
	f.mu.Lock()
	if f.dead != nil {
		op.err = op.fail(f.dead)
		f.mu.Unlock()
		return true
	}
	if f.transfers == nil {
		f.transfers = make(map[uint64]*transfer)
	}
	f.last++
	number := f.last
	f.transfers[number] = t
	f.mu.Unlock()
	dst, ok := op.buf.Contiguous()
	if !ok {
		t.blk = mem.NewBlock(int(want))
		dst = t.blk.B
	}
	p.ep.Expect(src, number, dst[:want], func(err error) { f.arrived(p, number, t, err) })
	err := p.frame(src, fabric.Frame{Head: [fabric.HeadWords]uint64{id, number, 0, wire.CTS.Word(), want}})
	if err == nil {
		// A failure between adding the transfer and Expect has found nothing to forget in the
		// fabric.
		err = p.interrupted(c, int(h.Src), collective)
	}
	if err != nil {
		f.mu.Lock()
		t.why = cmp.Or(t.why, err)
		f.mu.Unlock()
		f.forget(p, number, t, err)
	}
	return false
}

// forget ends a transfer that was given up with err. While the fabric writes a piece of the
// payload, the fabric itself ends the transfer, after that piece.
func (f *remote) forget(p *proc, number uint64, t *transfer, err error) {
	if p.ep.Forget(t.src, number) {
		f.arrived(p, number, t, err)
	}
}

// arrived ends a transfer: its payload is here, or never will be. It is called once.
func (f *remote) arrived(p *proc, number uint64, t *transfer, err error) {
	f.mu.Lock()
	delete(f.transfers, number)
	dead := f.dead
	if err != nil && t.why != nil {
		err = t.why // the fabric reports only that this side has given up: its peer is not lost
	}
	f.mu.Unlock()
	op := t.op
	if p.awaitCause(t.src, err, func(err error) { f.arrived(p, number, t, err) }) {
		return
	}
	switch {
	case err == nil && t.blk != nil:
		op.buf.CopyFromBytes(t.blk.B, 0)
	case err != nil && dead != nil:
		op.err = op.fail(dead)
	case err != nil:
		op.err = op.fail(p.sendError(t.src, err))
	}
	if t.blk != nil {
		t.blk.Free()
	}
	op.done()
}

// receiveCTS handles a receiver's CTS for the send id: it asks for n bytes, under its transfer
// number.
func (f *remote) receiveCTS(p *proc, src int, id, number, n uint64) error {
	f.mu.Lock()
	op := f.sends[id]
	if op == nil || op.remote != src {
		dst, known := f.withdrawn[id]
		known = known && dst == src
		if known {
			delete(f.withdrawn, id)
		}
		known = known || f.dead != nil
		f.mu.Unlock()
		if known {
			return nil // the receiver knows, or will soon, what this side knows
		}
		return fmt.Errorf("it asks for the message %d, which was not announced to it", id)
	}
	if n > uint64(op.buf.Bytes()) {
		f.mu.Unlock()
		return fmt.Errorf("it asks for %d bytes of a message of %d", n, op.buf.Bytes())
	}
	delete(f.sends, id)
	f.mu.Unlock()
	if n == 0 {
		op.done(nil)
		return nil
	}
	var blk *mem.Block
	data, ok := op.buf.Contiguous()
	if !ok {
		blk = mem.NewBlock(op.buf.Bytes())
		op.buf.CopyToBytes(blk.B, 0)
		data = blk.B
	}
	p.push(src, number, data[:n], func(err error) {
		if blk != nil {
			blk.Free()
		}
		if p.awaitCause(src, err, func(err error) { op.done(op.fail(err)) }) {
			return
		}
		if err != nil {
			err = op.fail(p.sendError(src, err))
		}
		op.done(err)
	})
	return nil
}

// kill ends all transfers with err. A transfer whose payload is being written ends after that.
func (f *remote) kill(p *proc, err error) {
	f.mu.Lock()
	f.dead = err
	sends := f.sends
	f.sends = nil
	awaiting := f.awaiting
	f.awaiting = nil
	pulls := maps.Clone(f.transfers)
	f.mu.Unlock()
	for _, op := range sends {
		op.done(op.fail(err))
	}
	for number, t := range pulls {
		f.forget(p, number, t, err)
	}
	for _, end := range awaiting {
		end(err)
	}
}

// Deliver takes a frame from a rank of another process. A frame that breaks the protocol makes its
// sender a lost rank: the sender is broken, or is no rank of this run.
func (p *proc) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	if s := &p.direct; s.polled != nil && s.polled[src] && s.active && s.take(src, f) {
		return true
	}
	if kind := wire.Protocol(f.Head[3] >> 8); kind == wire.BlockedReport || kind == wire.BlockedQuery {
		p.world.receiveDeadlockFrame(src, f)
		return false
	}
	if p.world.multiProcess {
		defer p.traffic.received.Add(1) // after the frame has had its effect
	}
	if err := p.deliver(src, f); err != nil {
		p.reportLoss(src, fmt.Errorf("%w: %w", errFrame, err))
	}
	return false
}

func (p *proc) deliver(src int, f *fabric.Frame) error {
	if int(f.Target) != p.rank {
		return fmt.Errorf("it is for rank %d", f.Target)
	}
	if p.failure.Load().lostRank(src) != nil {
		return nil // others may know it as lost: nothing that it sends counts any more
	}
	switch proto := wire.Protocol(f.Head[3] >> 8); proto {
	case wire.Eager, wire.RTS:
		var h wire.Header
		h.Unpack(&f.Head)
		if err := p.admit(&h, src, f.Data); err != nil {
			return err
		}
		if proto == wire.Eager {
			p.arrive(&h, f.Data, nil)
			return nil
		}
		p.receiveRTS(&h, src, binary.LittleEndian.Uint64(f.Data))
		return nil
	case wire.CTS:
		return p.remote.receiveCTS(p, src, f.Head[0], f.Head[1], f.Head[4])
	case wire.Ending:
		text := string(f.Data[:min(len(f.Data), maxReason)])
		switch {
		case f.Head[0] >= uint64(p.world.size) || f.Head[1] > endDeadlock:
			return fmt.Errorf("it says that the run ends because of rank %d (%d)", f.Head[0], f.Head[1])
		case f.Head[1] == endDeadlock: // all ranks hear of it from one rank
			p.world.endHere(&remoteDeadlock{text}, false)
		default:
			p.world.end(remoteCause(int(f.Head[0]), f.Head[1] == endLost, text))
		}
		return nil
	case wire.Nudging:
		p.mapped.receiveNudge(f.Head[0])
		return nil
	case wire.Comparing:
		return p.receiveQuestion(src, f)
	case wire.Answering:
		if a := p.answers.Load(); a != nil {
			a.Take(src)
		}
		return nil
	case wire.Disagreeing:
		d, err := disagreementOf(f)
		if err == nil {
			if p.recordDisagreement(f.Head[0], d) && p.world.survive {
				p.spreadDisagreement(f.Head[0], d, nil)
			}
			if p.world.at(src) == nil { // a rank of this process calls Progress itself
				p.world.segments.Progress()
			}
		}
		return err
	case wire.FailureNotice:
		return p.receiveFailureNotice(src, f)
	case wire.Revoking:
		ranks, err := wire.UnpackGroup(f.Data, p.world.size)
		if err != nil || f.Head[0]&1 != 0 {
			return fmt.Errorf("it revokes the communicator %d of a group in %d bytes", f.Head[0], len(f.Data))
		}
		p.spreadRevocation(f.Head[0], ranks, append([]byte(nil), f.Data...))
		return nil
	case wire.Agreeing:
		return p.receiveAgreement(src, f)
	default:
		return fmt.Errorf("it sends a frame of the unknown kind %d", proto)
	}
}

// admit checks a header that another process has written.
func (p *proc) admit(h *wire.Header, src int, data []byte) error {
	switch {
	case h.Elem >= mem.NumKinds:
		return fmt.Errorf("it sends elements of the unknown kind %d", h.Elem)
	case h.Src < 0 || int(h.Src) >= p.world.size || h.Tag < 0:
		return fmt.Errorf("it sends as rank %d with tag %d", h.Src, h.Tag)
	case h.Proto == wire.Eager && h.Length != uint64(len(data)):
		return fmt.Errorf("it sends %d bytes and says that they are %d", len(data), h.Length)
	case h.Proto == wire.RTS && len(data) != 8:
		return fmt.Errorf("it announces a message in %d bytes, not 8", len(data))
	case h.Length > maxLength:
		return fmt.Errorf("it announces a message of %d bytes", h.Length)
	}
	return nil
}

// receiveRTS handles the RTS of a message: its payload is at rank src of the run, under that rank's
// number id.
func (p *proc) receiveRTS(h *wire.Header, src int, id uint64) {
	key := h.Key()
	p.mu.Lock()
	if t := p.failure.Load(); t != nil && (p.refuses(t, h, nil) != nil || t.lostRank(src) != nil) {
		p.mu.Unlock()
		return
	}
	if e := p.m.Take(key); e != nil {
		p.mu.Unlock()
		if op := opOf(e); op.sendCTS(p, h, src, id) {
			op.done()
		}
		return
	}
	msg := messages.Get().(*message)
	msg.h = *h
	msg.remote, msg.id = src+1, id
	msg.entry.Key = key
	p.file(h, msg)
}

// maxLength bounds the payload of a message.
const maxLength = 1 << 48

// The second word of the frame that ends a run: what the cause is.
const (
	endLost     = 1 // the loss of the rank in the first word
	endDeadlock = 2
)

// tellEnd tells all ranks of other processes why the run ends.
func (p *proc) tellEnd(cause error) {
	rank, lost, text := rootOf(cause, p.rank)
	head := [fabric.HeadWords]uint64{0: uint64(rank), 3: wire.Ending.Word()}
	switch {
	case errors.Is(cause, ErrDeadlock):
		head[1], text = endDeadlock, cause.Error()
		text = text[:min(len(text), maxReason)]
	case lost:
		head[1] = endLost
	}
	p.tellRemote(fabric.Frame{Head: head, Data: []byte(text)})
}

// rootOf returns what others must know of the cause of a run's end: the rank with which it began,
// whether that rank is lost, and a reason in one sentence. self is the rank that tells, with which
// the end began if the cause names no other. The stack of a panic stays in that rank's own error.
func rootOf(cause error, self int) (rank int, lost bool, text string) {
	rank = self
	for {
		if of, ok := cause.(*RankError); ok {
			rank, cause = of.Rank, of.Err
			continue
		}
		break
	}
	switch err := cause.(type) {
	case *LostError:
		rank, lost, cause = err.Rank, true, err.Err
		if d, ok := cause.(*launch.Death); ok && d.Rank == rank {
			cause = errors.New(d.How)
		}
		text = cause.Error()
	case *Error:
		text = err.text(rank)
	default:
		text = err.Error()
	}
	text, _, _ = strings.Cut(text, "\n\ngoroutine ")
	return rank, lost, text[:min(len(text), maxReason)]
}

// remoteCause is the cause of a run's end that another process has told.
func remoteCause(rank int, lost bool, text string) *RankError {
	var err error = &RemoteError{Text: text}
	if lost {
		err = &LostError{Rank: rank, Err: err}
	}
	return &RankError{Rank: rank, Err: err}
}

// Is matches ErrMismatch, which is the error of all ranks, if the text contains it.
func (e *RemoteError) Is(target error) bool {
	return target == ErrMismatch && strings.Contains(e.Text, ErrMismatch.Error())
}

// receiveQuestion handles a question: another rank's history, to be compared with this rank's.
func (p *proc) receiveQuestion(src int, f *fabric.Frame) error {
	q, err := coll.QuestionOf(int(f.Head[1]), f.Head[2], f.Head[3]&askCertain != 0, f.Data)
	if err != nil {
		return err
	}
	switch c := p.findComm(f.Head[0], &q); {
	case c != nil:
		if uint(q.From) >= uint(c.size) || c.worldRank(q.From) != src {
			return fmt.Errorf("it compares collectives as rank %d of others", q.From)
		}
		c.hist.compare(q)
		if f.Head[3]&askAnswer != 0 && p.ended.Load() {
			c.hist.missing() // both functions have returned
		}
	case q.Certain: // the communicator is gone at this rank
		d := disagreement{err: fmt.Errorf("%w: rank %d has made other collectives before number %d of the communicator", ErrMismatch, p.rank, q.Count)}
		_ = p.frame(src, d.frame(f.Head[0]))
	}
	if f.Head[3]&askAnswer != 0 {
		_ = p.frame(src, fabric.Frame{Head: [fabric.HeadWords]uint64{3: wire.Answering.Word()}})
	}
	return nil
}
