// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/boot"
	"weft/internal/env"
	"weft/internal/launch"
)

// The launcher is told whose failure ends a rank, and why if that is certain; it is not told what
// it knows.
func TestBlame(t *testing.T) {
	const me = 2
	lost := func(r int) error { return &LostError{Rank: r, Err: errTest} }
	death := func(r int) error { return &launch.Death{Rank: r, How: "exit status 3"} }
	for name, row := range map[string]struct {
		cause         error
		unsure, known *launch.Blame // as one of several causes, and as the one
	}{
		"the end":                        {ErrEnded, nil, nil},
		"an abort":                       {fmt.Errorf("so: %w", &launch.Abort{Rank: 1, Reason: "x"}), nil, nil},
		"no launcher":                    {launch.ErrLauncherLost, nil, nil},
		"a deadlock":                     {&remoteDeadlock{"all wait"}, nil, nil},
		"its own failure":                {errTest, nil, &launch.Blame{Rank: me, Reason: "test"}},
		"its own failure, by its name":   {&RankError{me, errTest}, nil, &launch.Blame{Rank: me, Reason: "test"}},
		"its own death":                  {death(me), nil, &launch.Blame{Rank: me, Reason: "rank 2 has ended: exit status 3"}},
		"its own loss":                   {lost(me), &launch.Blame{Rank: -1}, &launch.Blame{Rank: -1, Lost: true, Reason: "test"}},
		"a loss of an unknown rank":      {fmt.Errorf("%w: x", ErrPeerLost), &launch.Blame{Rank: -1}, &launch.Blame{Rank: -1, Reason: ErrPeerLost.Error() + ": x"}},
		"the loss of another":            {lost(0), &launch.Blame{Rank: 0}, &launch.Blame{Rank: 0, Lost: true, Reason: "test"}},
		"an operation, by such a loss":   {&Error{Op: "send", Rank: me, Peer: 3, Err: lost(3)}, &launch.Blame{Rank: 3}, &launch.Blame{Rank: 3, Reason: "send, peer 3, tag 0: rank 3 is lost: test"}},
		"the failure of another":         {&RankError{3, errTest}, &launch.Blame{Rank: 3}, &launch.Blame{Rank: 3, Reason: "test"}},
		"the death of another":           {death(3), &launch.Blame{Rank: 3}, &launch.Blame{Rank: 3, Reason: "rank 3 has ended: exit status 3"}},
		"the loss of one, told by other": {&RankError{3, lost(1)}, &launch.Blame{Rank: 1}, &launch.Blame{Rank: 1, Lost: true, Reason: "test"}},
	} {
		require.Equal(t, row.unsure, blameOf(row.cause, me, false), name)
		got := blameOf(row.cause, me, true)
		if row.known == nil {
			require.Nil(t, got, name)
			continue
		}
		row.known.Certain = true
		require.Equal(t, row.known, got, name)
	}
}

// The error of a rank that could not start names the rank whose failure caused that.
func TestFailedStartNamesTheRank(t *testing.T) {
	job := &boot.Job{Rank: 1, Size: 4}
	death := &launch.Death{Rank: 3, How: "exit status 3"}
	told := &launch.Death{Rank: 3, How: "exit status 3", Cause: &launch.Blame{Rank: 2, Reason: "no room"}}
	gone := &launch.Death{Rank: 3, How: "exit status 3", Cause: &launch.Blame{Rank: 0, Lost: true, Reason: "killed"}}
	for _, row := range []struct {
		err  error
		says string
	}{
		{errTest, "rank 1 of 4: test"},
		{death, "rank 3 is lost: exit status 3"},
		{fmt.Errorf("meet: %w", death), "rank 3 is lost: exit status 3"},
		{told, "rank 2 of 4: no room"},
		{gone, "rank 0 is lost: killed"},
	} {
		require.EqualError(t, notStarted(job, rootFailure(row.err)), row.says)
	}
	refused := notStarted(job, &boot.Refused{Rank: 2, Text: "no"})
	require.EqualError(t, refused, "rank 2 of 4: no")
	require.ErrorAs(t, refused, new(*RemoteError))
	err := (&Config{Ranks: 3}).prepare(4)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "the program wants 3 ranks, and is one of 4 that were started")
	for _, n := range []int{0, 4} {
		cfg := Config{Ranks: n}
		require.NoError(t, cfg.prepare(4))
		require.Equal(t, 4, cfg.Ranks)
	}
	t.Setenv(EnvSpare, "yes")
	err = (&Config{}).prepare(4)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, EnvSpare)
}

