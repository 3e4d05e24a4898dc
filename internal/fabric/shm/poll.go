//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"slices"

	"weft/internal/fabric"
)

// batch is how many frames of one peer a poll takes before it goes on to the next peer.
const batch = 32

// The bits of the doorbell word. At zero, the next producer rings: package comment, "The states of
// an inbox".
const (
	wordRung     = 1 << iota // a producer has rung, and the doorbell goroutine is not up yet
	wordDisarmed             // a goroutine polls
)

// The endpoint is a source of its rank's engine.

// Costs returns no costs: a poll is a few loads, and to arm is one addition and a few loads.
func (e *Endpoint) Costs() fabric.Costs { return fabric.Costs{} }

// Arm changes the doorbell word: whether producers must ring. (R1, R2)
func (e *Endpoint) Arm(on bool, _ fabric.Leaving) fabric.Armed {
	if !on {
		e.disarm()
		return fabric.ArmedFully
	}
	if e.armAndCheck() {
		return fabric.SomethingHere
	}
	return fabric.ArmedFully
}

// armAndCheck ends polling. It reports whether there is work that no goroutine would come for. If
// the doorbell was rung, the doorbell goroutine comes.
func (e *Endpoint) armAndCheck() bool {
	return e.arm() == 0 && e.flushAndCheck() //bug:R2
}

// arm clears wordDisarmed, and returns the doorbell word.
func (e *Endpoint) arm() uint32 {
	word := &e.box.head.doorbellWord
	if !e.disarmed {
		return word.Load()
	}
	e.disarmed = false
	return word.Add(^uint32(wordDisarmed - 1))
}

// disarm sets wordDisarmed. The caller has the turn to poll.
func (e *Endpoint) disarm() {
	if !e.disarmed {
		e.disarmed = true
		e.box.head.doorbellWord.Add(wordDisarmed)
	}
}

// RingDoorbell wakes the doorbell goroutine as a peer does (W2), unless it is on its way.
func (e *Endpoint) RingDoorbell() {
	if e.box.head.doorbellWord.CompareAndSwap(0, wordRung) {
		e.doorbell.ring()
	}
}

// Waits reports whether copies are queued for Work.
func (e *Endpoint) Waits() bool { return e.bulk.queued.Load() > 0 }

// Midway reports whether frames are queued, or pieces of a transfer are expected.
func (e *Endpoint) Midway() bool { return e.pending.Load() > 0 || e.expected.Waiting() }

// doorbellLoop is the doorbell goroutine: it has frames delivered when no goroutine polls. It ends
// when the endpoint is closed.
func (e *Endpoint) doorbellLoop() {
	for e.doorbell.wait() == nil && !e.closed.Load() {
		e.box.head.doorbellWord.And(^uint32(wordRung)) //bug:S1
		e.progress.Ring(e)                             //bug:S1
	}
}

// hasWork reports whether a poll may find something to do.
func (e *Endpoint) hasWork() bool { return e.hasArrivals() || e.pending.Load() > 0 }

// hasArrivals reports whether there is a frame, a new producer or a dead peer, in as few loads as
// possible.
func (e *Endpoint) hasArrivals() bool {
	for _, p := range e.active {
		if p.in.ready() {
			return true
		}
	}
	return e.box.head.joins.Load() != e.joins || e.deaths.Load() > 0
}

// flushAndCheck moves queued frames, and then is hasArrivals. The caller has the turn to poll.
func (e *Endpoint) flushAndCheck() bool {
	if e.pending.Load() > 0 {
		e.flush()
	}
	return e.hasArrivals()
}

// Poll delivers frames and moves queued ones, and reports whether it did anything. It returns early
// when Deliver reports that the frame that the caller waits for has arrived.
func (e *Endpoint) Poll(patient bool) (did bool) {
	n := pollChecks
	if patient {
		n = patientChecks
	}
	for !e.hasWork() {
		if n--; n == 0 {
			return false
		}
	}
	e.disarm()
	if n := e.box.head.joins.Load(); n != e.joins {
		e.join(n)
		did = true
	}
	f, ranks := &e.frame, int32(len(e.peers.All()))
	gone := false
	for _, p := range e.active {
		for range batch {
			if p.gone.Load() {
				break
			}
			kind, n, err := p.in.get(f)
			if kind == 0 && err == nil {
				break
			}
			did = true
			met := false
			switch {
			case err != nil:
			case kind == kindFrame:
				if max(f.Origin, f.Target) < ranks {
					met = e.handler.Deliver(f)
				} else {
					err = f.Between(int(ranks))
				}
			default:
				err = p.handleControl(kind, f)
			}
			if err != nil {
				p.lose(err)
			}
			if p.in.done(n) { //bug:C4
				p.ringForRoom()
			}
			if met { //bug:C4
				return true
			}
		}
		gone = gone || p.gone.Load()
	}
	if e.deaths.Load() > 0 {
		e.handleDeaths()
		did, gone = true, true
	}
	if gone {
		e.active = slices.DeleteFunc(e.active, func(p *peer) bool { return p.gone.Load() })
	}
	if e.pending.Load() > 0 {
		did = e.flush() || did
	}
	return did
}

// join adds the new producers to active, and connects with them. n is the value of joins that the
// caller has loaded. The caller has the turn to poll.
func (e *Endpoint) join(n uint32) {
	e.joins = n
	for _, p := range e.peers.All() {
		if !p.joined && e.box.control(p.rank).joined.Load() != 0 {
			p.joined = true
			p.in = e.box.incoming(p.rank)
			p.in.prepare(len(e.peers.All()))
			e.active = append(e.active, p)
			p.connectBack()
		}
	}
}

// handleDeaths loses the dead peers whose last frames are delivered. The caller has the turn to
// poll.
func (e *Endpoint) handleDeaths() {
	for _, p := range e.peers.All() {
		if p.dead.Load() && !p.deathHandled {
			if !p.joined { //bug:death-before-join
				// The peer may have connected and sent since the poll loaded joins.
				e.join(e.box.head.joins.Load())
			}
			if p.joined && !p.gone.Load() && p.in.ready() { //bug:death
				continue // until a later poll has delivered its frames
			}
			p.deathHandled = true
			e.deaths.Add(-1)
			p.lose(fmt.Errorf("its process %d has ended", p.pid))
		}
	}
}

// flush moves queued frames to rings that have room, and reports whether it moved any. The caller
// has the turn to poll.
func (e *Endpoint) flush() (did bool) {
	for _, p := range e.peers.All() {
		if p.queued.Load() {
			did = p.flush() || did
		}
	}
	return did
}

// Drop ends everything with a peer that the layer above knows to be lost. The peer's inbox stays
// mapped until the endpoint is closed: another goroutine may be reading it.
func (e *Endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil && peer != e.cfg.Rank && e.bound.Load() && !e.closed.Load() {
		p.lose(err)
		e.doorbell.ring() // whatever the doorbell word is: package comment, "Loss"
	}
}
