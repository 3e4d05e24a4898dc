// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// neighbour is a fabric whose other ranks are played by the test, step by step: it keeps the frames
// that rank 0 sends, and delivers nothing by itself.
type neighbour struct {
	nowhere
	mu     sync.Mutex
	frames []sentFrame // guarded by mu
	pushes []sentPush
	fails  error // the error of later sends

	expects func() // called before a transfer is expected; nil: not called
}

type sentFrame struct {
	dst int
	fabric.Frame
}

type sentPush struct {
	dst  int
	key  uint64
	data []byte
	done func(error)
}

func (e *neighbour) Send(dst int, f fabric.Frame) error {
	if e.fails != nil {
		return e.fails
	}
	f.Data = bytes.Clone(f.Data)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frames = append(e.frames, sentFrame{dst, f})
	return nil
}

func (e *neighbour) Push(dst int, key uint64, data []byte, done func(error)) {
	e.pushes = append(e.pushes, sentPush{dst, key, bytes.Clone(data), done})
}

func (e *neighbour) Expect(src int, key uint64, dst []byte, done func(error)) {
	if e.expects != nil {
		e.expects()
	}
	e.nowhere.Expect(src, key, dst, done)
}

// take returns what was sent since the last call.
func (e *neighbour) take() []sentFrame {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent := e.frames
	e.frames = nil
	return sent
}

// withNeighbours returns rank 0 of three, whose peers are played by the test.
func withNeighbours(t *testing.T, survive bool) (*neighbour, *Comm) {
	t.Helper()
	return amongNeighbours(t, 0, Config{Survive: survive})
}

// amongNeighbours is withNeighbours for another rank.
func amongNeighbours(t *testing.T, rank int, cfg Config) (*neighbour, *Comm) {
	t.Helper()
	cfg.Ranks = 3
	_, err := cfg.validate()
	require.NoError(t, err)
	ep := &neighbour{nowhere: nowhere{rank: rank, size: 3}}
	w := newWorld(context.Background(), cfg, []fabric.Endpoint{ep})
	c := w.comm(rank)
	w.at(rank).addComm(c)
	t.Cleanup(func() {
		w.end(ErrEnded)
		require.NoError(t, ep.Close())
	})
	return ep, c
}

// frameOf returns a frame of a kind that has no header, with as many bytes of data.
func frameOf(p wire.Protocol, data int, words ...uint64) fabric.Frame {
	f := fabric.Frame{Data: make([]byte, data)}
	copy(f.Head[:], words)
	f.Head[3] |= p.Word()
	return f
}

// hear is Deliver of a frame of rank src.
func (p *proc) hear(src int, f fabric.Frame) bool {
	f.Origin, f.Target = int32(src), int32(p.rank)
	return p.Deliver(&f)
}

func frameOfHeader(h wire.Header, data []byte) fabric.Frame {
	return fabric.Frame{Head: h.Pack(), Data: data}
}

