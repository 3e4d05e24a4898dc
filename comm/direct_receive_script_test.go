// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// polledEndpoint is a neighbour that is polled: scripts tell what comes while a caller receives
// directly, and what comes when it polls later.
type polledEndpoint struct {
	neighbour
	fabric.NoSource
	shared     bool // rank 1
	p          *proc
	polls      int
	script     func() bool // comes once, during a direct receive
	waits      bool        // there is work to do without the right to poll
	afterwards func()      // comes once, after a direct receive
}

func (e *polledEndpoint) Sources() []fabric.Source { return []fabric.Source{e} }
func (e *polledEndpoint) Waits() bool              { w := e.waits; e.waits = false; return w }

func (e *polledEndpoint) Caps(r int) fabric.Caps {
	return fabric.Caps{Kind: "watched", EagerLimit: 64, SharedMemory: e.shared && r == 1}
}

func (e *polledEndpoint) Poll(bool) bool {
	switch script, afterwards := e.script, e.afterwards; {
	case e.p.direct.active && script != nil:
		e.polls++
		e.script = nil
		return script()
	case !e.p.direct.active && afterwards != nil:
		e.afterwards = nil
		afterwards()
		return true
	}
	return false
}

// A blocking receive polls for its message itself if that is possible. It takes the message that it
// matches and no other, and none after a message that it must not take. For all else it uses the
// matcher.
func TestDirectReceiveScript(t *testing.T) {
	good := wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5, Length: 3}
	frame := func(change func(h *wire.Header)) *fabric.Frame {
		h := good
		change(&h)
		f := frameOfHeader(h, []byte{7, 8, 9})
		return &f
	}
	same := func(*wire.Header) {}
	rts := frame(func(h *wire.Header) { h.Proto = wire.RTS })
	rts.Data = make([]byte, 8)
	for _, row := range []struct {
		name     string
		frames   []*fabric.Frame
		src, tag int
		near     bool
		before   func(c *Comm)
		polls    int
		taken    int // which of the frames; -1: none
		enough   bool
	}{
		{"the message", []*fabric.Frame{frame(same)}, 1, 5, true, nil, 1, 0, false},
		{"another tag first", []*fabric.Frame{frame(func(h *wire.Header) { h.Tag = 6 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another source first", []*fabric.Frame{frame(func(h *wire.Header) { h.Src = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another communicator first", []*fabric.Frame{frame(func(h *wire.Header) { h.Ctx = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"a large one first", []*fabric.Frame{frame(func(h *wire.Header) { h.Proto = wire.RTS }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"an RTS first", []*fabric.Frame{rts, frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a part of a collective first", []*fabric.Frame{frame(func(h *wire.Header) { h.Aux = 1 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a wrong one first", []*fabric.Frame{frame(func(h *wire.Header) { h.Length = 2 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a failure", []*fabric.Frame{frame(same)}, 1, 5, true, func(c *Comm) { c.world.anyFailure.Store(true) }, 0, -1, true},
		{"a loss", nil, 1, 5, true, func(c *Comm) { c.proc.markLost(2, errTest) }, 0, -1, false},
		{"another receive waits", nil, 1, 5, true, func(c *Comm) { c.Irecv(Buffer{}, 2, 9) }, 0, -1, false},
		{"any source", nil, AnySource, 5, true, nil, 0, -1, false},
		{"any tag", nil, 1, AnyTag, true, nil, 0, -1, false},
		{"a rank without shared memory", nil, 1, 5, false, nil, 0, -1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := Config{Ranks: 3, Survive: true}
			_, err := cfg.validate()
			require.NoError(t, err)
			ep := &polledEndpoint{neighbour: neighbour{nowhere: nowhere{size: 3}}, shared: row.near}
			w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
			defer w.end(ErrEnded)
			c := w.comm(0)
			if row.before != nil {
				row.before(c)
			}
			ep.p = c.proc
			taken := -1
			ep.script = func() bool {
				require.Equal(t, w.anyFailure.Load(), c.proc.direct.finished())
				for i, f := range row.frames {
					if c.proc.direct.take(1, f) {
						taken = i
						break
					}
				}
				require.Equal(t, row.enough || taken >= 0, c.proc.direct.finished())
				return true
			}
			// by the matcher: the message comes now
			ep.afterwards = func() { c.proc.hear(1, *frame(same)) }
			here := c.proc.traffic.received.Load()
			in := []byte{0, 0, 0, 0}
			st, err := c.Recv(Of(in), row.src, row.tag)
			require.NoError(t, err)
			require.Equal(t, Status{Source: 1, Tag: 5, Bytes: 3}, st)
			require.Equal(t, []byte{7, 8, 9, 0}, in)
			require.Equal(t, row.taken, taken)
			require.Equal(t, row.polls, ep.polls)
			require.Equal(t, here+1, c.proc.traffic.received.Load())
			require.True(t, c.proc.engine.Enter(), "no goroutine has the right to poll")
			c.proc.engine.Leave()
			require.True(t, mem.SameMemory(mem.Buffer{}, c.proc.direct.op.buf), "the memory is released")
			require.Equal(t, row.taken >= 0, ep.afterwards != nil)
		})
	}
}

// If another goroutine polls, a receive is posted, and waits until that goroutine delivers.
func TestDirectReceiveWhileAnotherPolls(t *testing.T) {
	c, ep := newPolledEndpoint(t)
	require.True(t, c.proc.engine.Enter())
	over := make(chan error)
	go func() { over <- second(c.Recv(Buffer{}, 1, 5)) }()
	for c.world.activity() == 0 {
		runtime.Gosched()
	}
	c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5}, nil))
	require.NoError(t, <-over)
	require.Zero(t, ep.polls)
	c.proc.engine.Leave()
}

func newPolledEndpoint(t *testing.T) (*Comm, *polledEndpoint) {
	cfg := Config{Ranks: 3}
	_, err := cfg.validate()
	require.NoError(t, err)
	ep := &polledEndpoint{neighbour: neighbour{nowhere: nowhere{size: 3}}, shared: true}
	w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
	t.Cleanup(func() { w.end(ErrEnded) })
	c := w.comm(0)
	ep.p = c.proc
	return c, ep
}

// A caller that has spent its poll budget does not poll again after it has posted its receive. A
// caller that has stopped because there was work to do without the right to poll does.
func TestDirectReceiveBudget(t *testing.T) {
	for _, exhausted := range []bool{false, true} {
		c, ep := newPolledEndpoint(t)
		ep.script = func() bool { return !exhausted }
		ep.waits = !exhausted
		polled := false
		ep.afterwards = func() { polled = true }
		over := make(chan error)
		go func() { over <- second(c.Recv(Buffer{}, 1, 5)) }()
		for c.world.activity() == 0 {
			runtime.Gosched()
		}
		c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5}, nil))
		require.NoError(t, <-over)
		require.Equal(t, !exhausted, polled)
		require.True(t, c.proc.engine.Enter(), "no goroutine has the right to poll")
		c.proc.engine.Leave()
	}
}

// Messages of a rank without shared memory are not received directly, though those of another rank
// are.
func TestDirectReceiveSharedMemoryOnly(t *testing.T) {
	c, ep := newPolledEndpoint(t)
	require.Equal(t, []bool{false, true, false}, c.proc.direct.polled)
	ep.afterwards = func() {
		c.proc.hear(2, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 2, Tag: 5}, nil))
	}
	_, err := c.Recv(Buffer{}, 2, 5)
	require.NoError(t, err)
	require.Zero(t, ep.polls)
}
