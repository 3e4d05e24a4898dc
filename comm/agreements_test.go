// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/consensus"
	"weft/comm/internal/wire"
	"weft/internal/fabric"
)

// frameRecorder is the endpoint of a rank that is alone in a test: it records the frames that the
// rank sends.
type frameRecorder struct {
	fabric.Endpoint
	rank, size int

	mu   sync.Mutex
	sent []addressed // guarded by mu
}

// addressed is a frame, and its destination.
type addressed struct {
	to int
	f  fabric.Frame
}

func (s *frameRecorder) Rank() int                { return s.rank }
func (s *frameRecorder) Size() int                { return s.size }
func (s *frameRecorder) Caps(int) fabric.Caps     { return fabric.Caps{} }
func (s *frameRecorder) Sources() []fabric.Source { return nil }
func (s *frameRecorder) Drop(int, error)          {}

func (s *frameRecorder) Bind(fabric.Handler, fabric.Progress) {}

func (s *frameRecorder) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

func (s *frameRecorder) Local(int) fabric.Handler { return nil }

func (s *frameRecorder) Send(dst int, f fabric.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, addressed{dst, f})
	return nil
}

// take returns what was sent since the last call.
func (s *frameRecorder) take() []addressed {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// lone returns the communicator of all ranks at one rank; the test plays its peers.
func lone(t *testing.T, me, n int) (*Comm, *frameRecorder) {
	t.Helper()
	cfg := Config{Ranks: n, Survive: true, DeadlockWarnings: -1}
	_, err := cfg.validate()
	require.NoError(t, err)
	s := &frameRecorder{rank: me, size: n}
	w := newWorld(t.Context(), cfg, []fabric.Endpoint{s})
	t.Cleanup(func() { w.end(ErrEnded) })
	c := w.comm(me)
	w.at(me).addComm(c)
	return c, s
}

var phases = [...]string{consensus.PhaseJoin: "join", consensus.PhasePropose: "propose", consensus.PhaseAccept: "accept", consensus.PhaseCommit: "commit"}

// valuesIn returns the messages of agreements among the frames that a rank has sent, as in "join 0
// in 1".
func valuesIn(t *testing.T, n int, sent []addressed) (all string) {
	t.Helper()
	for _, x := range sent {
		if wire.Protocol(x.f.Head[3]>>8) != wire.Agreeing {
			continue
		}
		m, err := wire.UnpackAgreement(n, &x.f.Head, x.f.Data)
		require.NoError(t, err)
		all += fmt.Sprintf("%s %d in %d;", phases[m.Phase], x.to, x.f.Head[1]>>32)
	}
	return all
}

// valueOf is the value of one rank of n.
func valueOf(kind consensus.Kind, n int, flags uint64) *consensus.Value {
	v := consensus.NewValue(kind, n)
	v.Flags = flags
	if kind == consensus.Shrink {
		v.Ctx = 1<<32 | 8
	}
	return v
}

func TestGroupsAsData(t *testing.T) {
	for size, group := range map[int][]int32{1: {0}, 3: {2, 0}, 4: {3, 2, 1, 0}} {
		got, err := wire.UnpackGroup(wire.PackGroup(group), size)
		require.NoError(t, err)
		for i, r := range group {
			require.Equal(t, int(r), got[i])
		}
		require.Len(t, got, len(group))
	}
	all, err := wire.UnpackGroup(nil, 3)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2}, all)
	for says, b := range map[string][]byte{
		"in 3 bytes":  {0, 0, 0},
		"in 5 bytes":  {0, 0, 0, 0, 0},
		"in 12 bytes": wire.PackGroup([]int32{0, 1, 0}),
		"with rank 2": wire.PackGroup([]int32{0, 2}),
		"4294967295":  wire.PackGroup([]int32{-1}),
	} {
		_, err := wire.UnpackGroup(b, 2)
		require.ErrorContains(t, err, says)
	}
}