// A frame that another process must not send makes it a lost rank, and the error says what was
// wrong; a legal frame does not, at each bound.
func TestFramesOfOtherProcesses(t *testing.T) {
	good := wire.Header{Proto: wire.Eager, Elem: mem.Int64, ElemSize: 8, Src: 1, Tag: 5, Length: 16}
	with := func(change func(h *wire.Header)) wire.Header { h := good; change(&h); return h }
	announced := func(change func(h *wire.Header)) wire.Header {
		return with(func(h *wire.Header) { h.Proto = wire.RTS; change(h) })
	}
	number := binary.LittleEndian.AppendUint64(nil, 77)
	// Rank 0 has sent the RTS of these sends: 1 and 3 to rank 1, of 100 bytes; 2 to rank 2; 4, to
	// rank 1, was withdrawn.
	for _, row := range []struct {
		name  string
		f     fabric.Frame
		wrong string // "": it is legal
	}{
		{"a message", frameOfHeader(good, make([]byte, 16)), ""},
		{"a message with a byte more", frameOfHeader(good, make([]byte, 17)), "it sends 17 bytes and says that they are 16"},
		{"a message with a byte less", frameOfHeader(good, make([]byte, 15)), "it sends 15 bytes and says that they are 16"},
		{"elements of the last kind", frameOfHeader(with(func(h *wire.Header) { h.Elem = mem.NumKinds - 1 }), make([]byte, 16)), ""},
		{"elements of no kind", frameOfHeader(with(func(h *wire.Header) { h.Elem = mem.NumKinds }), make([]byte, 16)), fmt.Sprintf("it sends elements of the unknown kind %d", mem.NumKinds)},
		{"a message of the last rank", frameOfHeader(with(func(h *wire.Header) { h.Src = 2 }), make([]byte, 16)), ""},
		{"a message of the first rank", frameOfHeader(with(func(h *wire.Header) { h.Src = 0 }), make([]byte, 16)), ""},
		{"a message of a rank that is not there", frameOfHeader(with(func(h *wire.Header) { h.Src = 3 }), make([]byte, 16)), "it sends as rank 3 with tag 5"},
		{"a message of a rank below", frameOfHeader(with(func(h *wire.Header) { h.Src = -1 }), make([]byte, 16)), "it sends as rank -1 with tag 5"},
		{"the first tag", frameOfHeader(with(func(h *wire.Header) { h.Tag = 0 }), make([]byte, 16)), ""},
		{"a tag below", frameOfHeader(with(func(h *wire.Header) { h.Tag = -1 }), make([]byte, 16)), "it sends as rank 1 with tag -1"},
		{"an announcement", frameOfHeader(announced(func(*wire.Header) {}), number), ""},
		{"an announcement with a byte less", frameOfHeader(announced(func(*wire.Header) {}), number[:7]), "it announces a message in 7 bytes, not 8"},
		{"an announcement with a byte more", frameOfHeader(announced(func(*wire.Header) {}), make([]byte, 9)), "it announces a message in 9 bytes, not 8"},
		{"the longest message", frameOfHeader(announced(func(h *wire.Header) { h.Length = maxLength }), number), ""},
		{"a longer one", frameOfHeader(announced(func(h *wire.Header) { h.Length = maxLength + 1 }), number), "it announces a message of 281474976710657 bytes"},
		{"a wish", frameOf(wire.CTS, 0, 1, 9, 0, 0, 100), ""},
		{"a wish for a part", frameOf(wire.CTS, 0, 3, 9, 0, 0, 99), ""},
		{"a wish for nothing", frameOf(wire.CTS, 0, 3, 9, 0, 0, 0), ""},
		{"a wish for too much", frameOf(wire.CTS, 0, 1, 9, 0, 0, 101), "it asks for 101 bytes of a message of 100"},
		{"a wish for what was announced to another rank", frameOf(wire.CTS, 0, 2, 9, 0, 0, 8), "it asks for the message 2, which was not announced to it"},
		{"a wish for what was taken back", frameOf(wire.CTS, 0, 4, 9, 0, 0, 100), ""},
		{"a wish for what was never announced", frameOf(wire.CTS, 0, 5, 9, 0, 0, 100), "it asks for the message 5, which was not announced to it"},
		{"a wish for number 0", frameOf(wire.CTS, 0, 0, 9, 0, 0, 100), "it asks for the message 0, which was not announced to it"},
		{"a nudge", frameOf(wire.Nudging, 0, 4), ""},
		{"an answer", frameOf(wire.Answering, 0), ""},
		{"a failure notice of a rank that does not exist", frameOf(wire.FailureNotice, 0, 3), "it says that rank 3 is lost"},
		{"a failure notice of another rank", frameOf(wire.FailureNotice, 0, 2), ""},
		{"an end by a rank that is not there", frameOf(wire.Ending, 0, 3), "it says that the run ends because of rank 3 (0)"},
		{"an end of no kind", frameOf(wire.Ending, 0, 2, endDeadlock+1), "it says that the run ends because of rank 2 (3)"},
		{"a revocation", frameOf(wire.Revoking, 0, 1<<32|2), ""},
		{"a revocation of a group", frameOf(wire.Revoking, 12, 1<<32|2), ""},
		{"a revocation of part of a rank", frameOf(wire.Revoking, 7, 1<<32|2), "it revokes the communicator 4294967298 of a group in 7 bytes"},
		{"a revocation of more ranks than there are", frameOf(wire.Revoking, 16, 1<<32|2), "it revokes the communicator 4294967298 of a group in 16 bytes"},
		{"a revocation of collectives", frameOf(wire.Revoking, 0, 1<<32|3), "it revokes the communicator 4294967299 of a group in 0 bytes"},
		{"a comparison", frameOf(wire.Comparing, 2*coll.SignatureBytes, 0, 1, 2), ""},
		{"a comparison of the last ones", frameOf(wire.Comparing, coll.HistoryLen*coll.SignatureBytes, 0, 1, coll.HistoryLen), ""},
		{"a comparison of the last ones of more", frameOf(wire.Comparing, coll.HistoryLen*coll.SignatureBytes, 0, 1, 1000), ""},
		{"a comparison of too many", frameOf(wire.Comparing, (coll.HistoryLen+1)*coll.SignatureBytes, 0, 1, coll.HistoryLen+1), "it compares 17 collectives in 408 bytes"},
		{"a comparison of too few", frameOf(wire.Comparing, coll.SignatureBytes, 0, 1, 2), "it compares 2 collectives in 24 bytes"},
		{"a comparison of one in part", frameOf(wire.Comparing, 2*coll.SignatureBytes-1, 0, 1, 1), "it compares 1 collectives in 47 bytes"},
		{"a comparison in another's name", frameOf(wire.Comparing, 0, 0, 2, 0), "it compares collectives as rank 2 of others"},
		{"a comparison of a rank that is not there", frameOf(wire.Comparing, 0, 0, 3, 0), "it compares collectives as rank 3 of others"},
		{"a disagreement", frameOf(wire.Disagreeing, 2*coll.SignatureBytes, 1<<32|2, 1, 1), ""},
		{"a disagreement in words", frameOf(wire.Disagreeing, 5, 1<<32|2, 0, 1), ""},
		{"a disagreement in as many words as can be", frameOf(wire.Disagreeing, maxReason, 1<<32|2, 0, 1), ""},
		{"a disagreement in more words", frameOf(wire.Disagreeing, maxReason+1, 1<<32|2, 0, 1), "it says in 4097 bytes that ranks do not agree"},
		{"a disagreement of one rank", frameOf(wire.Disagreeing, coll.SignatureBytes, 1<<32|2, 1, 1), "it says in 24 bytes that ranks do not agree"},
		{"a disagreement about messages", frameOf(wire.Disagreeing, 2*coll.SignatureBytes, 1<<32|3, 1, 1), "it says in 48 bytes that ranks do not agree"},
		{"kind 0", frameOf(0, 0), "it sends a frame of the unknown kind 0"},
		{"the first unknown kind", frameOf(wire.Disagreeing+1, 0), fmt.Sprintf("it sends a frame of the unknown kind %d", wire.Disagreeing+1)},
		{"a deadlock report", frameOf(wire.BlockedReport, 3, 0, 0, 0, 0, 1), ""},
		{"a question", frameOf(wire.BlockedQuery, 0, 1), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			ep, c := withNeighbours(t, true)
			p := c.proc
			for i, dst := range []int{1, 2, 1, 1} {
				r := c.Issend(Of(make([]byte, []int{100, 8, 100, 100}[i])), dst, 1)
				require.False(t, r.Done())
			}
			require.True(t, p.remote.withdraw(4))
			require.False(t, p.remote.withdraw(4), "once")
			before := p.traffic.received.Load()
			p.hear(1, row.f)
			lost := p.failure.Load().lostRank(1)
			counted := int64(1)
			if kind := wire.Protocol(row.f.Head[3] >> 8); kind == wire.BlockedReport || kind == wire.BlockedQuery {
				counted = 0
			}
			require.Equal(t, before+counted, p.traffic.received.Load(), "frames that have had their effect")
			if row.wrong == "" {
				require.NoError(t, lost)
				return
			}
			require.ErrorIs(t, lost, ErrPeerLost)
			require.ErrorIs(t, lost, errFrame)
			require.ErrorContains(t, lost, "rank 1 is lost: bad frame: "+row.wrong)
			told := 0
			for _, f := range ep.take() { // of the loss
				if wire.Protocol(f.Head[3]>>8) == wire.FailureNotice {
					require.Equal(t, []uint64{2, 1}, []uint64{uint64(f.dst), f.Head[0]})
					require.Contains(t, string(f.Data), row.wrong)
					told++
				}
			}
			require.Equal(t, 1, told)
			p.hear(1, frameOfHeader(good, make([]byte, 16)))
			here, _, err := c.Iprobe(1, 5)
			require.False(t, here, "what it says does not count any more")
			require.ErrorIs(t, err, ErrPeerLost)
		})
	}
}

