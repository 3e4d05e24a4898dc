// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"errors"
	"fmt"

	"weft/comm"
)

// Limits of a channel. A target has at most 2*maxEager packets of a channel in memory without
// having posted a receive for them: those of two epochs, because no rank is further in advance than
// that.
const (
	maxEager    = 8  // packets per epoch that are sent without a rendezvous
	maxInFlight = 16 // messages that comm has and has not completed, eager or not
)

// outgoing is an operation to be packed or, in the outbox, a message to be sent.
type outgoing struct {
	what    wireKind
	op      uint8
	kind    comm.Kind
	unit    int         // element size
	buf     comm.Buffer // payload
	off, n  int
	at      int // of an accumulate: bytes that are packed already
	tag     uint32
	epoch   uint64 // of a mark
	sealed  *packet
	synchro bool // of a sealed packet: by rendezvous
	marks   bool // of a sealed packet: it ends an epoch
}

// add packs and sends an operation, or appends it to the backlog.
func (ch *channel) add(x outgoing) {
	ch.mu.Lock()
	if !ch.pack(&x) {
		ch.backlog = append(ch.backlog, x)
	}
	ch.ship()
}

// answerTag returns the tag for the answer to a get. Tags of answers are odd, those of direct puts
// are even, and 0 is for packets.
func (ch *channel) answerTag() uint32 {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.lastTag++
	return ch.lastTag<<1&comm.TagUB | 1
}

// answered follows the answer to a get. It sends the gets that were packed meanwhile, so answers
// set the pace of gets.
func (ch *channel) answered() {
	ch.mu.Lock()
	ch.gets--
	if ch.filling != nil {
		ch.seal(false)
	}
	ch.ship()
}

// pack writes an operation into packets. It returns false if a part of the operation is left. The
// caller holds mu.
func (ch *channel) pack(x *outgoing) bool {
	cmd := command{what: x.what, op: x.op, kind: x.kind, tag: x.tag, off: uint64(x.off), n: uint64(x.n)}
	payload := 0
	if x.what == wirePut {
		payload = x.n
	}
	if x.what != wireAccumulate && !ch.reserve(payload) {
		return false
	}
	switch x.what {
	case wirePut:
		x.buf.CopyToBytes(ch.filling.add(cmd, x.n), 0)
	case wireAccumulate:
		for x.at < x.n {
			if !ch.reserve(min(x.n-x.at, maxElement/x.unit*x.unit)) {
				return false
			}
			n := min(x.n-x.at, ch.filling.room()/x.unit*x.unit)
			cmd.off, cmd.n = uint64(x.off+x.at), uint64(n)
			x.buf.CopyToBytes(ch.filling.add(cmd, n), x.at)
			x.at += n
		}
	case wireGet:
		ch.filling.add(cmd, 0)
		if ch.gets++; ch.gets == 1 {
			ch.seal(false)
		}
	case wireDirect:
		ch.lastTag++
		if ch.lastTag<<1&comm.TagUB == 0 {
			ch.lastTag++
		}
		x.tag = ch.lastTag << 1 & comm.TagUB
		cmd.tag = x.tag
		ch.filling.add(cmd, 0)
		ch.seal(false)
		ch.outbox = append(ch.outbox, *x)
	case wireMark:
		ch.filling.add(command{what: wireMark, op: x.op}, 0)
		ch.seal(true)
		ch.epoch, ch.eagerLeft = x.epoch+1, maxEager
	}
	return true
}

// reserve makes sure that the open packet has room for a command with n bytes of payload. It
// returns false if no packet may be opened now. The caller holds mu.
func (ch *channel) reserve(n int) bool {
	if ch.filling != nil && ch.filling.room() < n {
		ch.seal(false)
	}
	if ch.filling == nil {
		if ch.inFlight+len(ch.outbox) >= maxInFlight {
			return false
		}
		ch.filling = newPacket()
	}
	return true
}

// seal closes the open packet and moves it to the outbox. The caller holds mu.
func (ch *channel) seal(marks bool) {
	ch.seq++
	ch.filling.seal(ch.epoch, ch.seq)
	ch.outbox = append(ch.outbox, outgoing{sealed: ch.filling, synchro: ch.eagerLeft == 0, marks: marks})
	ch.filling = nil
	ch.eagerLeft = max(ch.eagerLeft-1, 0)
}

// ship sends the outbox, in order. The caller holds mu; ship unlocks it. No lock is held while comm
// is called, because comm may run the other rank's protocol there, or callbacks of this rank.
func (ch *channel) ship() {
	if ch.busy {
		ch.mu.Unlock()
		return
	}
	ch.busy = true
	for len(ch.outbox) > 0 {
		x := ch.outbox[0]
		ch.outbox[0] = outgoing{}
		ch.outbox = ch.outbox[1:]
		ch.inFlight++
		ch.mu.Unlock()
		ch.send(&x)
		ch.mu.Lock()
	}
	ch.outbox = nil
	ch.busy = false
	ch.mu.Unlock()
}

func (ch *channel) send(x *outgoing) {
	c := ch.ep.c
	var req *comm.Request
	switch {
	case x.sealed == nil:
		// Synchronous: a payload that arrives before the target has handled its command must not be
		// copied there.
		req = c.Issend(x.buf, ch.rank, int(x.tag))
	case x.synchro:
		req = c.Issend(comm.Raw(x.sealed.bytes(), comm.Byte), ch.rank, packetTag)
	default:
		req = c.Isend(comm.Raw(x.sealed.bytes(), comm.Byte), ch.rank, packetTag)
	}
	if x.marks {
		ch.ep.end(nil)
	}
	// Peek, because Test runs callbacks: the caller of Put may hold a lock that they take.
	if ok, _, err := req.Peek(); ok {
		ch.sent(x, err)
		return
	}
	y := *x
	req.OnDone(func(err error) { ch.sent(&y, err) })
}

