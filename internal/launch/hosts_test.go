// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shortDir returns a directory whose path is short enough for sockets in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
	return dir
}

// recordingRelay brings ranks to a job, and returns the launcher's orders as texts.
func recordingRelay(t *testing.T, addr string, key *Key, ranks, first int) (*Relay, <-chan string, error) {
	t.Helper()
	said := make(chan string, 16)
	r, err := JoinJob(t.Context(), RelayConfig{
		Addr: addr, Key: key, Ranks: ranks, First: first, Wait: time.Minute, bases: []string{shortDir(t)},
		OnAbort:  func(a *Abort) { said <- fmt.Sprint("abort ", *a) },
		OnSignal: func(n int) { said <- fmt.Sprint("signal ", n) },
		OnKill:   func() { said <- "kill" },
		OnOver:   func(status int) { said <- fmt.Sprint("over ", status) },
		OnLost:   func(err error) { said <- fmt.Sprint("lost: ", err) },
	})
	if err == nil {
		t.Cleanup(func() { require.NoError(t, r.Close()) })
	}
	return r, said, err
}

// recordingServer returns the launcher of a job with ranks on other machines, and its HostEvents as
// texts.
func recordingServer(t *testing.T, ranks, elsewhere int) (*Server, *Key, <-chan string) {
	t.Helper()
	heard := make(chan string, 16)
	key := Key(newSecret())
	s := newTestServer(t, ServerConfig{Ranks: ranks, Elsewhere: elsewhere, Listen: "127.0.0.1:0", Key: &key, Hosts: HostEvents{
		Joined: func(from string, first, ranks int) { heard <- fmt.Sprintf("joined: %d from %d on", ranks, first) },
		Ended:  func(rank, code int, how string) { heard <- fmt.Sprintf("ended: %d with %d: %s", rank, code, how) },
		Lost: func(from string, first, ranks int, err error) {
			heard <- fmt.Sprintf("lost: %d from %d on: %v", ranks, first, err)
		},
	}})
	return s, &key, heard
}

// next returns the next text; it fails the test if none comes.
func next(t *testing.T, said <-chan string) string {
	t.Helper()
	select {
	case s := <-said:
		return s
	case <-time.After(time.Minute):
		require.FailNow(t, "nothing is said for a minute")
		return ""
	}
}

// A job on three machines is one job for its ranks, and the launchers' frames to each other arrive.
func TestMachines(t *testing.T) {
	s, key, heard := recordingServer(t, 5, 3)
	a, saidA, err := recordingRelay(t, s.Addr(), key, 2, -1)
	require.NoError(t, err)
	require.Equal(t, "joined: 2 from 2 on", next(t, heard))
	b, saidB, err := recordingRelay(t, s.Addr(), key, 1, -1)
	require.NoError(t, err)
	require.Equal(t, "joined: 1 from 4 on", next(t, heard))
	require.Equal(t, []int{2, 4}, []int{a.First(), b.First()})

	var cs []*Client
	for r, p := range []*Identity{s.Identity(0), s.Identity(1), a.Identity(2), a.Identity(3), b.Identity(4)} {
		require.Equal(t, Identity{r, 5, p.Dir}, *p)
		c, err := p.Join(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Leave() })
		require.Equal(t, s.id, c.JobID())
		require.True(t, c.Spread())
		cs = append(cs, c)
	}
	shares := make(chan string, 5)
	for r, c := range cs {
		require.NoError(t, c.Put("k", []byte{byte(r)}))
		go func() {
			all, err := c.Exchange(t.Context(), []byte{byte(10 + r)})
			shares <- fmt.Sprint(all, err)
		}()
	}
	for range cs {
		require.Equal(t, "[[10] [11] [12] [13] [14]] <nil>", next(t, shares))
	}
	for _, c := range cs {
		for r := range cs {
			v, err := c.Get(t.Context(), r, "k")
			require.NoError(t, err)
			require.Equal(t, []byte{byte(r)}, v)
		}
	}

	s.SignalHosts(15)
	s.KillHosts()
	for _, said := range []<-chan string{saidA, saidB} {
		require.Equal(t, "signal 15", next(t, said))
		require.Equal(t, "kill", next(t, said))
	}
	require.NoError(t, cs[4].Put("last", []byte("words")))
	require.NoError(t, cs[4].Leave())
	b.Settle(4)
	b.Ended(4, 0, "exit status 0")
	require.Equal(t, "ended: 4 with 0: exit status 0", next(t, heard))
	v, err := cs[0].Get(t.Context(), 4, "last")
	require.NoError(t, err)
	require.Equal(t, "words", string(v))
	s.Abort(&Abort{Rank: 3, Code: 7, Reason: "no more"})
	s.DismissHosts(9)
	for _, said := range []<-chan string{saidA, saidB} {
		require.Equal(t, "abort {3 7 no more}", next(t, said))
		require.Equal(t, "over 9", next(t, said))
	}
	_, _, err = recordingRelay(t, s.Addr(), key, 1, -1)
	require.ErrorContains(t, err, "the job is being ended")
	for _, c := range cs {
		require.NoError(t, c.Leave())
	}
	require.NoError(t, a.Close())
	require.Contains(t, next(t, heard), "lost: ")
	require.Empty(t, saidA, "OnLost is not called after Close")
}