// hear delivers a message of an agreement to the rank of c.
func hear(c *Comm, from int, seq uint32, m consensus.Message) error {
	f := wire.PackAgreement(&m, c.ctx, seq)
	return c.proc.receiveAgreement(from, &f)
}

// Messages for an agreement that the rank has not begun are kept, up to a limit. Messages of ranks
// that are lost by then do not count. A rank that sends to an agreement of others is marked lost.
func TestEarlyAgreementMessages(t *testing.T) {
	const n = 3
	c, s := lone(t, 1, n)
	commit := consensus.Message{Phase: consensus.PhaseCommit, By: -1, Value: valueOf(consensus.Agree, n, 6)}
	require.NoError(t, hear(c, 0, 1, commit))
	for range 4*n - 1 {
		require.NoError(t, hear(c, 2, 1, consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: valueOf(consensus.Agree, n, 4)}))
	}
	require.ErrorContains(t, hear(c, 2, 1, commit), "it sends 12 messages to an agreement that this rank has not come to")
	require.Empty(t, s.take())
	a, r := c.agree(consensus.Agree, 7)
	require.NoError(t, wait(r))
	require.EqualValues(t, 6, a.Instance.Out.Flags)
	require.Equal(t, "join 0 in 1;commit 2 in 1;", valuesIn(t, n, s.take())[:len("join 0 in 1;commit 2 in 1;")])

	// The commit of a rank that is lost now, and a message of an unknown phase.
	require.NoError(t, hear(c, 0, 2, commit))
	c.proc.reportLoss(0, errTest)
	require.NoError(t, hear(c, 2, 2, consensus.Message{Phase: consensus.PhaseCommit + 1, Value: valueOf(consensus.Agree, n, 0)}))
	s.take()
	a, r = c.agree(consensus.Agree, 7)
	require.NoError(t, wait(r)) // no other rank is left
	require.EqualValues(t, 7, a.Instance.Out.Flags)
	require.ErrorContains(t, c.proc.failure.Load().lostRank(2), "it sends to an agreement of others")
}

// The members of an agreement are those of its communicator.
func TestAgreementMessagesOfOthers(t *testing.T) {
	const n = 4
	world, s := lone(t, 1, n)
	c := world.sub([]int{3, 1}, 1<<32|2)
	early := consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: valueOf(consensus.Agree, 2, 4)}
	require.NoError(t, hear(c, 2, 1, early)) // the rank cannot know yet whether rank 2 is a member
	_, r := c.agree(consensus.Agree, 7)
	require.ErrorContains(t, world.proc.failure.Load().lostRank(2), "it sends to an agreement of others")
	require.Equal(t, "join 3 in 1;", valuesIn(t, 2, s.take()))
	require.ErrorContains(t, hear(c, 0, 1, early), "it sends to an agreement of others")
	require.ErrorContains(t, hear(c, 3, 1, consensus.Message{Phase: consensus.PhaseCommit, By: 2, Value: valueOf(consensus.Agree, 2, 4)}), "rank 2 to an agreement of 2")
	require.NoError(t, hear(c, 3, 1, consensus.Message{Phase: consensus.PhasePropose, Value: valueOf(consensus.Agree, 2, 4)}))
	require.Equal(t, "accept 3 in 1;", valuesIn(t, 2, s.take()))
	world.proc.reportLoss(0, errTest) // no member
	require.Empty(t, valuesIn(t, 2, s.take()))
	require.False(t, r.Done())
	world.proc.reportLoss(3, errTest)
	require.NoError(t, wait(r))
}

