//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"slices"

	"weft/internal/fabric"
)

// batch is how many frames of one peer are taken before those of the next.
const batch = 32

// The bits of the look word. At zero, this rank is to be woken for what comes: package comment,
// "Who polls".
const (
	lookRung  = 1 << iota // somebody has written to the pipe, and the sleeper is not up yet
	lookAwake             // somebody polls
)

// The endpoint is a source of its rank's engine.

// Costs: a poll is some loads, and so is arming.
func (e *Endpoint) Costs() fabric.Costs { return fabric.Costs{} }

// Arm says in the look word whether this rank is to be woken. (R1, R2)
func (e *Endpoint) Arm(on bool, _ fabric.Leaving) fabric.Armed {
	if !on {
		e.awake()
		return fabric.ArmedFully
	}
	if e.isLeft() {
		return fabric.SomethingHere
	}
	return fabric.ArmedFully
}

// isLeft is the end of polling. It reports whether something is here that nobody would come for; if
// this rank was rung, the sleeper comes.
func (e *Endpoint) isLeft() bool {
	return e.asleep() == 0 && e.ready() //bug:R2
}

// asleep takes back what awake has said, and returns the look word.
func (e *Endpoint) asleep() uint32 {
	look := &e.box.head.look
	if !e.isAwake {
		return look.Load()
	}
	e.isAwake = false
	return look.Add(^uint32(lookAwake - 1))
}

// awake says that this rank is not to be woken. The caller polls.
func (e *Endpoint) awake() {
	if !e.isAwake {
		e.isAwake = true
		e.box.head.look.Add(lookAwake)
	}
}

// Knock wakes the sleeper, as a peer does. (W2)
func (e *Endpoint) RingDoorbell() {
	if e.box.head.look.CompareAndSwap(0, lookRung) {
		e.bell.ring()
	}
}

// Waits reports whether copies are to be made.
func (e *Endpoint) Waits() bool { return e.bulk.waits.Load() > 0 }

// Midway reports whether pieces of a transfer are to come, or to go.
func (e *Endpoint) Midway() bool { return e.pending.Load() > 0 || e.expected.Waiting() }

// sleeper has what has come delivered when nobody polls. It ends when the endpoint is closed.
func (e *Endpoint) sleeper() {
	for e.bell.wait() == nil && !e.closed.Load() {
		e.box.head.look.And(^uint32(lookRung)) //bug:S1
		e.progress.Ring(e)                     //bug:S1
	}
}

// stirs reports whether a poll may find something.
func (e *Endpoint) stirs() bool { return e.news() || e.pending.Load() > 0 }

// news reports whether something has come, in as few loads as that can be.
func (e *Endpoint) news() bool {
	for _, p := range e.active {
		if p.in.ready() {
			return true
		}
	}
	return e.box.head.joins.Load() != e.joins || e.deaths.Load() > 0
}

// ready reports whether there is something to do. The caller has the turn to poll.
func (e *Endpoint) ready() bool {
	if e.pending.Load() > 0 {
		e.flush()
	}
	return e.news()
}

// Poll delivers what is there and reports whether it was anything. It ends when what the caller
// waits for has come.
func (e *Endpoint) Poll(patient bool) (did bool) {
	n := looks
	if patient {
		n = patientLooks
	}
	for !e.stirs() {
		if n--; n == 0 {
			return false
		}
	}
	e.awake()
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
				err = p.take(kind, f)
			}
			if err != nil {
				p.lose(err)
			}
			if p.in.done(n) { //bug:C4
				p.rouse()
			}
			if met { //bug:C4
				return true
			}
		}
		gone = gone || p.gone.Load()
	}
	if e.deaths.Load() > 0 {
		e.bury()
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

// join finds the producers that have come. The caller has the turn to poll.
func (e *Endpoint) join(n uint32) {
	e.joins = n
	for _, p := range e.peers.All() {
		if !p.joined && e.box.control(p.rank).joined.Load() != 0 {
			p.joined = true
			p.in = e.box.incoming(p.rank)
			p.in.prepare(len(e.peers.All()))
			e.active = append(e.active, p)
			p.meet()
		}
	}
}

// bury ends the peers whose processes have ended. What they have sent before is delivered. The
// caller has the turn to poll.
func (e *Endpoint) bury() {
	for _, p := range e.peers.All() {
		if p.dead.Load() && !p.buried {
			if !p.joined { //bug:death-of-stranger
				e.join(e.box.head.joins.Load()) // it may have come, and sent, since poll has looked
			}
			if p.joined && !p.gone.Load() && p.in.ready() { //bug:death
				continue // poll comes again
			}
			p.buried = true
			e.deaths.Add(-1)
			p.lose(fmt.Errorf("its process %d has ended", p.pid))
		}
	}
}

// flush moves frames that have waited for room, and reports whether there were any. The caller has
// the turn to poll.
func (e *Endpoint) flush() (did bool) {
	for _, p := range e.peers.All() {
		if p.queued.Load() {
			did = p.flush() || did
		}
	}
	return did
}

// Drop ends everything with a peer, which the layer above knows to be lost. Its memory stays mapped
// until the endpoint is closed: somebody may be looking at it.
func (e *Endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil && peer != e.cfg.Rank && e.bound.Load() && !e.closed.Load() {
		p.lose(err)
		e.bell.ring() // whatever the look word says: package comment, "Loss"
	}
}
