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

// watched is a neighbour that is polled: a script says what comes while a caller seeks, and what
// when it looks.
type watched struct {
	neighbour
	fabric.NoSource
	near   bool // rank 1
	p      *proc
	seeks  int
	script func() bool // comes once, while a caller seeks
	waits  bool        // there is something to do without the turn
	looked func()      // comes once, later
}

func (e *watched) Sources() []fabric.Source { return []fabric.Source{e} }
func (e *watched) Waits() bool              { w := e.waits; e.waits = false; return w }

func (e *watched) Caps(r int) fabric.Caps {
	return fabric.Caps{Kind: "watched", EagerLimit: 64, SharedMemory: e.near && r == 1}
}

func (e *watched) Poll(bool) bool {
	switch script, looked := e.script, e.looked; {
	case e.p.seeker.on && script != nil:
		e.seeks++
		e.script = nil
		return script()
	case !e.p.seeker.on && looked != nil:
		e.looked = nil
		looked()
		return true
	}
	return false
}

// A blocking receive looks for its message itself where that can be seen: it takes the message that
// it wants and no other, nothing behind one that it must not take, and goes the long way for what
// cannot be found so.
func TestSeekByTheBook(t *testing.T) {
	good := wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5, Length: 3}
	frame := func(change func(h *wire.Header)) *fabric.Frame {
		h := good
		change(&h)
		f := frameOfHeader(h, []byte{7, 8, 9})
		return &f
	}
	same := func(*wire.Header) {}
	announcement := frame(func(h *wire.Header) { h.Proto = wire.RTS })
	announcement.Data = make([]byte, 8)
	for _, row := range []struct {
		name     string
		frames   []*fabric.Frame
		src, tag int
		near     bool
		before   func(c *Comm)
		seeks    int
		picked   int // which of the frames; -1: none
		enough   bool
	}{
		{"the message", []*fabric.Frame{frame(same)}, 1, 5, true, nil, 1, 0, false},
		{"another tag first", []*fabric.Frame{frame(func(h *wire.Header) { h.Tag = 6 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another source first", []*fabric.Frame{frame(func(h *wire.Header) { h.Src = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another communicator first", []*fabric.Frame{frame(func(h *wire.Header) { h.Ctx = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"a large one first", []*fabric.Frame{frame(func(h *wire.Header) { h.Proto = wire.RTS }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"an announcement first", []*fabric.Frame{announcement, frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a part of a collective first", []*fabric.Frame{frame(func(h *wire.Header) { h.Aux = 1 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a wrong one first", []*fabric.Frame{frame(func(h *wire.Header) { h.Length = 2 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"trouble", []*fabric.Frame{frame(same)}, 1, 5, true, func(c *Comm) { c.world.troubled.Store(true) }, 0, -1, true},
		{"a loss", nil, 1, 5, true, func(c *Comm) { c.proc.lose(2, errTest) }, 0, -1, false},
		{"something waits", nil, 1, 5, true, func(c *Comm) { c.Irecv(Buffer{}, 2, 9) }, 0, -1, false},
		{"any source", nil, AnySource, 5, true, nil, 0, -1, false},
		{"any tag", nil, 1, AnyTag, true, nil, 0, -1, false},
		{"a rank that is far", nil, 1, 5, false, nil, 0, -1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			cfg := Config{Ranks: 3, Survive: true}
			_, err := cfg.validate()
			require.NoError(t, err)
			ep := &watched{neighbour: neighbour{nowhere: nowhere{size: 3}}, near: row.near}
			w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
			defer w.end(ErrEnded)
			c := w.comm(0)
			if row.before != nil {
				row.before(c)
			}
			ep.p = c.proc
			picked := -1
			ep.script = func() bool {
				require.Equal(t, w.troubled.Load(), c.proc.seeker.met())
				for i, f := range row.frames {
					if c.proc.seeker.pick(1, f) {
						picked = i
						break
					}
				}
				require.Equal(t, row.enough || picked >= 0, c.proc.seeker.met())
				return true
			}
			// the long way: the message comes now
			ep.looked = func() { c.proc.hear(1, *frame(same)) }
			here := c.proc.traffic.here.Load()
			in := []byte{0, 0, 0, 0}
			st, err := c.Recv(Of(in), row.src, row.tag)
			require.NoError(t, err)
			require.Equal(t, Status{Source: 1, Tag: 5, Bytes: 3}, st)
			require.Equal(t, []byte{7, 8, 9, 0}, in)
			require.Equal(t, row.picked, picked)
			require.Equal(t, row.seeks, ep.seeks)
			require.Equal(t, here+1, c.proc.traffic.here.Load())
			require.True(t, c.proc.engine.Enter(), "nobody has the turn")
			c.proc.engine.Leave()
			require.True(t, mem.SameMemory(mem.Buffer{}, c.proc.seeker.op.buf), "the memory is let go of")
			require.Equal(t, row.picked >= 0, ep.looked != nil)
		})
	}
}

// Where somebody else polls, a receive is posted, and waits for what that one delivers.
func TestSeekWhereSomebodyPolls(t *testing.T) {
	c, ep := newWatched(t)
	require.True(t, c.proc.engine.Enter())
	over := make(chan error)
	go func() { over <- second(c.Recv(Buffer{}, 1, 5)) }()
	for c.world.activity() == 0 {
		runtime.Gosched()
	}
	c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5}, nil))
	require.NoError(t, <-over)
	require.Zero(t, ep.seeks)
	c.proc.engine.Leave()
}

func newWatched(t *testing.T) (*Comm, *watched) {
	cfg := Config{Ranks: 3}
	_, err := cfg.validate()
	require.NoError(t, err)
	ep := &watched{neighbour: neighbour{nowhere: nowhere{size: 3}}, near: true}
	w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
	t.Cleanup(func() { w.end(ErrEnded) })
	c := w.comm(0)
	ep.p = c.proc
	return c, ep
}

// A caller that has looked for long enough does not look again when it posts its receive; one that
// gives up since something is to be done without the turn does.
func TestSeekerThatIsTired(t *testing.T) {
	for _, tired := range []bool{false, true} {
		c, ep := newWatched(t)
		ep.script = func() bool { return !tired }
		ep.waits = !tired
		looked := false
		ep.looked = func() { looked = true }
		over := make(chan error)
		go func() { over <- second(c.Recv(Buffer{}, 1, 5)) }()
		for c.world.activity() == 0 {
			runtime.Gosched()
		}
		c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 5}, nil))
		require.NoError(t, <-over)
		require.Equal(t, !tired, looked)
		require.True(t, c.proc.engine.Enter(), "nobody has the turn")
		c.proc.engine.Leave()
	}
}

// Messages of a rank that is far are not looked for, though those of another rank are.
func TestSeekOfNearRanksOnly(t *testing.T) {
	c, ep := newWatched(t)
	require.Equal(t, []bool{false, true, false}, c.proc.seeker.near)
	ep.looked = func() {
		c.proc.hear(2, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 2, Tag: 5}, nil))
	}
	_, err := c.Recv(Buffer{}, 2, 5)
	require.NoError(t, err)
	require.Zero(t, ep.seeks)
}
