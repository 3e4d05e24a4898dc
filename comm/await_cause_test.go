// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/mem"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// Where a lost rank ends the run, an operation that a fabric ends before the cause is known waits
// for the cause, and ends once, with it; a small send completes as if it had arrived. If no cause
// comes, the loss is the cause. Where the run survives, nothing waits.
func TestOperationsAwaitTheCause(t *testing.T) {
	big := func() Buffer { return Of(make([]byte, 1000)) }
	for name, begin := range map[string]func(ep *neighbour, c *Comm) *Request{
		"a send that cannot be announced": func(ep *neighbour, c *Comm) *Request {
			ep.fails = errTest
			return c.Isend(big(), 1, 2)
		},
		"a send whose payload is not taken": func(ep *neighbour, c *Comm) *Request {
			r := c.Isend(big(), 1, 2)
			c.proc.hear(1, frameOf(wire.CTS, 0, 1, 7, 0, 0, 1000))
			ep.pushes[0].done(errTest)
			return r
		},
		"the same from memory in pieces": func(ep *neighbour, c *Comm) *Request {
			r := c.Isend(Vector(make([]byte, 2000), 1000, 1, 2), 1, 2)
			c.proc.hear(1, frameOf(wire.CTS, 0, 1, 7, 0, 0, 1000))
			ep.pushes[0].done(errTest)
			return r
		},
		"a receive whose payload does not come": func(ep *neighbour, c *Comm) *Request {
			r := c.Irecv(big(), 1, 2)
			c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.RTS, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: 2, Length: 1000}, make([]byte, 8)))
			ep.expected.Lose(1, errTest)
			return r
		},
		"a small send": func(ep *neighbour, c *Comm) *Request {
			ep.fails = errTest
			return c.Isend(Of([]byte{1}), 1, 2)
		},
	} {
		for _, told := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, told %v", name, told), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ep, c := withNeighbours(t, false)
					r := begin(ep, c)
					over := make(chan error, 2)
					r.OnDone(func(err error) { over <- err })
					small := name == "a small send"
					time.Sleep(causeWait - 1)
					require.Len(t, over, btoi(small), "it waits")
					require.Nil(t, c.world.aborted.Load())
					if told {
						ep.fails = nil
						f := frameOf(wire.Ending, 0, 2, 0)
						f.Data = []byte("no such file")
						c.proc.hear(2, f)
					}
					time.Sleep(time.Nanosecond)
					<-c.world.killed
					require.Len(t, over, 1)
					why := <-over
					switch {
					case small:
						require.NoError(t, why)
					case told:
						require.ErrorIs(t, why, ErrAborted)
						require.ErrorContains(t, why, "rank 2: no such file")
						require.NotErrorIs(t, why, ErrPeerLost)
					default:
						require.ErrorIs(t, why, ErrAborted)
						require.ErrorIs(t, why, ErrPeerLost)
						require.ErrorContains(t, why, "rank 1 is lost: test")
					}
					var of *RankError
					require.ErrorAs(t, c.world.aborted.Load(), &of)
					require.Equal(t, 1+btoi(told), of.Rank)
					require.Empty(t, c.proc.remote.awaiting)
					require.False(t, c.proc.awaitCause(1, errTest, nil), "the run has ended: nothing waits any more")
				})
			})
		}
	}
	_, c := withNeighbours(t, false)
	for _, err := range []error{nil, ErrRevoked, ErrMismatch, &LostError{Rank: 1, Err: errTest}} {
		require.False(t, c.proc.awaitCause(1, err, func(error) { t.Error("it ends by itself") }), "%v", err)
	}
	_, c = withNeighbours(t, true)
	require.False(t, c.proc.awaitCause(1, errTest, nil))
}

// The first operation that waits for a cause decides which rank is lost, and when.
func TestOneCauseForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := withNeighbours(t, false)
		ended := make(chan error, 4)
		for i := range 3 {
			require.True(t, c.proc.awaitCause(1+i%2, errTest, func(err error) { ended <- err }))
			time.Sleep(causeWait / 4)
		}
		require.True(t, c.proc.awaitCause(2, errTest, nil))
		time.Sleep(causeWait/4 - 1)
		require.Nil(t, c.world.aborted.Load())
		time.Sleep(time.Nanosecond)
		<-c.world.killed
		require.Len(t, ended, 3)
		for range 3 {
			require.ErrorContains(t, <-ended, "rank 1 is lost")
		}
	})
}