const packetTag = 0

// sent follows the completion of a message. It packs as much of the backlog as fits now.
func (ch *channel) sent(x *outgoing, err error) {
	if err != nil {
		ch.ep.lose(ch, err)
	}
	if x.sealed != nil {
		packets.Put(x.sealed)
	} else {
		ch.ep.end(nil)
	}
	ch.mu.Lock()
	ch.inFlight--
	for len(ch.backlog) > 0 && ch.pack(&ch.backlog[0]) {
		ch.backlog[0] = outgoing{}
		ch.backlog = ch.backlog[1:]
	}
	if len(ch.backlog) == 0 {
		ch.backlog = nil
	}
	ch.ship()
}

// listen posts the standing receive and handles the messages that have arrived, on the calling
// goroutine. It returns when no message is left, or when the next message has to wait for a fence
// of this rank.
func (ch *channel) listen() {
	ep := ch.ep
	marked := false
	for {
		req := ep.c.Irecv(comm.Raw(ch.in.memory(), comm.Byte), ch.rank, packetTag)
		ep.mu.Lock()
		ch.req = req
		closed := ep.closed
		ep.mu.Unlock()
		if closed {
			req.Cancel() // close has not seen this receive
			break
		}
		done, st, err := req.Peek()
		if !done {
			req.OnDone(func(err error) { ch.resume(ch.arrived(req.Status(), err)) })
			break
		}
		mark, more := ch.arrived(st, err)
		marked = marked || mark
		if !more {
			break
		}
	}
	if marked {
		ep.mu.Lock()
		ep.settle()
	}
}

// resume listens again after a message, if more is true. It posts the receive before it lets a
// fence complete, whose callbacks may take long.
func (ch *channel) resume(mark, more bool) {
	if !more {
		return
	}
	ch.listen()
	if mark {
		ch.ep.mu.Lock()
		ch.ep.settle()
	}
}

// arrived handles the message of the standing receive. mark reports whether the message ended the
// rank's epoch; more, whether the next receive may be posted.
func (ch *channel) arrived(st comm.Status, err error) (mark, more bool) {
	switch {
	case err == nil:
		ch.in.n = st.Bytes
		return ch.handle()
	case errors.Is(err, comm.ErrTruncated):
		ch.ep.protocolError(ch, fmt.Errorf("a message of %d bytes; a packet has %d or less", st.Bytes, packetBytes))
	case !errors.Is(err, comm.ErrCancelled):
		ch.ep.lose(ch, err)
	}
	return false, false
}

// handle carries out a packet, or holds the packet if it belongs to the next epoch.
func (ch *channel) handle() (mark, more bool) {
	ep := ch.ep
	epoch, seq, commands, err := parsePacket(ch.in.bytes())
	if err == nil && seq != ch.inSeq+1 {
		err = fmt.Errorf("packet %d after packet %d", seq, ch.inSeq)
	}
	if err != nil {
		ep.protocolError(ch, err)
		return false, false
	}
	ep.mu.Lock()
	now, marked, lost := ep.epoch, ch.marked, ch.lost
	held := epoch == now+1 && marked
	ch.held = held
	ep.mu.Unlock()
	if epoch != now || marked {
		// Fences do not wait for a lost rank, so its earlier packets may arrive late.
		if !held && !lost {
			ep.protocolError(ch, fmt.Errorf("a packet of epoch %d in epoch %d", epoch, now))
		}
		return false, false
	}
	ch.inSeq = seq
	var fence uint8 // of a mark
	for len(commands) > 0 {
		var cmd command
		var data []byte
		if cmd, data, commands, err = nextCommand(commands, len(ep.mem)); err == nil {
			err = ch.perform(&cmd, data)
		}
		if err != nil {
			ep.protocolError(ch, err)
			return false, false
		}
		mark, fence = cmd.what == wireMark, cmd.op
	}
	if mark {
		ep.mu.Lock()
		if !ch.lost {
			ch.marked, ch.fence = true, fence
			ep.marks++
		}
		ep.mu.Unlock()
	}
	return mark, true
}

// perform carries out one command, which nextCommand has checked.
func (ch *channel) perform(cmd *command, data []byte) error {
	ep := ch.ep
	switch cmd.what {
	case wirePut:
		copy(ep.mem[cmd.off:], data)
	case wireAccumulate:
		ep.lock.Lock()
		defer ep.lock.Unlock()
		return Apply(ep.mem[cmd.off:cmd.off+cmd.n], comm.Raw(data, cmd.kind), wireOps[cmd.op])
	case wireGet:
		ep.begin()
		ep.c.Isend(comm.Raw(ep.mem[cmd.off:cmd.off+cmd.n], comm.Byte), ch.rank, int(cmd.tag)).OnDone(ep.end)
	case wireDirect:
		ep.begin()
		req := ep.c.Irecv(comm.Raw(ep.mem[cmd.off:cmd.off+cmd.n], comm.Byte), ch.rank, int(cmd.tag))
		req.OnDone(func(err error) {
			if st := req.Status(); err == nil && uint64(st.Bytes) != cmd.n {
				err = fmt.Errorf("%d bytes for a put of %d", st.Bytes, cmd.n)
				ep.protocolError(ch, err)
			}
			ep.end(err)
		})
	}
	return nil
}
