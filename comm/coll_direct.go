// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"weft/comm/internal/coll"
)

// onlyMessages makes runs that begin from now on do collectives by messages also in one process. For tests.
var onlyMessages atomic.Bool

// direct returns how this communicator's hub does a collective, if it does.
func (c *Comm) direct(d *coll.Call) bool {
	h := c.hub
	if h == nil {
		return false
	}
	d.Large = d.InPlaces(h.size) > inlineMax
	if !d.Large && h.size > flatRanks {
		return false
	}
	if d.Large {
		d.Total = pieces(d, h.size)
	}
	return true
}

// meet is a blocking collective at the hub.
func (c *Comm) meet(d *coll.Call) error {
	h := c.hub
	if err := c.barredHere(); err != nil {
		return c.failColl(d.What, err)
	}
	id := uint64(0)
	if c.proc.ev != nil {
		id = c.meets(d)
	}
	var err error
	if seq := h.enter(c, d, nil); seq != 0 {
		_, err = h.run(c, d, seq, true)
	} else {
		err = wait(c.meetAs(c.newHubCall(d), d))
	}
	if id != 0 {
		c.met(id, err)
	}
	return err
}

// barredHere returns why a collective cannot go on, nil if nothing is in its way.
func (c *Comm) barredHere() error {
	if !c.world.troubled.Load() {
		return nil
	}
	return c.trouble(NoPeer, true)
}

// failColl is the error of a collective.
func (c *Comm) failColl(what coll.Collective, err error) error {
	if errors.Is(err, ErrMismatch) {
		if d := c.disagreement(c.proc.trouble.Load()); d != nil {
			d.heard.Store(true)
		}
	}
	if step, ok := err.(*Error); ok {
		err = step.Err // of one of its messages, which the program knows nothing of
	}
	peer := what.Root()
	if peer < 0 {
		peer = NoPeer
	}
	return c.fail(what.Name(), peer, NoPeer, err)
}

// meetLater starts a collective at the hub.
func (c *Comm) meetLater(d *coll.Call) *Request {
	if err := c.barredHere(); err != nil {
		return doneRequest(Status{}, c.failColl(d.What, err))
	}
	x := c.newHubCall(d)
	if ev := c.proc.ev; ev != nil {
		x.begins(ev)
	}
	return c.meetAs(x, d)
}

func (c *Comm) newHubCall(d *coll.Call) *hubCall {
	x := &hubCall{c: c, what: d.What}
	x.calls, x.engine, x.owner = c.proc.calls, c.proc.engine, x
	return x
}

func (c *Comm) meetAs(x *hubCall, d *coll.Call) *Request {
	if seq := c.hub.enter(c, d, &x.Request); seq != 0 {
		c.hub.run(c, d, seq, false)
	}
	return &x.Request
}

// hubCall is a request at the hub, which it keeps alive. It cannot be withdrawn.
type hubCall struct {
	Request
	c    *Comm
	what coll.Collective
}

func (*hubCall) cancel() bool     { return false }
func (x *hubCall) String() string { return fmt.Sprintf("I%v at %s", x.what, x.c.place()) }

// hubKey names a communicator in a run: its context, and its first rank in the run, because all colours of a split share a
// context.
type hubKey struct {
	ctx   uint64
	first int32
}

// hubs finds the hub of a communicator for its ranks, and all hubs for the end of the run.
type hubs struct {
	mu    sync.Mutex
	fresh map[hubKey]*freshHub // guarded by mu: not all of their ranks have asked yet
	all   []weak.Pointer[hub]  // guarded by mu: those of communicators that nobody has any more are nil
}

type freshHub struct {
	hub   *hub
	asked int
}

// hub returns the hub of a communicator, or nil if its ranks are not all in this process, or there is one only. Each of its ranks
// asks once.
func (w *world) hub(ctx uint64, first int32, size int) *hub {
	if w.apart || size == 1 || !w.direct {
		return nil
	}
	w.hubs.mu.Lock()
	defer w.hubs.mu.Unlock()
	k := hubKey{ctx, first}
	f := w.hubs.fresh[k]
	if f == nil {
		f = &freshHub{hub: newHub(w, size)}
		if w.hubs.fresh == nil {
			w.hubs.fresh = map[hubKey]*freshHub{}
		}
		w.hubs.fresh[k] = f
		w.hubs.add(f.hub)
	}
	if f.asked++; f.asked == size {
		delete(w.hubs.fresh, k)
	}
	return f.hub
}

// add remembers a hub. When the list is full it is swept first, so that it stays in proportion to what is alive.
func (s *hubs) add(h *hub) {
	if len(s.all) == cap(s.all) {
		s.all = slices.DeleteFunc(s.all, func(p weak.Pointer[hub]) bool { return p.Value() == nil })
		if 2*len(s.all) > cap(s.all) {
			s.all = slices.Grow(s.all, len(s.all)+8)
		}
	}
	s.all = append(s.all, weak.Make(h))
}

// look ends what waits at the hubs and has no more to wait for, after something has gone wrong.
func (s *hubs) look() {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, p := range all {
		if h := p.Value(); h != nil {
			h.look()
		}
	}
}