// A process that is one rank runs one Main at a time.
func TestOneMainAtATime(t *testing.T) {
	require.ErrorIs(t, asRank(func() error {
		err := asRank(func() error { panic("two") })
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, "Main is called while it runs in this process")
		return errTest
	}), errTest)
	require.NoError(t, asRank(func() error { return nil }), "the other is over")
}

// The launcher is told of a failure before any operation fails with it: of each loss once, as long
// as this rank lives, and of this rank's own death as a certainty.
func TestBlameComesFirst(t *testing.T) {
	type said struct {
		cause   error
		certain bool
	}
	begin := func(t *testing.T, survive bool) (*Comm, *[]said, *Request) {
		_, c := withNeighbours(t, survive)
		list := new([]said)
		r := c.Irecv(Of(make([]byte, 1)), 1, 0)
		c.world.blame = func(cause error, certain bool) {
			if cause != ErrEnded {
				require.Nil(t, c.world.aborted.Load())
				require.False(t, r.Done() && len(*list) == 0, "nothing has failed yet")
				*list = append(*list, said{cause, certain})
			}
		}
		return c, list, r
	}
	lost := &LostError{Rank: 1, Err: errTest}

	c, list, r := begin(t, true)
	c.proc.reportLoss(1, errTest)
	require.ErrorIs(t, wait(r), ErrPeerLost)
	require.Equal(t, []said{{lost, false}}, *list)
	c.proc.reportLoss(1, errors.New("again"))
	require.Len(t, *list, 1)
	c.world.failed(0, errTest)
	require.Equal(t, said{errTest, true}, (*list)[1])
	c.proc.reportLoss(2, errTest)
	require.NotContains(t, *list, said{&LostError{Rank: 2, Err: errTest}, false}, "it is dead itself")

	c, list, r = begin(t, false)
	c.proc.reportLoss(1, errTest)
	require.ErrorIs(t, wait(r), ErrPeerLost)
	require.Equal(t, []said{{&RankError{1, lost}, true}}, *list)
}

// Each variable of the environment that a run reads, or that only other programs and builds read,
// is checked when the run begins; an illegal value is named with its variable.
func TestSettingsOfARun(t *testing.T) {
	_, err := (&Config{Ranks: env.MaxRanks}).validate()
	require.NoError(t, err)
	for name, values := range map[string][2][]string{ // legal and illegal values
		EnvRanks:           {{"", "1", strconv.Itoa(env.MaxRanks)}, {"0", "-1", strconv.Itoa(env.MaxRanks + 1), "two"}},
		EnvSurvive:         {{"", "0", "1"}, {"2", "-1", "yes"}},
		EnvSpare:           {{"", "0", "1"}, {"2", "-1", "yes"}},
		EnvDeadlock:        {{"", "-1", "0", "7"}, {"-2", "1.5", "never"}},
		EnvCollectives:     {{""}, {"magic"}},
		env.UseMPI.Name:    {{"", "0", "1"}, {"2", "no"}},
		env.MPISleep.Name:  {{"", "0s", "16ms"}, {"-1ns", "5h", "16"}},
		env.Bound.Name:     {{"", "0-3"}, {"3-", "x"}},
		env.Histogram.Name: {{"", "0", "1"}, {"2", "yes"}},
		"WEFT_TRACE_NONE":  {{"", "x"}, nil}, // unknown: the run reports it, and begins
	} {
		for i, list := range values {
			for _, v := range list {
				t.Setenv(name, v)
				cfg := Config{}
				n, err := cfg.validate()
				if i == 1 {
					require.ErrorIs(t, err, ErrConfig, "%s=%s", name, v)
					require.ErrorContains(t, err, fmt.Sprintf("%s=%q", name, v))
					require.Zero(t, n)
					continue
				}
				require.NoError(t, err, "%s=%s", name, v)
				require.Equal(t, name == EnvSurvive && v == "1", cfg.Survive)
				require.Equal(t, name == EnvSpare && v == "1", cfg.spare)
				require.Equal(t, name == EnvDeadlock && v == "7", cfg.DeadlockWarnings == 7)
			}
		}
		t.Setenv(name, "")
	}
	// What the program sets counts.
	t.Setenv(EnvSurvive, "0")
	t.Setenv(EnvDeadlock, "7")
	cfg := Config{Ranks: 3, Survive: true, DeadlockWarnings: 2}
	n, err := cfg.validate()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.True(t, cfg.Survive)
	require.Equal(t, 2, cfg.DeadlockWarnings)
}
