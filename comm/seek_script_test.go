// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// watched is a neighbour that can be looked at: a script says what comes while a caller looks.
type watched struct {
	neighbour
	near    bool // rank 1
	looks   bool // somebody does
	entered int
	left    int
	seeks   int
	tired   bool
	script  func(p fabric.Picker) bool
	looked  func()
}

func (e *watched) Caps(r int) fabric.Caps {
	return fabric.Caps{Kind: "watched", EagerLimit: 64, Ordered: true, SharedMemory: e.near && r == 1}
}

func (e *watched) Enter() bool {
	if e.looks {
		return false
	}
	e.looks = true
	e.entered++
	return true
}

func (e *watched) Leave() {
	e.looks = false
	e.left++
}

func (e *watched) Look(_ <-chan struct{}, entered bool) {
	if e.looked != nil {
		e.looked()
	}
	if entered {
		e.Leave()
	}
}

func (e *watched) Poll(int) bool { return false }

func (e *watched) Seek(p fabric.Picker) (picked, tired bool) {
	e.seeks++
	return e.script(p), e.tired
}

// A blocking receive looks for its message itself where that can be seen: it takes the message that
// it wants and no other, nothing behind one that it must not take, and goes the long way for what
// cannot be found so.
func TestSeekByTheBook(t *testing.T) {
	good := header{proto: eager, elem: Byte, elemSize: 1, src: 1, tag: 5, length: 3}
	frame := func(change func(h *header)) *fabric.Frame {
		h := good
		change(&h)
		f := frameOfHeader(h, []byte{7, 8, 9})
		return &f
	}
	same := func(*header) {}
	announcement := frame(func(h *header) { h.proto = ready })
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
		{"another tag first", []*fabric.Frame{frame(func(h *header) { h.tag = 6 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another source first", []*fabric.Frame{frame(func(h *header) { h.src = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"another communicator first", []*fabric.Frame{frame(func(h *header) { h.ctx = 2 }), frame(same)}, 1, 5, true, nil, 1, 1, false},
		{"a large one first", []*fabric.Frame{frame(func(h *header) { h.proto = ready }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"an announcement first", []*fabric.Frame{announcement, frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a part of a collective first", []*fabric.Frame{frame(func(h *header) { h.aux = 1 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"a wrong one first", []*fabric.Frame{frame(func(h *header) { h.length = 2 }), frame(same)}, 1, 5, true, nil, 1, -1, true},
		{"trouble", []*fabric.Frame{frame(same)}, 1, 5, true, func(c *Comm) { c.world.troubled.Store(true) }, 1, -1, true},
		{"a loss", nil, 1, 5, true, func(c *Comm) { c.proc.lose(2, errTest) }, 0, -1, false},
		{"something waits", nil, 1, 5, true, func(c *Comm) { c.Irecv(Buffer{}, 2, 9) }, 0, -1, false},
		{"any source", nil, AnySource, 5, true, nil, 0, -1, false},
		{"any tag", nil, 1, AnyTag, true, nil, 0, -1, false},
		{"a rank that is far", nil, 1, 5, false, nil, 0, -1, false},
		{"somebody looks", nil, 1, 5, true, func(c *Comm) { c.proc.ep.(*watched).looks = true }, 0, -1, false},
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
			picked := -1
			ep.script = func(p fabric.Picker) bool {
				require.Equal(t, w.troubled.Load(), p.Enough())
				for i, f := range row.frames {
					if p.Pick(1, f) {
						picked = i
						return true
					}
				}
				require.Equal(t, row.enough, p.Enough())
				return false
			}
			ep.looked = func() { // the long way: the message comes now
				ep.looked = nil
				c.proc.Deliver(1, *frame(same))
			}
			here := c.proc.traffic.here.Load()
			in := []byte{0, 0, 0, 0}
			st, err := c.Recv(Of(in), row.src, row.tag)
			require.NoError(t, err)
			require.Equal(t, Status{Source: 1, Tag: 5, Bytes: 3}, st)
			require.Equal(t, []byte{7, 8, 9, 0}, in)
			require.Equal(t, row.picked, picked)
			require.Equal(t, row.seeks, ep.seeks)
			require.Equal(t, here+1, c.proc.traffic.here.Load())
			require.Equal(t, ep.entered, ep.left)
			require.Nil(t, c.proc.seeker.op.buf.ptr, "the memory is let go of")
			require.Equal(t, row.picked >= 0, ep.looked != nil)
		})
	}
}

// A caller that has looked for long enough does not look again when it posts its receive.
func TestSeekerThatIsTired(t *testing.T) {
	for _, tired := range []bool{false, true} {
		cfg := Config{Ranks: 3}
		_, err := cfg.validate()
		require.NoError(t, err)
		ep := &watched{neighbour: neighbour{nowhere: nowhere{size: 3}}, near: true, tired: tired}
		w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
		c := w.comm(0)
		ep.script = func(fabric.Picker) bool { return false }
		looked := false
		ep.looked = func() { looked = true }
		over := make(chan error)
		go func() { over <- second(c.Recv(Buffer{}, 1, 5)) }()
		for c.world.activity() == 0 {
			runtime.Gosched()
		}
		c.proc.Deliver(1, frameOfHeader(header{proto: eager, elem: Byte, elemSize: 1, src: 1, tag: 5}, nil))
		require.NoError(t, <-over)
		require.Equal(t, !tired, looked)
		require.Equal(t, []int{1, 1}, []int{ep.entered, ep.left})
		w.end(ErrEnded)
	}
}

// Messages of a rank that is far are not looked for, though those of another rank are.
func TestSeekOfNearRanksOnly(t *testing.T) {
	cfg := Config{Ranks: 3}
	_, err := cfg.validate()
	require.NoError(t, err)
	ep := &watched{neighbour: neighbour{nowhere: nowhere{size: 3}}, near: true}
	w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
	defer w.end(ErrEnded)
	c := w.comm(0)
	require.Equal(t, []bool{false, true, false}, c.proc.seeker.near)
	ep.looked = func() {
		c.proc.Deliver(2, frameOfHeader(header{proto: eager, elem: Byte, elemSize: 1, src: 2, tag: 5}, nil))
	}
	_, err = c.Recv(Buffer{}, 2, 5)
	require.NoError(t, err)
	require.Zero(t, ep.seeks)
	require.Zero(t, ep.entered)
}