// The steps of a send to another process: the RTS, with the send's number; after the CTS the
// payload, as many bytes as it asks for, under the receiver's key; the end, when the fabric is
// done.
func TestSendScript(t *testing.T) {
	payload := make([]int32, 40)
	for i := range payload {
		payload[i] = int32(i * 3)
	}
	for name, buf := range map[string]Buffer{"one piece": Of(payload), "many pieces": Vector(payload, 20, 1, 2)} {
		for _, blocking := range []bool{false, true} {
			for _, want := range []int{0, 4, buf.Bytes()} {
				t.Run(fmt.Sprintf("%s, blocking %v, %d bytes in the CTS", name, blocking, want), func(t *testing.T) {
					ep, c := withNeighbours(t, true)
					over := make(chan error, 1)
					if blocking {
						go func() { over <- c.Ssend(buf, 1, 6) }()
					} else {
						c.Issend(buf, 1, 6).OnDone(func(err error) { over <- err })
					}
					sent := ep.take()
					for ; len(sent) == 0; sent = ep.take() {
						runtime.Gosched()
					}
					require.Len(t, sent, 1)
					h := wire.Header{Proto: wire.RTS, Elem: mem.Int32, ElemSize: 4, Tag: 6, Length: uint64(buf.Bytes())}
					require.Equal(t, 1, sent[0].dst)
					require.Equal(t, h.Pack(), sent[0].Head)
					require.Equal(t, binary.LittleEndian.AppendUint64(nil, 1), sent[0].Data)
					require.Equal(t, int64(1), c.proc.traffic.sent.Load())

					c.proc.hear(1, frameOf(wire.CTS, 0, 1, 50, 0, 0, uint64(want)))
					if want > 0 {
						require.Len(t, ep.pushes, 1)
						require.Equal(t, []int{1, 50}, []int{ep.pushes[0].dst, int(ep.pushes[0].key)})
						bytes := make([]byte, buf.Bytes())
						buf.CopyToBytes(bytes, 0)
						require.Equal(t, string(bytes[:want]), string(ep.pushes[0].data))
						require.Empty(t, over)
						require.True(t, c.proc.underWay())
						ep.pushes[0].done(nil)
					}
					require.NoError(t, <-over)
					require.False(t, c.proc.underWay())
					require.Empty(t, ep.take())
					require.Empty(t, c.proc.remote.sends)
					c.proc.hear(1, frameOf(wire.CTS, 0, 1, 50, 0, 0, uint64(want)))
					require.ErrorContains(t, c.proc.failure.Load().lostRank(1), "it asks for the message 1, which was not announced to it")
				})
			}
		}
	}
}

