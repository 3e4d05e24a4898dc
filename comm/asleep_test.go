// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"

	"github.com/stretchr/testify/require"
)

// Goroutines that sleep in blocking calls are counted, and requests are not; activity changes with
// each event of a rank.
func TestAsleepCountsBlockedCalls(t *testing.T) {
	ep, c := withNeighbours(t, true)
	w, p := c.world, c.proc
	count := func() int { n, _ := w.asleep(); return n }
	activity := w.activity()
	changed := func(what string) {
		t.Helper()
		now := w.activity()
		require.NotEqual(t, activity, now, what)
		activity = now
	}
	big := func() Buffer { return Of(make([]byte, 1000)) }
	c.Irecv(Buffer{}, 1, 1)
	changed("a receive")
	c.Isend(big(), 1, 2)
	changed("a frame that is sent")
	require.Zero(t, count())
	over := make(chan error, 8)
	waits := 0
	sleeps := func(f func() error, asleep int) {
		t.Helper()
		go func() { over <- f() }()
		waits++
		for count() != asleep {
			runtime.Gosched()
		}
		// A send to another process is counted as asleep once it is registered, and its frame as
		// sent after that.
		require.Eventually(t, func() bool { return w.activity() != activity }, 10*time.Second, time.Microsecond)
		changed("a call")
	}
	sleeps(func() error { return second(c.Recv(Buffer{}, 1, 3)) }, 1)
	sleeps(func() error { return second(c.Recv(Buffer{}, 1, 3)) }, 2)
	sleeps(func() error { return second(c.Probe(2, 3)) }, 3)
	sleeps(func() error { return c.Ssend(big(), 2, 3) }, 4)
	sleeps(func() error { return c.Ssend(Of([]byte{1}), 0, 77) }, 5) // to itself
	sleeps(func() error { return second(c.Sendrecv(Of([]byte{1}), 2, 5, Buffer{}, 2, 5)) }, 6)
	// A Sendrecv that still sends counts once, by what it sends.
	sleeps(func() error { return second(c.Sendrecv(big(), 2, 6, Buffer{}, 2, 6)) }, 7)
	p.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 50}, nil))
	changed("a frame that has come")
	p.traffic.sent.Add(1)
	p.traffic.received.Add(1)
	changed("one of each")
	p.traffic.pushes.Add(1)
	changed("a payload")
	p.traffic.pushes.Add(-1)
	require.Equal(t, 7, count())
	pending := w.pending()[p]
	require.Len(t, pending, maxDeadlockLines+1)
	require.Equal(t, "and more", pending[maxDeadlockLines])
	w.end(errTest)
	for range waits {
		require.ErrorIs(t, <-over, errTest)
	}
	require.Zero(t, count())
	require.Empty(t, w.pending()[p])
	require.NotEmpty(t, ep.take())
	require.True(t, p == w.at(p.rank))
	require.Nil(t, w.at(p.rank+1))
	require.Nil(t, w.at(p.rank-1))
}

// When the run has ended, each call fails with its cause, also with ProcNull.
func TestCallsAfterTheEnd(t *testing.T) {
	_, all, _ := idle(t, 4, Config{})
	c := all[1]
	c.world.end(errTest)
	b := Of([]int{1})
	iprobe := func(src int) error { _, _, err := c.Iprobe(src, 0); return err }
	for _, peer := range []int{0, 1, ProcNull} {
		for name, err := range map[string]error{
			"send": c.Send(b, peer, 0), "ssend": c.Ssend(b, peer, 0), "isend": wait(c.Isend(b, peer, 0)), "issend": wait(c.Issend(b, peer, 0)),
			"recv": second(c.Recv(b, peer, 0)), "irecv": wait(c.Irecv(b, peer, 0)), "probe": second(c.Probe(peer, 0)), "iprobe": iprobe(peer),
			"sendrecv": second(c.Sendrecv(b, peer, 0, b, peer, 0)),
		} {
			require.ErrorIs(t, err, ErrAborted, "%s of %d", name, peer)
			require.ErrorIs(t, err, errTest)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, []any{name, 1, peer, 0}, []any{e.Op, e.Rank, e.Peer, e.Tag})
		}
	}
}

