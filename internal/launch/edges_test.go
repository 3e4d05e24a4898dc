// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// Numbers in the environment of a rank are legal up to their bounds, and errors name the variable
// and the legal values.
func TestDetectAtTheEdges(t *testing.T) {
	for _, row := range []struct{ rank, ranks, wrong string }{
		{"0", "1", ""}, {"0", "0", env.Ranks.Name}, {"0", "-1", env.Ranks.Name}, {"0", "", env.Ranks.Name}, {"0", "1x", env.Ranks.Name},
		{"0", strconv.Itoa(MaxRanks), ""}, {strconv.Itoa(MaxRanks - 1), strconv.Itoa(MaxRanks), ""},
		{strconv.Itoa(MaxRanks), strconv.Itoa(MaxRanks), env.Rank.Name}, {"0", strconv.Itoa(MaxRanks + 1), env.Ranks.Name},
		{"1", "2", ""}, {"2", "2", env.Rank.Name}, {"-1", "2", env.Rank.Name}, {"", "2", env.Rank.Name}, {" 1", "2", env.Rank.Name},
	} {
		t.Setenv(env.Rank.Name, row.rank)
		t.Setenv(env.Ranks.Name, row.ranks)
		t.Setenv(env.Job.Name, "/d")
		p, err := Detect()
		if row.wrong == "" {
			require.NoError(t, err, row)
			require.Equal(t, []string{env.Rank.Name + "=" + row.rank, env.Ranks.Name + "=" + row.ranks, env.Job.Name + "=/d"}, p.Environ())
			continue
		}
		require.ErrorIs(t, err, ErrEnvironment, row)
		require.ErrorContains(t, err, row.wrong+"=", row)
		require.ErrorContains(t, err, "it is a number from", row)
	}
	for ranks, ok := range map[int]bool{-1: false, 0: false, 1: true, MaxRanks: true, MaxRanks + 1: false} {
		s, err := NewServer(ServerConfig{Ranks: ranks})
		require.Equal(t, ok, err == nil, ranks)
		if ok {
			require.NoError(t, s.Close())
		} else {
			require.ErrorIs(t, err, ErrLimit)
			require.ErrorContains(t, err, fmt.Sprintf("%d ranks; 1 to %d are legal", ranks, MaxRanks))
		}
	}
}

// Puts and gets of a rank are legal up to each bound and not beyond it, on its own side and the
// launcher's.
func TestLimitsAtTheEdges(t *testing.T) {
	values := func(n int) map[string]bool {
		m := map[string]bool{}
		for i := range n {
			m[strconv.Itoa(i)] = true
		}
		return m
	}
	for _, row := range []struct {
		keys, bytes, key, value int
		wrong                   string
	}{
		{0, 0, 1, 0, ""}, {0, 0, 0, 0, "a key of 0 bytes"},
		{0, 0, MaxKey, 0, ""}, {0, 0, MaxKey + 1, 0, fmt.Sprintf("a key of %d bytes; 1 to %d are legal", MaxKey+1, MaxKey)},
		{0, 0, 1, MaxValue, ""}, {0, 0, 1, MaxValue + 1, fmt.Sprintf("%d at most", MaxValue)},
		{MaxKeys - 1, 0, 1, 1, ""}, {MaxKeys, 0, 1, 1, "keys at most"},
		{1, MaxRankBytes - 1, 1, 1, ""}, {1, MaxRankBytes, 1, 1, "bytes at most"}, {1, MaxRankBytes, 1, 0, ""}, {1, MaxRankBytes - 1, 1, 2, "bytes at most"},
	} {
		err := checkPut(values(row.keys), row.bytes, strings.Repeat("k", row.key), make([]byte, row.value))
		if row.wrong == "" {
			require.NoError(t, err, row)
			continue
		}
		require.ErrorIs(t, err, ErrLimit, row)
		require.ErrorContains(t, err, row.wrong)
	}
	s := newTestServer(t, ServerConfig{Ranks: 2})
	c := joinAll(t, s)[0]
	long := strings.Repeat("k", MaxKey)
	require.NoError(t, c.Put(long, []byte("v")))
	for rank, key := range map[int]string{-1: "k", 2: "k", 0: "", 1: long + "k"} {
		_, err := c.Get(t.Context(), rank, key)
		require.ErrorIs(t, err, ErrLimit)
	}
	v, err := c.Get(t.Context(), 0, long)
	require.NoError(t, err)
	require.Equal(t, "v", string(v))
	all := make(chan error, maxWaiting)
	ctx, cancel := context.WithCancel(t.Context())
	for range maxWaiting {
		go func() { _, err := c.Get(ctx, 1, "never"); all <- err }()
	}
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.space.members[0].waits == maxWaiting
	}, 20*time.Second, time.Millisecond)
	_, err = c.Get(t.Context(), 1, "one more")
	require.ErrorIs(t, err, ErrLimit)
	require.Empty(t, all)
	cancel()
	for range maxWaiting {
		require.ErrorIs(t, <-all, context.Canceled)
	}
}