// A decision makes all earlier agreements useless: they are forgotten, their waiters get an error,
// and messages that still come for them change nothing. Its own messages are answered.
func TestAgreementsThatAreOver(t *testing.T) {
	const n = 3
	c, s := lone(t, 1, n)
	commit := consensus.Message{Phase: consensus.PhaseCommit, By: -1, Value: valueOf(consensus.Agree, n, 6)}
	join := consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: valueOf(consensus.Agree, n, 4)}
	open := func() (seqs []uint32) {
		c.proc.agreements.Each(func(ctx uint64, seq uint32, _ *consensus.Agreement) {
			require.Equal(t, c.ctx, ctx)
			seqs = append(seqs, seq)
		})
		return seqs
	}
	require.NoError(t, hear(c, 2, 0, join)) // no agreement has this number
	require.Empty(t, open())
	_, first := c.agree(consensus.Agree, 7)
	_, second := c.agree(consensus.Agree, 7)
	third, last := c.agree(consensus.Agree, 7)
	require.Equal(t, "join 0 in 1;join 0 in 2;join 0 in 3;", valuesIn(t, n, s.take()))
	require.NoError(t, hear(c, 0, 2, commit))
	require.NoError(t, wait(second))
	require.ErrorIs(t, wait(first), ErrMismatch)
	require.ErrorContains(t, wait(first), "a later agreement was decided before this one")
	require.False(t, last.Done())
	require.ElementsMatch(t, []uint32{2, 3}, open())
	require.NoError(t, hear(c, 2, 1, join))
	require.Empty(t, s.take())
	require.NoError(t, hear(c, 2, 2, join))
	require.Equal(t, "commit 2 in 2;", valuesIn(t, n, s.take()))
	require.NoError(t, hear(c, 0, 2, commit)) // once more
	require.ElementsMatch(t, []uint32{2, 3}, open())

	// An agreement that has been given up here is decided all the same.
	c.proc.agreements.End(c.ctx, third.Number, errTest)
	require.NoError(t, hear(c, 0, 3, commit))
	require.ErrorIs(t, wait(last), errTest)
	require.NotNil(t, third.Instance.Out)

	// A goroutine that begins an agreement whose number is over gets an error.
	c.agreeSeq.Store(0)
	a, r := c.agree(consensus.Agree, 7)
	require.Nil(t, a)
	require.ErrorIs(t, wait(r), errPassed)
	require.Empty(t, s.take())

	// After the end of the rank there are no agreements.
	c.agreeSeq.Store(4)
	_, waits := c.agree(consensus.Agree, 7)
	early := consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: valueOf(consensus.Agree, n, 4)}
	require.NoError(t, hear(c, 0, 6, early)) // this rank will not begin it
	c.proc.agreements.Kill(errTest)
	require.ErrorIs(t, wait(waits), errTest)
	require.NoError(t, hear(c, 0, 7, early))
	require.NotContains(t, open(), uint32(7))
	_, r = c.agree(consensus.Agree, 7)
	require.ErrorIs(t, wait(r), errTest)
}

// The value of a rank has the losses that it knows of, and its coordinator is a rank that it does
// not know to be lost.
func TestAgreementValuesHaveLosses(t *testing.T) {
	const n = 4
	c, s := lone(t, 2, n)
	c.proc.reportLoss(3, errTest)
	c.proc.reportLoss(0, errTest)
	require.Equal(t, 1, c.AckFailed(1))
	s.take()
	a, r := c.agree(consensus.Shrink, 7)
	require.Equal(t, []int{0, 3}, ranksIn(a.Instance.Mine.Lost, n))
	require.Equal(t, []int{3}, ranksIn(a.Instance.Mine.Acked, n))
	require.Equal(t, []int{0, 3}, ranksIn(a.Instance.Gone, n))
	require.NotZero(t, a.Instance.Mine.Ctx)
	require.Equal(t, "join 1 in 1;", valuesIn(t, n, s.take()))
	c.proc.reportLoss(1, errTest)
	require.NoError(t, wait(r))
	require.Equal(t, []int{0, 1, 3}, ranksIn(a.Instance.Out.Lost, n))
	a, r = c.agree(consensus.Agree, 7)
	require.NoError(t, wait(r)) // no other rank is left
	require.Zero(t, a.Instance.Mine.Ctx)
	require.Empty(t, valuesIn(t, n, s.take()))
}

// ranksIn returns the ranks of a set.
func ranksIn(s consensus.Members, n int) (all []int) {
	for r := range n {
		if s.Has(r) {
			all = append(all, r)
		}
	}
	return all
}