// A loss that a fabric reports ends the run only after lossGrace, since that rank may have told why
// it ends; where the run survives, the loss counts at once.
func TestLossThatAFabricReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := withNeighbours(t, false)
		c.proc.Lost(2, errTest)
		time.Sleep(lossGrace - 1)
		synctest.Wait()
		require.Nil(t, c.world.aborted.Load())
		time.Sleep(time.Nanosecond)
		<-c.world.killed
		require.Equal(t, &RankError{Rank: 2, Err: &LostError{Rank: 2, Err: errTest}}, c.world.aborted.Load().cause)

		_, c = withNeighbours(t, false)
		c.proc.Lost(2, errTest)
		c.world.end(ErrEnded) // in the meantime
		time.Sleep(lossGrace)
		synctest.Wait()
		require.Equal(t, ErrEnded, c.world.aborted.Load().cause)

		ep, c := withNeighbours(t, true)
		lost := &LostError{Rank: 2, Err: errTest}
		c.proc.Lost(2, lost)
		require.Same(t, lost, c.proc.failure.Load().lostRank(2))
		sent := ep.take()
		require.Len(t, sent, 1)
		require.Equal(t, 1, sent[0].dst)
		require.Equal(t, frameOf(wire.FailureNotice, 0, 2).Head, sent[0].Head)
		require.Equal(t, "test", string(sent[0].Data))
		require.Equal(t, []int{2}, c.Failed())
		c.proc.Lost(2, errors.New("again"))
		require.Same(t, lost, c.proc.failure.Load().lostRank(2))
		require.Empty(t, ep.take())
		c.proc.reportLoss(1, lost) // of another rank
		require.Equal(t, &LostError{Rank: 1, Err: lost}, c.proc.failure.Load().lostRank(1))
		require.Equal(t, []int{2, 1}, c.Failed())
	})
}

// A rank that gets the failure notice about itself ends, and its error names the rank that sent it.
// A notice about another rank gives the reason as the cause of the loss.
func TestFailureNotices(t *testing.T) {
	say := func(c *Comm, src int, of uint64, why string) {
		f := frameOf(wire.FailureNotice, 0, of)
		f.Data = []byte(why)
		c.proc.hear(src, f)
	}
	ep, c := withNeighbours(t, true)
	say(c, 1, 2, "reset")
	require.EqualError(t, c.proc.failure.Load().lostRank(2), "rank 2 is lost: reset")
	require.Len(t, ep.take(), 1, "it is passed on")
	require.Nil(t, c.world.aborted.Load())
	say(c, 1, 0, "reset")
	require.ErrorContains(t, c.proc.failure.Load().dead, "rank 1 takes this rank for lost: reset")
	require.ErrorIs(t, c.proc.failure.Load().dead, ErrPeerLost)

	_, c = withNeighbours(t, false)
	say(c, 1, 2, "reset")
	<-c.world.killed
	require.ErrorContains(t, c.world.aborted.Load(), "it survives the loss of ranks, which this one does not; all must be started alike (WEFT_SURVIVE)")

	for _, n := range []int{maxReason - 1, maxReason, maxReason + 1} {
		f := failureNotice(2, errors.New(strings.Repeat("x", n)))
		require.Len(t, f.Data, min(n, maxReason))
		require.Equal(t, frameOf(wire.FailureNotice, 0, 2).Head, f.Head)
	}
	require.Equal(t, "test", string(failureNotice(2, &LostError{Rank: 2, Err: errTest}).Data))
	require.Equal(t, "rank 1 is lost: test", string(failureNotice(2, &LostError{Rank: 1, Err: errTest}).Data))
}

// Transfers that are under way at once have different numbers. A fabric that cannot be closed is
// the error of a run that had no other.
func TestTransfersAtOnce(t *testing.T) {
	ep, c := withNeighbours(t, true)
	keys := map[uint64]bool{}
	var reqs []*Request
	for i := range 5 {
		reqs = append(reqs, c.Irecv(Of(make([]byte, 100)), 1, i), c.Issend(Of([]byte{1}), 1, i))
		c.proc.hear(1, frameOfHeader(wire.Header{Proto: wire.RTS, Elem: mem.Byte, ElemSize: 1, Src: 1, Tag: int32(i), Length: 100}, []byte{byte(i), 0, 0, 0, 0, 0, 0, 0}))
	}
	for _, f := range ep.take() {
		key := f.Head[1]
		if wire.Protocol(f.Head[3]>>8) == wire.RTS {
			key = uint64(f.Data[0])
		}
		require.False(t, keys[key])
		keys[key] = true
	}
	require.Len(t, keys, 10)
	c.proc.markLost(1, &LostError{Rank: 1, Err: errTest})
	for _, r := range reqs {
		require.ErrorIs(t, wait(r), ErrPeerLost)
	}
	require.Empty(t, c.proc.remote.transfers)
	require.False(t, ep.expected.Waiting())

	cfg := Config{Ranks: 1}
	_, err := cfg.validate()
	require.NoError(t, err)
	w := newWorld(t.Context(), cfg, []fabric.Endpoint{&unclosed{nowhere{size: 1}}})
	err = w.run(t.Context(), func(*Comm) error { return nil })
	require.EqualError(t, err, "comm: run: it is stuck")
	w = newWorld(t.Context(), cfg, []fabric.Endpoint{&unclosed{nowhere{size: 1}}})
	require.ErrorIs(t, w.run(t.Context(), func(*Comm) error { return errTest }), errTest)
}

type unclosed struct{ nowhere }

func (*unclosed) Close() error { return errors.New("it is stuck") }