// A queued message is received though its sender is lost, but not for a collective, and not if the
// communicator is revoked or the rank has ended.
func TestQueuedMessagesOfALostRank(t *testing.T) {
	for name, row := range map[string]struct {
		ctx  uint64
		src  int
		then func(p *proc)
		want error
	}{
		"a message":     {0, 1, func(p *proc) { p.markLost(1, errTest) }, nil},
		"of any source": {0, AnySource, func(p *proc) { p.markLost(1, errTest) }, nil},
		// 2: a wrong tag
		"of another tag":            {2, 1, func(p *proc) { p.markLost(1, errTest) }, errTest},
		"of a revoked communicator": {0, 1, func(p *proc) { p.revoke(0) }, ErrRevoked},
		"a collective's":            {1, 1, func(p *proc) { p.markLost(2, errTest) }, errTest},
		"at its end":                {0, 1, func(p *proc) { p.kill(errTest) }, errTest},
	} {
		_, c := withNeighbours(t, true)
		p := c.proc
		ctx, tag := row.ctx, int32(4)
		if ctx == 2 {
			ctx, tag = 0, 5
		}
		p.hear(1, frameOfHeader(wire.Header{Proto: wire.Eager, Ctx: ctx, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 4}, nil))
		row.then(p)
		op := newReusedRecv()
		op.init(c, callRecv, blockedCall, ctx, &mem.Buffer{}, row.src, int(tag))
		p.mu.Lock()
		err := p.barred(p.failure.Load(), &op.recvOp)
		p.mu.Unlock()
		require.Equal(t, row.want, err, name)
	}
}

// A message that must not be copied into the receive of a collective is a disagreement; the error
// says what differs.
func TestPartsThatDoNotFit(t *testing.T) {
	_, c := withNeighbours(t, true)
	what := uint64(coll.NewCollective(coll.Bcast, nil, 1)) | uint64(Int64)<<coll.ElemShift
	for name, row := range map[string]struct {
		h    wire.Header
		says string
	}{
		"the same":              {wire.Header{Aux: what, Elem: mem.Int64, ElemSize: 8, Length: 16}, ""},
		"plain memory":          {wire.Header{Aux: what&(1<<coll.ElemShift-1) | uint64(Byte)<<coll.ElemShift, Elem: mem.Byte, ElemSize: 1, Length: 16}, ""},
		"other elements":        {wire.Header{Aux: what, Elem: mem.Float64, ElemSize: 8, Length: 16}, "message of float64 (8 bytes) where int64 (8 bytes) is expected"},
		"elements of no size":   {wire.Header{Aux: what, Elem: mem.Float64, ElemSize: 8, Length: 8}, "rank 2 sends 8 bytes where this rank expects 16"},
		"a byte more":           {wire.Header{Aux: what, Elem: mem.Byte, ElemSize: 1, Length: 17}, "rank 2 sends 17 bytes where this rank expects 16"},
		"another root":          {wire.Header{Aux: uint64(coll.NewCollective(coll.Bcast, nil, 2)), Elem: mem.Int64, ElemSize: 8, Length: 16}, "rank 2 is in bcast (root 2) where this rank is in bcast (root 1)"},
		"another history":       {wire.Header{Aux: what | 1<<coll.HistoryShift, Elem: mem.Int64, ElemSize: 8, Length: 16}, "rank 2 has made other collectives than this rank"},
		"a message of no other": {wire.Header{Elem: mem.Int64, ElemSize: 8, Length: 16}, "where this rank is in bcast (root 1)"},
	} {
		h := row.h
		h.Src, h.Tag = 2, 1
		op := &recvOp{c: c, buf: Of(make([]int64, 2)).b, expect: what}
		err := op.check(&h)
		if row.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, ErrMismatch, name)
		require.ErrorContains(t, err, row.says)
		require.Equal(t, name == "other elements", errors.Is(err, ErrType))
	}
	op := &recvOp{c: c, buf: Buffer{}.b, expect: what}
	require.NoError(t, op.check(&wire.Header{Aux: what, Elem: mem.Float64, ElemSize: 8}), "nothing fits nothing")
	op = &recvOp{c: c, buf: Of([]int64{1}).b}
	require.NoError(t, op.check(&wire.Header{Elem: mem.Float64, ElemSize: 8}))
	require.ErrorIs(t, op.check(&wire.Header{Elem: mem.Float64, ElemSize: 8, Length: 1}), ErrType)
	require.NoError(t, op.check(&wire.Header{Elem: mem.Int64, ElemSize: 8, Length: 1}))
	require.ErrorIs(t, op.check(&wire.Header{Elem: mem.Int64, ElemSize: 4, Length: 1}), ErrType)
}