// A disagreement ends the waiting for agreements from its number on, and no other.
func TestDisagreementsEndAgreements(t *testing.T) {
	const n = 3
	c, _ := lone(t, 1, n)
	s := &c.proc.agreements
	var all [4]*Request
	for i := range all {
		_, all[i] = c.agree(consensus.Agree, 7)
	}
	_, leave := c.agree(consensus.Leave, 0) // not among the collectives
	require.NoError(t, hear(c, 0, 9, consensus.Message{Phase: consensus.PhaseJoin, By: -1, Value: valueOf(consensus.Agree, n, 4)}))
	waiting := func() (waits map[uint32]int) {
		waits = map[uint32]int{}
		s.Each(func(_ uint64, seq uint32, a *consensus.Agreement) {
			if a.Waits() && a.Number != 0 && a.Instance.Awaits() >= 0 {
				require.Equal(t, (*agreementGroup)(c), a.Group)
				waits[seq] = a.Instance.Awaits()
			}
		})
		return waits
	}
	done := func() (is []bool) {
		for _, r := range append(all[:], leave) {
			is = append(is, r.Done())
		}
		return is
	}
	require.Equal(t, map[uint32]int{1: 0, 2: 0, 3: 0, 4: 0}, waiting())
	c.proc.endAgreements(c.ctx, &disagreement{err: errTest})
	c.proc.endAgreements(c.ctx+2, &disagreement{err: errTest, from: 1})
	require.Equal(t, []bool{false, false, false, false, false}, done())
	c.proc.endAgreements(c.ctx, &disagreement{err: errTest, from: 3})
	require.Equal(t, []bool{false, false, true, true, false}, done())
	require.ErrorIs(t, wait(all[2]), errTest)
	require.Equal(t, map[uint32]int{1: 0, 2: 0}, waiting())
	require.NoError(t, hear(c, 0, 2, consensus.Message{Phase: consensus.PhasePropose, By: 0, Value: valueOf(consensus.Agree, n, 4)}))
	require.Equal(t, map[uint32]int{1: 0}, waiting())
	c.proc.endAgreements(c.ctx, &disagreement{err: errors.New("another"), from: 2})
	require.ErrorIs(t, wait(all[2]), errTest)
	require.Equal(t, []bool{false, true, true, true, false}, done())
	s.End(c.ctx+2, 0, errTest)
	require.False(t, leave.Done())
	s.End(c.ctx, 0, ErrEnded)
	require.ErrorIs(t, wait(leave), ErrEnded)
	require.ErrorIs(t, wait(all[3]), errTest)
}

// An agreement reports a death to no rank if all have acknowledged it, and to all ranks otherwise,
// also if it happens while they wait for the rank that dies. Then all know of it.
func TestAgreeReportsDeaths(t *testing.T) {
	for how, run := range runners {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while others wait: %v", how, late), func(t *testing.T) {
				var waiting sync.WaitGroup
				waiting.Add(2)
				err := run(t.Context(), Config{Ranks: 3, Survive: true}, func(c *Comm) error {
					if c.Rank() == 2 {
						if late {
							waiting.Wait()
							runtime.Gosched()
						}
						return errTest
					}
					if late {
						waiting.Done()
					}
					for acked := range 3 { // acknowledged by none, by rank 0, by both
						want := min(1, max(0, acked-c.Rank()))
						if n := c.AckFailed(want); n != want {
							return fmt.Errorf("%d of %v are acknowledged, not %d", n, c.Failed(), want)
						}
						all, err := c.Agree(t.Context(), uint64(3-c.Rank()))
						if all != 2 || errors.Is(err, ErrPeerLost) != (acked < 2) {
							return fmt.Errorf("acknowledged by %d, agreed on %d: %w", acked, all, err)
						}
					}
					return nil
				})
				if of := (*RankError)(nil); err != nil {
					require.ErrorAs(t, err, &of)
					require.Equal(t, 2, of.Rank, "%v", err)
				}
			})
		}
	}
}