// Each of many gets that wait at the same time gets its own answer.
func TestAnswersAreNotMixedUp(t *testing.T) {
	const n = 50
	cs := joinAll(t, newTestServer(t, ServerConfig{Ranks: 2}))
	got := make(chan string, n)
	for i := range n {
		go func() {
			v, err := cs[0].Get(t.Context(), 1, strconv.Itoa(i))
			got <- fmt.Sprintf("%d %s %v", i, v, err)
		}()
	}
	for i := range n {
		require.NoError(t, cs[1].Put(strconv.Itoa(i), fmt.Appendf(nil, "is %d", i)))
	}
	want, all := map[string]bool{}, map[string]bool{}
	for i := range n {
		want[fmt.Sprintf("%d is %d <nil>", i, i)] = true
		all[<-got] = true
	}
	require.Equal(t, want, all)
}

// A rank accepts each kind of frame from its launcher with ranks that exist. Frames with other
// ranks, and answers without a request, end the connection.
func TestFramesFromTheLauncherAtTheEdges(t *testing.T) {
	const ranks = 3
	fresh := func() *Client {
		return &Client{identity: Identity{Rank: 1, Ranks: ranks}, gets: map[uint64]chan answer{1: make(chan answer, 1)}, deaths: map[int]*Death{}, round: 1,
			exchange: make(chan answer, 1), shares: make([][]byte, ranks)}
	}
	for _, row := range []struct {
		kind kind
		from int // the smallest rank that is legal
	}{{jobDenies, 0}, {jobFails, 0}, {jobShares, 0}, {jobNotifies, 0}, {jobAborts, -1}} {
		for rank := -2; rank <= ranks+1; rank++ {
			c := fresh()
			err := c.handle(&frame{kind: row.kind, id: 1, rank: int32(rank)})
			if rank >= row.from && rank < ranks {
				require.NoError(t, err, "kind %d, rank %d", row.kind, rank)
			} else {
				require.ErrorIs(t, err, ErrProtocol, "kind %d, rank %d", row.kind, rank)
				require.ErrorContains(t, err, fmt.Sprintf("rank %d from the launcher", rank))
			}
		}
	}
	for _, k := range []kind{jobAnswers, jobDenies, jobShares, jobShared, jobFails} {
		for id, ok := range map[uint64]bool{0: false, 1: true, 2: false} {
			c := fresh()
			require.Equal(t, ok, c.handle(&frame{kind: k, id: id}) == nil, "kind %d, id %d", k, id)
			if k != jobShares {
				again := c.handle(&frame{kind: k, id: id})
				require.Equal(t, ok && k == jobFails, again == nil, "kind %d twice: only what is broken breaks again", k)
			}
		}
	}
	for cause, ok := range map[string]bool{"": true, "0": true, "2": true, "2!": true, "3": false, "-1": false, "x": false} {
		require.Equal(t, ok, fresh().handle(&frame{kind: jobNotifies, key: cause}) == nil, "a death because of %q", cause)
	}
	c := fresh()
	require.NoError(t, c.handle(&frame{kind: jobNotifies, rank: 2}))
	require.ErrorIs(t, c.handle(&frame{kind: jobNotifies, rank: 2}), ErrProtocol, "a rank dies once")
	require.ErrorIs(t, c.handle(&frame{kind: rankPuts}), ErrProtocol)
}