// The steps of a receive of a large message of another process, whichever of the two comes first:
// the CTS, with the sender's number, a key and the bytes that there is room for; the payload; the
// end.
func TestReceiveScript(t *testing.T) {
	const length = 64
	for _, row := range []struct {
		name string
		into func() (Buffer, func() []byte)
		want int // bytes in the CTS
		err  error
	}{
		{"of the size", contiguous(length), length, nil},
		{"larger", contiguous(length + 8), length, nil},
		{"smaller", contiguous(length - 8), length - 8, ErrTruncated},
		{"empty", contiguous(0), 0, ErrTruncated},
		{"in pieces", strided(length), length, nil},
		{"in pieces, smaller", strided(length - 8), length - 8, ErrTruncated},
		{"of another type", func() (Buffer, func() []byte) { return Of(make([]float64, 8)), func() []byte { return nil } }, 0, ErrType},
	} {
		for _, early := range []bool{false, true} {
			for _, fails := range []error{nil, errTest} {
				t.Run(fmt.Sprintf("%s, message first %v, fails %v", row.name, early, fails), func(t *testing.T) {
					ep, c := withNeighbours(t, true)
					buf, got := row.into()
					h := wire.Header{Proto: wire.RTS, Elem: mem.Int64, ElemSize: 8, Src: 1, Tag: 3, Length: length}
					announce := func() { c.proc.hear(1, frameOfHeader(h, binary.LittleEndian.AppendUint64(nil, 31))) }
					if early {
						announce()
					}
					r := c.Irecv(buf, AnySource, 3)
					require.Equal(t, early && row.want == 0, r.Done())
					if !early {
						announce()
					}
					sent := ep.take()
					require.Len(t, sent, 1)
					key := sent[0].Head[1]
					require.Equal(t, frameOf(wire.CTS, 0, 31, key, 0, 0, uint64(row.want)).Head, sent[0].Head)
					require.Equal(t, 1, sent[0].dst)
					if row.want > 0 {
						require.False(t, r.Done())
						require.True(t, c.proc.underWay())
						room, err := ep.expected.Begin(1, key, 0, row.want)
						require.NoError(t, err)
						for i := range room {
							room[i] = byte(i + 1)
						}
						ep.expected.End(1, key, row.want, fails)
					}
					require.True(t, r.Done())
					require.False(t, c.proc.underWay())
					st, err := r.Wait(context.Background())
					require.Equal(t, Status{Source: 1, Tag: 3, Bytes: length}, st)
					var e *Error
					switch {
					case fails != nil && row.want > 0:
						require.ErrorIs(t, err, ErrPeerLost)
						require.ErrorIs(t, err, errTest)
					case row.err != nil:
						require.ErrorIs(t, err, row.err)
						require.ErrorAs(t, err, &e)
						require.Equal(t, []any{"irecv", 0, AnySource, 3}, []any{e.Op, e.Rank, e.Peer, e.Tag})
					default:
						require.NoError(t, err)
					}
					if row.err == ErrTruncated {
						require.True(t, fails != nil && row.want > 0 || strings.Contains(err.Error(), fmt.Sprintf("%d bytes into %d", length, row.want)))
					}
					if fails == nil {
						for i, b := range got() {
							if i < row.want {
								require.Equal(t, byte(i+1), b)
							} else {
								require.Zero(t, b)
							}
						}
					}
				})
			}
		}
	}
}