// A launcher that violates the protocol loses its connection, and the server reports why.
func TestHostileLauncher(t *testing.T) {
	s, key, heard := recordingServer(t, 100, 90)
	greet := func(said []byte) (net.Conn, frame) {
		c, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte{aLauncher})
		require.NoError(t, err)
		secret := Secret(*key)
		_, err = Handshake(c, &secret, hostLabel, Initiator, said)
		require.NoError(t, err)
		f, err := readFrame(c)
		require.NoError(t, err)
		return c, f
	}
	_, f := greet(make([]byte, 7))
	require.Equal(t, jobRefuses, f.kind)
	require.Contains(t, string(f.value), "a greeting of 7 bytes")
	for i, row := range []struct {
		frames []frame
		hears  []string
	}{
		{[]frame{{kind: hostEnded, rank: -1}}, []string{"a frame of kind 15 for rank 9 from a launcher of ranks 10 to 12"}},
		{[]frame{{kind: hostEnded, rank: 3}}, []string{"a frame of kind 15 for rank 16 from a launcher of ranks 13 to 15"}},
		{[]frame{{kind: hostEnded}, {kind: hostEnded, rank: 2, code: 3, value: []byte("how")}, {kind: hostEnded}},
			[]string{"ended: 16 with 0: ", "ended: 18 with 3: how", "a frame of kind 15 for rank 16 from"}},
		{[]frame{{kind: jobKills}}, []string{"a frame of kind 18 for rank 19 from a launcher of ranks 19 to 21"}},
		{nil, []string{"lost: 3 from 22 on: EOF"}},
	} {
		said := binary.BigEndian.AppendUint32(nil, 3)
		c, f := greet(binary.BigEndian.AppendUint32(said, 1<<32-1))
		first := 10 + 3*i
		require.Equal(t, frame{kind: jobAdmits, rank: int32(first), code: 100, key: s.id, value: []byte{}}, f)
		require.Equal(t, fmt.Sprintf("joined: 3 from %d on", first), next(t, heard))
		for _, f := range row.frames {
			f.rank += int32(first)
			_, err := c.Write(f.encode())
			require.NoError(t, err)
		}
		if row.frames == nil {
			require.NoError(t, c.Close())
		}
		for _, want := range row.hears {
			require.Contains(t, next(t, heard), want)
		}
	}
}

// An illegal frame of the launcher of the job is an error of the joining one, before and after that
// one was admitted.
func TestHostileListener(t *testing.T) {
	for name, row := range map[string]struct {
		answer, later frame
		err, said     string
	}{
		"refusal":       {frame{kind: jobRefuses, value: []byte("full")}, frame{}, "full", ""},
		"another kind":  {frame{kind: jobWelcomes, code: 4, key: "job"}, frame{}, "answers with a frame of kind 6", ""},
		"another job":   {frame{kind: jobAdmits, code: 4, key: "other"}, frame{}, "answers with a frame of kind 16", ""},
		"the last ones": {frame{kind: jobAdmits, code: 4, rank: 2, key: "job"}, frame{kind: jobNotifies}, "", "a frame of kind 13 from the launcher"},
		"the largest":   {frame{kind: jobAdmits, code: MaxRanks, rank: MaxRanks - 2, key: "job"}, frame{kind: jobKills}, "", "kill"},
		"its end":       {frame{kind: jobAdmits, code: 4, rank: 2, key: "job"}, frame{}, "", "lost: EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			key := Key(newSecret())
			admitted := make(chan error, 1)
			go func() {
				admitted <- func() error {
					c, err := l.Accept()
					if err != nil {
						return err
					}
					defer c.Close()
					var what [1]byte
					if _, err := c.Read(what[:]); err != nil || what[0] != aLauncher {
						return fmt.Errorf("%q: %w", what, err)
					}
					secret := Secret(key)
					if _, err := Handshake(c, &secret, hostLabel, Acceptor, []byte("job")); err != nil {
						return err
					}
					_, err = c.Write(row.answer.encode())
					if row.later.kind != 0 {
						_, err = c.Write(row.later.encode())
						_, _ = c.Read(what[:]) // until the other end is closed
					}
					return err
				}()
			}()
			r, said, err := recordingRelay(t, l.Addr().String(), &key, 2, -1)
			if row.err != "" {
				require.ErrorContains(t, err, row.err)
				require.NoError(t, <-admitted)
				return
			}
			require.NoError(t, err)
			require.Equal(t, int(row.answer.rank), r.First())
			require.Contains(t, next(t, said), row.said)
			require.NoError(t, r.Close())
			require.NoError(t, <-admitted)
		})
	}
}