// A joining launcher accepts its ranks only if their numbers are possible.
func TestRanksGivenToARelay(t *testing.T) {
	key := Key(newSecret())
	for _, row := range []struct {
		rank, code int32
		ok         bool
	}{
		{0, 2, true}, {0, 1, false}, {-1, 2, false}, {1, 3, true}, {2, 3, false}, {0, 0, false}, {0, -1, false},
		{0, MaxRanks, true}, {MaxRanks - 2, MaxRanks, true}, {MaxRanks - 1, MaxRanks, false}, {0, MaxRanks + 1, false},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			secret := Secret(key)
			if _, err = c.Read(make([]byte, 1)); err == nil {
				_, err = Handshake(c, &secret, hostLabel, Acceptor, []byte(newTestID))
			}
			if err == nil {
				_, _ = c.Write((&frame{kind: jobAdmits, rank: row.rank, code: row.code, key: newTestID}).encode())
				_, _ = c.Read(make([]byte, 1))
			}
		}()
		r, err := testRelay(t, l.Addr().String(), &key, 2)
		if row.ok {
			require.NoError(t, err, row)
			require.EqualValues(t, row.rank, r.First())
			require.EqualValues(t, row.code, r.Identity(r.First()).Ranks)
			require.NoError(t, r.Close())
		} else {
			require.ErrorIs(t, err, ErrProtocol, row)
			require.ErrorContains(t, err, fmt.Sprintf("ranks from %d on, of %d", row.rank, row.code))
		}
		_ = l.Close()
		<-done
	}
}

// Other launchers get free ranks: those that they ask for, or else the first ones. A refusal says
// what is wrong.
func TestPlacesOfLaunchers(t *testing.T) {
	greeting := func(ranks, first int) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(int32(ranks))), uint32(int32(first)))
	}
	for _, row := range []struct {
		taken        string // of the ranks 2 to 5
		ranks, first int
		want         int
		wrong        string
	}{
		{"....", 1, -1, 2, ""}, {"....", 4, -1, 2, ""}, {"....", 5, -1, 0, "5 ranks are brought; 4 of 4 are still missing"},
		{"....", 0, -1, 0, "0 ranks are brought"}, {"....", -1, -1, 0, "-1 ranks are brought"},
		{"....", 1, 1, 0, "ranks 1 to 1 are not free; those from other launchers are 2 to 5"}, {"....", 1, 2, 2, ""},
		{"....", 1, 5, 5, ""}, {"....", 1, 6, 0, "not free"}, {"....", 2, 4, 4, ""}, {"....", 2, 5, 0, "ranks 5 to 6 are not free"},
		{"x...", 1, -1, 3, ""}, {"x...", 1, 2, 0, "not free"}, {"x...", 3, -1, 3, ""}, {"x...", 4, -1, 0, "3 of 4"},
		{".x..", 2, -1, 4, ""}, {".x.x", 2, -1, 0, "not free"}, {".x..", 2, 2, 0, "ranks 2 to 3 are not free"}, {"xxx.", 1, -1, 5, ""}, {"xxxx", 1, -1, 0, "0 of 4"},
	} {
		s := &Server{cfg: ServerConfig{Ranks: 6, Elsewhere: 4}}
		for _, c := range row.taken {
			s.hosts.taken = append(s.hosts.taken, c == 'x')
		}
		h := &host{}
		err := s.assignLocked(h, greeting(row.ranks, row.first))
		if row.wrong != "" {
			require.ErrorContains(t, err, row.wrong, row)
			continue
		}
		require.NoError(t, err, row)
		require.Equal(t, [2]int{row.want, row.ranks}, [2]int{h.first, h.ranks}, row)
		for i, taken := range s.hosts.taken {
			require.Equal(t, row.taken[i] == 'x' || 2+i >= row.want && 2+i < row.want+row.ranks, taken, "%v: rank %d", row, 2+i)
		}
	}
	for _, n := range []int{7, 9} {
		require.ErrorIs(t, (&Server{}).assignLocked(&host{}, make([]byte, n)), ErrProtocol)
	}
	over := &Server{cfg: ServerConfig{Ranks: 2, Elsewhere: 1}, closed: true}
	over.hosts.taken = make([]bool, 1)
	require.ErrorContains(t, over.assignLocked(&host{}, greeting(1, -1)), "being ended")
}

// The launcher accepts each kind of request of a rank with numbers that exist, and no others, and
// as many waiting gets as are legal.
func TestBoundsOfSpace(t *testing.T) {
	for _, row := range []struct {
		f    frame
		good bool
	}{
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
		require.Equal(t, row.good, err == nil, "kind %d, rank %d, id %d: %v", row.f.kind, row.f.rank, row.f.id, err)
	}

	// Waiting gets are counted until they are answered, by a value or by an end.
	s := joinedSpace(t, 3)
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
