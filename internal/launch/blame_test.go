// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The launcher knows a rank's blame before the rank's end.
func TestBlameIsKnown(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 3})
	cs := joinAll(t, s)
	require.Nil(t, s.Blames(0))
	for i, row := range []struct{ say, want Blame }{
		{Blame{Rank: 1}, Blame{Rank: 1}},
		{Blame{Rank: 2}, Blame{Rank: 2}},                               // the last blame counts
		{Blame{Rank: 1, Certain: true}, Blame{Rank: 1, Certain: true}}, // until it is certain
		{Blame{Rank: 2, Certain: true}, Blame{Rank: 1, Certain: true}},
		{Blame{Rank: -1}, Blame{Rank: 1, Certain: true}},
	} {
		require.NoError(t, cs[0].Blame(row.say))
		// Frames are handled in their order: the answer to a later frame shows that this one was
		// handled.
		key := fmt.Sprint(i)
		require.NoError(t, cs[0].Put(key, nil))
		_, err := cs[0].Get(t.Context(), 0, key)
		require.NoError(t, err)
		require.Equal(t, &row.want, s.Blames(0))
	}
	require.NoError(t, cs[1].Blame(Blame{Rank: 0, Certain: true}))
	require.NoError(t, cs[1].Leave())
	s.Settle(1)
	require.Equal(t, &Blame{Rank: 0, Certain: true}, s.Blames(1))
	require.Nil(t, s.Blames(2))
	require.ErrorIs(t, cs[1].Blame(Blame{Rank: 0}), ErrLeft)
	for _, rank := range []int{2, 3, -2} {
		require.ErrorIs(t, cs[2].Blame(Blame{Rank: rank}), ErrLimit)
	}
}

// The notice of an end has the rank's blame of another rank, if it is certain and has a reason: the
// rank, the reason, and whether it is a loss. Otherwise it has the rank's blame of itself.
func TestCauseOfAnEnd(t *testing.T) {
	other := Blame{Rank: 1, Certain: true, Reason: "no room"}
	lost := Blame{Rank: 1, Certain: true, Reason: "gone", Lost: true}
	own := Blame{Rank: 0, Certain: true, Reason: "own"}
	for _, row := range []struct {
		says []Blame
		want *Blame
	}{
		{nil, nil},
		{[]Blame{other}, &other},
		{[]Blame{lost}, &lost},
		{[]Blame{own}, &own},
		{[]Blame{own, other}, &other},
		{[]Blame{{Rank: 1, Certain: true}, own}, &own},
		{[]Blame{{Rank: 1, Certain: true}}, nil},
		{[]Blame{{Rank: 1, Reason: "perhaps"}, own}, &own},
		{[]Blame{{Rank: -1, Certain: true, Reason: "unknown"}, own}, &own},
	} {
		s := newTestServer(t, ServerConfig{Ranks: 2})
		cs := joinAll(t, s)
		heard := news(cs[1])
		for _, b := range row.says {
			require.NoError(t, cs[0].Blame(b))
		}
		_ = cs[0].c.Close()
		s.Settle(0)
		s.Ended(0, 1, "exit status 1")
		require.Equal(t, &Death{Rank: 0, Code: 1, How: "exit status 1", Cause: row.want}, <-heard, "%+v", row)
	}
}

// A rank that blames a rank that does not exist, or itself without being certain, violates the
// protocol.
func TestIllegalBlames(t *testing.T) {
	sp := newSpace(2)
	_, err := sp.join(0)
	require.NoError(t, err)
	for _, f := range []frame{{rank: 0}, {rank: 2}, {rank: -2}, {rank: 1, code: 4}, {rank: 1, code: -1}, {rank: 0, code: 2}} {
		f.kind = rankBlames
		_, err := sp.handle(0, &f)
		require.ErrorIs(t, err, ErrProtocol)
	}
	require.Nil(t, sp.members[0].blames)
}