func contiguous(n int) func() (Buffer, func() []byte) {
	return func() (Buffer, func() []byte) {
		s := make([]int64, n/8)
		return Of(s), func() []byte { b, _ := Of(s).Contiguous(); return b }
	}
}

func strided(n int) func() (Buffer, func() []byte) {
	return func() (Buffer, func() []byte) {
		b := Vector(make([]int64, n/4), n/8, 1, 2)
		return b, func() []byte {
			p := make([]byte, n)
			b.CopyToBytes(p, 0)
			return p
		}
	}
}

// A frame that a fabric cannot send is the loss of its destination, in each way to send, if the run
// survives that; no pending send is left.
func TestFabricThatSendsNothing(t *testing.T) {
	for name, send := range map[string]func(c *Comm) error{
		"send":             func(c *Comm) error { return c.Send(Of([]byte{1}), 1, 2) },
		"send in pieces":   func(c *Comm) error { return c.Send(Vector(make([]byte, 9), 3, 1, 3), 1, 2) },
		"large send":       func(c *Comm) error { return c.Send(Of(make([]byte, 1000)), 1, 2) },
		"ssend":            func(c *Comm) error { return c.Ssend(Of([]byte{1}), 1, 2) },
		"isend":            func(c *Comm) error { return wait(c.Isend(Of([]byte{1}), 1, 2)) },
		"large isend":      func(c *Comm) error { return wait(c.Isend(Of(make([]byte, 1000)), 1, 2)) },
		"issend":           func(c *Comm) error { return wait(c.Issend(Of([]byte{1}), 1, 2)) },
		"receive of large": nil,
	} {
		t.Run(name, func(t *testing.T) {
			ep, c := withNeighbours(t, true)
			if send == nil {
				r := c.Irecv(Of(make([]byte, 1000)), 1, 2)
				ep.fails = errTest
				c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.RTS, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 2, Length: 1000}, make([]byte, 8)))
				send = func(*Comm) error { return wait(r) }
			}
			ep.fails = errTest
			before := c.proc.traffic.sent.Load()
			err := send(c)
			require.ErrorIs(t, err, ErrPeerLost)
			require.ErrorIs(t, err, errTest)
			var lost *LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, 1, lost.Rank)
			require.Empty(t, c.proc.remote.sends)
			require.Empty(t, c.proc.remote.transfers)
			require.False(t, ep.expected.Waiting())
			require.Equal(t, before, c.proc.traffic.sent.Load(), "what was not sent is not counted")
		})
	}
}

