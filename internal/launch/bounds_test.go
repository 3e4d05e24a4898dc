// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// joinedSpace is a space of some ranks that all have joined.
func joinedSpace(t *testing.T, ranks int) *space {
	t.Helper()
	s := newSpace(ranks)
	for r := range ranks {
		_, err := s.join(r)
		require.NoError(t, err)
	}
	return s
}

// Each bound of what a rank may publish and ask for, one below, at it and above.
func TestBoundsOfSpace(t *testing.T) {
	for _, row := range []struct {
		f    frame
		good bool
	}{
		{frame{kind: rankPuts}, false},
		{frame{kind: rankPuts, key: "k"}, true},
		{frame{kind: rankPuts, key: strings.Repeat("k", MaxKey)}, true},
		{frame{kind: rankPuts, key: strings.Repeat("k", MaxKey+1)}, false},
		{frame{kind: rankPuts, key: "k", value: make([]byte, MaxValue)}, true},
		{frame{kind: rankPuts, key: "k", value: make([]byte, MaxValue+1)}, false},
		{frame{kind: rankGets, rank: -1, key: "k"}, false},
		{frame{kind: rankGets, rank: 0, key: "k"}, true},
		{frame{kind: rankGets, rank: 2, key: "k"}, true},
		{frame{kind: rankGets, rank: 3, key: "k"}, false},
		{frame{kind: rankGets}, false},
		{frame{kind: rankExchanges, id: 0}, false},
		{frame{kind: rankExchanges, id: 1}, true},
		{frame{kind: rankExchanges, id: 2}, false},
	} {
		_, err := joinedSpace(t, 3).handle(1, &row.f)
		require.Equal(t, row.good, err == nil, "kind %d, rank %d, id %d, %d and %d bytes: %v", row.f.kind, row.f.rank, row.f.id, len(row.f.key), len(row.f.value), err)
	}

	s := joinedSpace(t, 1)
	for i := range MaxKeys {
		_, err := s.handle(0, &frame{kind: rankPuts, key: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	_, err := s.handle(0, &frame{kind: rankPuts, key: "one more"})
	require.ErrorIs(t, err, ErrLimit)

	s = joinedSpace(t, 1)
	for i := range MaxRankBytes/MaxValue - 1 {
		_, err := s.handle(0, &frame{kind: rankPuts, key: fmt.Sprint(i), value: make([]byte, MaxValue)})
		require.NoError(t, err)
	}
	_, err = s.handle(0, &frame{kind: rankPuts, key: "k", value: make([]byte, MaxValue-1)})
	require.NoError(t, err)
	_, err = s.handle(0, &frame{kind: rankPuts, key: "two", value: make([]byte, 2)})
	require.ErrorIs(t, err, ErrLimit)
	_, err = s.handle(0, &frame{kind: rankPuts, key: "two", value: make([]byte, 1)})
	require.NoError(t, err, "what was refused takes no room")

	// Gets that wait are counted until they are answered, by a value or by an end.
	s = joinedSpace(t, 3)
	ask := func(i int) error {
		_, err := s.handle(1, &frame{kind: rankGets, id: uint64(i), rank: int32(2 * (i % 2)), key: fmt.Sprint(i)})
		return err
	}
	for i := range maxWaiting {
		require.NoError(t, ask(i))
	}
	require.ErrorIs(t, ask(maxWaiting), ErrLimit)
	out, err := s.handle(0, &frame{kind: rankPuts, key: "4", value: []byte("four")})
	require.NoError(t, err)
	require.Equal(t, []post{{1, frame{kind: jobAnswers, id: 4, value: []byte("four")}}}, out)
	require.NoError(t, ask(maxWaiting))
	require.ErrorIs(t, ask(maxWaiting+2), ErrLimit)
	require.Len(t, s.leave(2), maxWaiting/2)
	for i := range maxWaiting / 2 {
		require.NoError(t, ask(2*(maxWaiting+i)))
	}
	require.ErrorIs(t, ask(4*maxWaiting), ErrLimit)
}

// A rank takes no frame from its launcher that names ranks, gets or exchanges that there are not.
func TestBoundsOfClient(t *testing.T) {
	client := func() *Client {
		return &Client{
			place: Place{Rank: 1, Ranks: 3}, gets: map[uint64]chan answer{7: make(chan answer, 1)}, deaths: map[int]*Death{},
			round: 5, exchange: make(chan answer, 1), shares: make([][]byte, 3),
		}
	}
	for _, row := range []struct {
		f    frame
		good bool
	}{
		{frame{kind: jobDenies, id: 7, rank: -1}, false},
		{frame{kind: jobDenies, id: 7, rank: 0}, true},
		{frame{kind: jobDenies, id: 7, rank: 2}, true},
		{frame{kind: jobDenies, id: 7, rank: 3}, false},
		{frame{kind: jobDenies, id: 6}, false},
		{frame{kind: jobAnswers, id: 7}, true},
		{frame{kind: jobAnswers, id: 8}, false},
		{frame{kind: jobShares, id: 5, rank: -1}, false},
		{frame{kind: jobShares, id: 5, rank: 2}, true},
		{frame{kind: jobShares, id: 5, rank: 3}, false},
		{frame{kind: jobShares, id: 4}, false},
		{frame{kind: jobShared, id: 5}, true},
		{frame{kind: jobShared, id: 6}, false},
		{frame{kind: jobFails, id: 5, rank: 2}, true},
		{frame{kind: jobFails, id: 5, rank: 3}, false},
		{frame{kind: jobFails, id: 6, rank: 2}, false},
		{frame{kind: jobMourns, rank: -1}, false},
		{frame{kind: jobMourns, rank: 0}, true},
		{frame{kind: jobMourns, rank: 3}, false},
		{frame{kind: jobMourns, rank: 0, key: "2"}, true},
		{frame{kind: jobMourns, rank: 0, key: "3"}, false},
		{frame{kind: jobMourns, rank: 0, key: "-1"}, false},
		{frame{kind: jobAborts, rank: -2}, false},
		{frame{kind: jobAborts, rank: -1}, true},
		{frame{kind: jobAborts, rank: 2}, true},
		{frame{kind: jobAborts, rank: 3}, false},
		{frame{kind: jobAsks}, false},
		{frame{kind: rankPuts, key: "k"}, false},
	} {
		c := client()
		err := c.handle(&row.f)
		if row.good {
			require.NoError(t, err, "%+v", row.f)
		} else {
			require.ErrorIs(t, err, ErrProtocol, "%+v", row.f)
			require.Empty(t, c.deaths)
			require.Nil(t, c.abort)
		}
	}
	c := client()
	require.NoError(t, c.handle(&frame{kind: jobMourns, rank: 2}))
	require.ErrorIs(t, c.handle(&frame{kind: jobMourns, rank: 2}), ErrProtocol, "a rank dies once")
	require.NoError(t, c.handle(&frame{kind: jobFails, id: 5, rank: 2}))
	require.NoError(t, c.handle(&frame{kind: jobFails, id: 5, rank: 0}), "each rank that goes breaks what is broken")
	require.ErrorIs(t, c.handle(&frame{kind: jobShared, id: 5}), ErrProtocol, "and nothing mends it")
	require.NoError(t, c.handle(&frame{kind: jobAborts}))
	require.NoError(t, c.handle(&frame{kind: jobShared, id: 9}), "a job that is being ended sends what it will")
}
