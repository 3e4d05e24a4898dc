// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/consensus"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// nowhere is a fabric that delivers no frame: a rank gets only the frames that a test delivers.
type nowhere struct {
	rank, size int
	expected   fabric.Expected
}

func (e *nowhere) Rank() int { return e.rank }
func (e *nowhere) Size() int { return e.size }
func (e *nowhere) Caps(int) fabric.Caps {
	return fabric.Caps{Kind: "nowhere", EagerLimit: 64}
}
func (e *nowhere) Sources() []fabric.Source             { return nil }
func (e *nowhere) Bind(fabric.Handler, fabric.Progress) {}
func (e *nowhere) Local(int) fabric.Handler             { return nil }
func (e *nowhere) Shared(int) ([]byte, error)           { return nil, fabric.ErrUnsupported }
func (e *nowhere) Drop(int, error)                      {}
func (e *nowhere) Grow(int) error                       { return fabric.ErrUnsupported }
func (e *nowhere) Relay(int, fabric.Frame) error        { return nil }
func (e *nowhere) Send(int, fabric.Frame) error         { return nil }
func (e *nowhere) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.expected.Add(src, key, dst, done)
}
func (e *nowhere) Forget(src int, key uint64) bool { return e.expected.Forget(src, key) }
func (e *nowhere) Push(_ int, _ uint64, _ []byte, done func(error)) {
	done(nil)
}
func (e *nowhere) Close() error {
	e.expected.Close()
	return nil
}

// tape is the input of the fuzzer, read as small numbers.
type tape []byte

func (t *tape) next() int {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return int(b)
}

// word returns a word of a frame: mostly one that has a meaning in some field.
func (t *tape) word() uint64 {
	switch b := t.next(); {
	case b < 64:
		return uint64(b)
	case b < 128: // a source or a number, and a tag or another
		return uint64(b&7)<<32 | uint64(t.next())
	case b < 160:
		return uint64(b&31)<<8 | uint64(t.next()) // a kind
	case b < 176:
		return ^uint64(b & 15)
	case b < 192:
		return 1<<63 + uint64(b&15)
	}
	w := uint64(0)
	for range 8 {
		w = w<<8 | uint64(t.next())
	}
	return w
}

const (
	doRecv = iota
	doSend
	doCollective
	doAgree
	doShrink
	doRevoke
	doLose
	doArrive // bytes of a transfer
	doFrame  // and all others
	lastDo
)

// FuzzDeliver gives a rank hostile frames of every kind, in any state of its own: they are refused
// without harm.
func FuzzDeliver(f *testing.F) {
	frame := func(src int, kind, sub byte, words ...byte) []byte {
		b := append([]byte{doFrame, byte(src)}, words...)
		return append(b, 128|kind, sub)
	}
	join := func(parts ...[]byte) (all []byte) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for kind := byte(0); kind <= byte(wire.Agreeing)+1; kind++ {
		for _, mode := range []byte{0, 1} {
			f.Add(join([]byte{mode}, []byte{doFrame, 1, 0, 65, 1, 0, 128 | kind, 0, 8, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8}))
			f.Add(join([]byte{mode, doRecv, 1, 1, 200, doSend, 2, 9, 200, doCollective, 3, doAgree}, []byte{doFrame, 1, 1, 1, 1, 128 | kind, 2, 8, 0, 4, 2, 0, 0, 0},
				[]byte{doLose, 1, doFrame, 1, 0, 65, 1, 0, 128 | kind, 0, 8, 0, 0}))
		}
	}
	f.Add(join([]byte{1, doRecv, 1, 65, 100}, frame(1, byte(wire.RTS), 0, 0, 65, 1, 0), []byte{doArrive, 1, 1, 100}))
	f.Add(join([]byte{1, doRevoke, doShrink}, frame(2, byte(wire.Revoking), 0, 0, 0, 0), frame(1, byte(wire.FailureNotice), 0, 0, 0, 0), frame(1, byte(wire.FailureNotice), 0, 2, 0, 0)))
	f.Fuzz(func(t *testing.T, input []byte) {
		const n = 3
		in := tape(input)
		cfg := Config{Ranks: n, Survive: in.next()&1 == 1}
		_, err := cfg.validate()
		require.NoError(t, err)
		ep := &nowhere{size: n}
		w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
		p, c := w.at(0), w.comm(0)
		var reqs []*Request
		guard := make([]byte, 3*256)
		for steps := 0; len(in) > 0 && steps < 200; steps++ {
			switch op := in.next() % (lastDo + 3); op {
			case doRecv:
				reqs = append(reqs, c.Irecv(Of(guard[256:256+in.next()]), in.next()%(n+1)-1, in.next()%5-1))
			case doSend:
				reqs = append(reqs, c.Isend(Of(make([]byte, in.next())), in.next()%n, in.next()%4))
			case doCollective:
				switch in.next() % 4 {
				case 0:
					reqs = append(reqs, c.Ibarrier())
				case 1:
					reqs = append(reqs, c.Ibcast(Of(make([]byte, 200)), in.next()%n))
				case 2:
					reqs = append(reqs, c.Iallreduce(Of(make([]int, 5)), Of(make([]int, 5)), Sum))
				case 3:
					reqs = append(reqs, c.Iallgather(Of(make([]byte, 10)), Of(make([]byte, 10*n))))
				}
			case doAgree:
				_, r := c.agree(consensus.Agree, 1)
				reqs = append(reqs, r)
			case doShrink:
				_, r := c.agree(consensus.Shrink, 1)
				reqs = append(reqs, r)
			case doRevoke:
				c.Revoke()
			case doLose:
				p.Lost(1+in.next()%(n-1), errTest)
			case doArrive:
				src, key, m := in.next()%n, uint64(in.next()), in.next()
				if room, _ := ep.expected.Begin(src, key, 0, m); room != nil {
					ep.expected.End(src, key, m, nil)
				}
			default:
				var fr fabric.Frame
				src := 1 + in.next()%(n-1)
				for i := range fr.Head {
					fr.Head[i] = in.word()
				}
				fr.Data = make([]byte, min(in.next(), len(in)))
				in = in[copy(fr.Data, in):]
				if in.next()&3 != 0 { // more of them pass the first check so
					switch wire.Protocol(fr.Head[3] >> 8) {
					case wire.Eager:
						fr.Head[4] = uint64(len(fr.Data))
					case wire.RTS:
						fr.Data = make([]byte, 8)
					}
				}
				p.hear(src, fr)
			}
		}
		w.end(errTest)
		for i, r := range reqs {
			require.True(t, r.Done(), "request %d of %d", i, len(reqs))
		}
		require.NoError(t, ep.Close())
		for _, b := range append(guard[:256:256], guard[512:]...) {
			require.Zero(t, b, "written outside the memory of a receive")
		}
		ps, as := p.m.Drain()
		require.Empty(t, ps)
		require.Empty(t, as)
		require.True(t, errors.Is(w.aborted.Load(), ErrAborted))
	})
}