// The end of a run that others tell is its cause here: the rank that failed, whether that rank is
// lost, and the reason, bounded in length.
func TestEndThatOthersTell(t *testing.T) {
	long := strings.Repeat("x", maxReason-1)
	for _, row := range []struct {
		rank, how uint64
		text      string
		says      string
		is        error
	}{
		{2, 0, "no such file", "rank 2: no such file", ErrAborted},
		{0, 0, "you", "rank 0: you", ErrAborted},
		{2, endLost, "exit status 3", "rank 2 is lost: exit status 3", ErrPeerLost},
		{1, endDeadlock, "all wait", "all wait", ErrDeadlock},
		{1, 0, long, "rank 1: " + long, ErrAborted},
		{1, 0, long + "y", "rank 1: " + long + "y", ErrAborted},
		{1, 0, long + "yz", "rank 1: " + long + "y", ErrAborted},
		{1, endDeadlock, long + "yz", long + "y", ErrDeadlock},
		{1, 0, ErrMismatch.Error() + ": number 1", "number 1", ErrMismatch},
	} {
		ep, c := withNeighbours(t, false)
		r := c.Irecv(Buffer{}, 1, 0)
		f := frameOf(wire.Ending, 0, row.rank, row.how)
		f.Data = []byte(row.text)
		c.proc.hear(1, f)
		err := wait(r)
		require.ErrorIs(t, err, ErrAborted)
		require.ErrorIs(t, err, row.is)
		require.True(t, strings.HasSuffix(err.Error(), row.says), "%.200v", err)
		require.Equal(t, row.is == ErrMismatch, errors.Is(err, ErrMismatch))
		require.Empty(t, ep.take(), "they know")
		require.ErrorIs(t, context.Cause(c.Context()), row.is)
	}
}

// A rank that has made no collective has none compared at its end.
func TestNothingToCompare(t *testing.T) {
	ep, c := withNeighbours(t, true)
	require.NoError(t, c.proc.compareAll())
	require.Empty(t, ep.take())
}

// A failure after a transfer is known here, and before the fabric expects it, ends the transfer all
// the same, if it affects it.
func TestFailureWhileAReceiveBegins(t *testing.T) {
	buf := func() Buffer { return Of(make([]int64, 100)) }
	sender, its := amongNeighbours(t, 1, Config{Survive: true})
	sent := func(*Request) fabric.Frame { // what rank 1 sends to rank 0
		for _, f := range sender.take() {
			if f.dst == 0 {
				return f.Frame
			}
		}
		return fabric.Frame{}
	}
	frames := map[string]fabric.Frame{"message": sent(its.Issend(buf(), 0, 3)), "bcast": sent(its.Ibcast(buf(), 1))}
	lose := func(r int) func(c *Comm) {
		return func(c *Comm) { c.proc.markLost(r, &LostError{Rank: r, Err: errTest}) }
	}
	for _, row := range []struct {
		call  string
		wrong string
		does  func(c *Comm)
		want  error // nil: it goes on
	}{
		{"message", "nothing", func(*Comm) {}, nil},
		{"message", "the sender is lost", lose(1), ErrPeerLost},
		{"message", "another is lost", lose(2), nil},
		{"message", "it is revoked", func(c *Comm) { c.proc.revoke(c.ctx) }, ErrRevoked},
		{"message", "the rank is over", func(c *Comm) { c.proc.kill(errTest) }, errTest},
		{"bcast", "nothing", func(*Comm) {}, nil},
		{"bcast", "the sender is lost", lose(1), ErrPeerLost},
		{"bcast", "another is lost", lose(2), ErrPeerLost},
		{"bcast", "it is revoked", func(c *Comm) { c.proc.revoke(c.ctx) }, ErrRevoked},
		{"bcast", "the rank is over", func(c *Comm) { c.proc.kill(errTest) }, errTest},
	} {
		t.Run(row.call+", "+row.wrong, func(t *testing.T) {
			ep, c := withNeighbours(t, true)
			var r *Request
			if row.call == "message" {
				r = c.Irecv(buf(), 1, 3)
			} else {
				r = c.Ibcast(buf(), 1)
			}
			began := false
			ep.expects = func() { began = true; row.does(c) }
			c.proc.hear(1, frames[row.call])
			require.True(t, began)
			require.Equal(t, row.want != nil, r.Done())
			if row.want != nil {
				_, err := r.Wait(t.Context())
				require.ErrorIs(t, err, row.want)
				require.False(t, ep.expected.Waiting())
			}
		})
	}
}

