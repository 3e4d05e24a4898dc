// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/consensus"
	"weft/comm/internal/smcoll"
	"weft/comm/internal/wire"
	"weft/internal/fabric/inproc"
)

// questions returns the ranks that frames have asked to compare since the last call.
func (s *frameRecorder) questions() (to []int) {
	for _, x := range s.take() {
		if wire.Protocol(x.f.Head[3]>>8) == wire.Comparing {
			to = append(to, x.to)
		}
	}
	slices.Sort(to)
	return to
}

// What has waited at two checks makes the awaited rank compare, once for what was begun then.
// askAll does so for all that waits. Ended operations are forgotten.
func TestStaleCheckAsksOnce(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = time.Hour
	c, s := lone(t, 1, 3)
	stale := &c.world.stale
	stale.start(c.world)
	defer stale.stop()
	require.NotNil(t, stale.timer)
	stale.timer.Stop()
	stale.check()
	require.NotNil(t, stale.timer, "there will be more to check")
	require.Empty(t, stale.waited)

	first := c.Ibarrier() // waits for rank 0
	c.Irecv(Of(make([]int, 1)), 2, 5)
	require.Empty(t, s.questions())
	stale.check()
	require.Empty(t, s.questions(), "it may have come just now")
	require.Len(t, stale.waited[c.proc], 1)
	stale.check()
	require.Equal(t, []int{0}, s.questions())
	stale.check()
	require.Empty(t, s.questions(), "it was asked")

	a, agreement := c.agree(consensus.Agree, 7)
	require.NotZero(t, a.Number)
	d := c.sub([]int{2, 1}, 1<<32|2)
	c.proc.addComm(d)
	second := d.Ibarrier() // waits for rank 2 of the run
	require.True(t, stale.askAll())
	require.Equal(t, []int{0, 0, 2}, s.questions(), "rank 0 for the agreement, and once more for the receive, since the agreement has begun meanwhile")
	require.False(t, stale.askAll())
	require.Empty(t, s.questions())
	require.Len(t, stale.waited[c.proc], 3)
	stale.check()
	require.Empty(t, s.questions())

	c.proc.revoke(d.ctx)
	require.ErrorIs(t, wait(second), ErrRevoked)
	stale.check()
	require.Len(t, stale.waited[c.proc], 2)
	c.proc.revoke(c.ctx)
	require.ErrorIs(t, wait(first), ErrRevoked)
	c.proc.agreements.End(c.ctx, 0, errTest)
	require.ErrorIs(t, wait(agreement), errTest)
	stale.check()
	require.Empty(t, stale.waited)
	require.False(t, stale.askAll())
	require.Empty(t, s.questions())

	stale.stop()
	require.Nil(t, stale.timer)
	stale.check()
	stale.schedule()
	require.Nil(t, stale.timer, "after the end there is none")
}

// No stale check is needed where all collectives go through memory.
func TestStaleCheckIsNeeded(t *testing.T) {
	for _, x := range []struct {
		w    *world
		want bool
	}{
		{&world{memoryColls: true, size: smcoll.FlatRanks}, true}, {&world{memoryColls: true, size: smcoll.FlatRanks + 1}, false},
		{&world{size: 2}, false}, {&world{memoryColls: true, size: 2, multiProcess: true}, false},
	} {
		s := staleChecker{w: x.w}
		require.Equal(t, x.want, s.allInMemory())
		s.start(x.w)
		require.Equal(t, !x.want, s.timer != nil)
		s.stop()
	}
}

// The error of a divided run is that of the rank that ended it, whichever part has it.
func TestDividedRun(t *testing.T) {
	cfg := Config{Ranks: 4}
	_, err := cfg.validate()
	require.NoError(t, err)
	for bad := range 5 { // the last one is none
		eps, err := inproc.New(4)
		require.NoError(t, err)
		err = runDivided(context.Background(), cfg, eps, []int{0, 1, 3, 4}, func(c *Comm) error {
			if c.Rank() == bad {
				return fmt.Errorf("by %d: %w", bad, errTest)
			}
			if bad < 4 {
				_, err := c.Recv(Of(make([]int, 1)), bad, 0)
				return err
			}
			return c.Barrier()
		})
		if bad == 4 {
			require.NoError(t, err)
			continue
		}
		var of *RankError
		require.True(t, errors.As(err, &of))
		require.Equal(t, bad, of.Rank)
		require.ErrorIs(t, err, errTest, "the rank's own error, not what others have heard of it")
	}
}