// A withdrawn send may get one CTS, from the rank that got its RTS.
func TestCTSForAWithdrawnSend(t *testing.T) {
	_, c := withNeighbours(t, true)
	p := c.proc
	for range 2 {
		require.False(t, c.Issend(Of(make([]byte, 100)), 1, 1).Done())
	}
	require.True(t, p.remote.withdraw(1))
	wish := frameOf(wire.CTS, 0, 1, 9, 0, 0, 100)
	p.hear(2, wish)
	require.ErrorContains(t, p.failure.Load().lostRank(2), "it asks for the message 1, which was not announced to it")
	p.hear(1, wish)
	require.NoError(t, p.failure.Load().lostRank(1))
	p.hear(1, wish)
	require.ErrorContains(t, p.failure.Load().lostRank(1), "it asks for the message 1, which was not announced to it")
}

// A disagreement ends the collectives of its communicator at this rank, those that have begun and
// those whose messages are here, and nothing else.
func TestDisagreementEndsCollectivesOnly(t *testing.T) {
	const other = 1 << 33
	all := []int{0, 1, 2}
	sender, its := amongNeighbours(t, 1, Config{Survive: true})
	sent := func(*Request) fabric.Frame {
		for _, f := range sender.take() {
			if f.dst == 0 {
				return f.Frame
			}
		}
		return fabric.Frame{}
	}
	itsOther := its.sub(all, other)
	its.proc.addComm(itsOther)
	one := func() Buffer { return Of(make([]int64, 1)) }
	message, second := sent(its.Isend(one(), 0, 3)), sent(its.Isend(one(), 0, 4))
	first, later := sent(its.Ibcast(one(), 1)), sent(its.Ibcast(one(), 1))
	firstOther, laterOther := sent(itsOther.Ibcast(one(), 1)), sent(itsOther.Ibcast(one(), 1))

	_, c := withNeighbours(t, true)
	p, d := c.proc, c.sub(all, other)
	p.addComm(d)
	ends := c.Ibcast(one(), 1)
	stay := []*Request{c.Irecv(one(), 1, 3), c.Issend(one(), 1, 3), d.Ibcast(one(), 1), d.Irecv(one(), AnySource, 3)}
	for _, f := range []fabric.Frame{second, later, laterOther} {
		p.hear(1, f)
	}
	why := &disagreement{err: fmt.Errorf("%w: told", ErrMismatch)}
	require.True(t, p.recordDisagreement(c.ctx, why))
	require.False(t, p.recordDisagreement(c.ctx, &disagreement{err: errTest}), "the first counts")
	_, err := ends.Wait(t.Context())
	require.ErrorIs(t, err, why.err)
	for i, r := range stay {
		require.False(t, r.Done(), i)
	}
	require.ErrorIs(t, c.Barrier(), why.err)
	for _, f := range []fabric.Frame{message, first, firstOther} {
		p.hear(1, f)
	}
	for _, i := range []int{0, 2} {
		_, err := stay[i].Wait(t.Context())
		require.NoError(t, err, i)
	}
	_, err = c.Recv(one(), 1, 4)
	require.NoError(t, err)
	require.NoError(t, d.Bcast(one(), 1), "it was here before")
	require.NoError(t, p.failure.Load().lostRank(1))
}
