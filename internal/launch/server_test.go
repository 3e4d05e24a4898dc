// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/leaktest"
)

// exits counts the clients that would have ended their process.
var exits = make(chan int, 1024)

func TestMain(m *testing.M) {
	endProcess = func(rank int, _ error) {
		select {
		case exits <- rank:
		default: // no test reads more
		}
	}
	os.Exit(leaktest.Main(m))
}

// newTestServer returns a server with its files in a fresh directory.
func newTestServer(t *testing.T, cfg ServerConfig) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // t.TempDir is too long for a socket
	require.NoError(t, err)
	cfg.bases = []string{dir}
	s, err := NewServer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left, "a job leaves nothing behind")
		require.NoError(t, os.Remove(dir))
	})
	return s
}

// joinAll joins all ranks, which leave at the end of the test.
func joinAll(t *testing.T, s *Server) []*Client {
	t.Helper()
	var cs []*Client
	for r := range s.cfg.Ranks {
		c, err := s.Identity(r).Join(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Leave() })
		cs = append(cs, c)
	}
	return cs
}

func TestPutAndGet(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 3, Part: func(r int) int { return r / 2 }})
	cs := joinAll(t, s)
	require.Equal(t, 3, cs[0].Size())
	require.Equal(t, []int{0, 0, 1}, []int{cs[0].Part(), cs[1].Part(), cs[2].Part()})
	require.Equal(t, s.id, cs[1].JobID())

	require.NoError(t, cs[0].Put("a", []byte("zero's a")))
	require.NoError(t, cs[1].Put("a", nil))
	v, err := cs[2].Get(t.Context(), 0, "a")
	require.NoError(t, err)
	require.Equal(t, "zero's a", string(v))
	v, err = cs[0].Get(t.Context(), 1, "a")
	require.NoError(t, err)
	require.Empty(t, v)

	got := make(chan string, 2)
	for _, r := range []int{0, 1} {
		go func() {
			v, err := cs[r].Get(t.Context(), 2, "later")
			got <- fmt.Sprint(string(v), err)
		}()
	}
	require.NoError(t, cs[2].Put("later", []byte("now")))
	require.Equal(t, "now<nil>", <-got)
	require.Equal(t, "now<nil>", <-got)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = cs[0].Get(ctx, 2, "never")
	require.ErrorContains(t, err, "enough")
	require.NoError(t, cs[2].Put("never", []byte("no rank waits any more")))
	v, err = cs[0].Get(t.Context(), 2, "never")
	require.NoError(t, err)
	require.NotEmpty(t, v)
}

func TestMisuse(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 2})
	c := joinAll(t, s)[0]
	require.ErrorIs(t, c.Put("", nil), ErrLimit)
	require.ErrorIs(t, c.Put(strings.Repeat("k", MaxKey+1), nil), ErrLimit)
	require.ErrorIs(t, c.Put("k", make([]byte, MaxValue+1)), ErrLimit)
	require.NoError(t, c.Put("k", make([]byte, MaxValue)))
	require.ErrorIs(t, c.Put("k", nil), ErrDuplicate)
	_, err := c.Get(t.Context(), 2, "k")
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "ranks are 0 to 1")
	_, err = c.Get(t.Context(), -1, "k")
	require.ErrorIs(t, err, ErrLimit)
	_, err = c.Exchange(t.Context(), make([]byte, MaxValue+1))
	require.ErrorIs(t, err, ErrLimit)

	_, err = s.Identity(0).Join(t.Context())
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "another process already")
	require.NoError(t, c.Leave())
	require.NoError(t, c.Leave())
	require.ErrorIs(t, c.Put("x", nil), ErrLeft)
	require.ErrorIs(t, c.Fence(t.Context()), ErrLeft)
	s.Settle(0)
	_, err = s.Identity(0).Join(t.Context())
	require.ErrorContains(t, err, "has left the job")
	s.Ended(1, 0, "exit status 0")

	for _, p := range []*Identity{{Rank: 7, Ranks: 2, Dir: s.dir}, {Rank: -1, Ranks: 2, Dir: s.dir}} {
		_, err = p.Join(t.Context())
		require.ErrorContains(t, err, "there is no rank")
	}
	_, err = (&Identity{Rank: 1, Ranks: 2, Dir: t.TempDir()}).Join(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	_, err = (&Identity{Rank: 1, Ranks: 2, Dir: filepath.Join(t.TempDir(), "x")}).Join(t.Context())
	require.ErrorIs(t, err, ErrLauncherLost)
	t.Setenv(env.Node.Name, "x")
	c, err = newTestServer(t, ServerConfig{Ranks: 2}).Identity(1).Join(t.Context())
	require.NoError(t, err)
	_, err = c.Meet(t.Context(), nil)
	require.ErrorIs(t, err, ErrEnvironment)
	require.EqualError(t, err, `launch: meet: rank 1: bad environment: PSP_SMP_NODE_ID="x"; legal: 0 to 2147483647 (number of the emulated node; ranks with different numbers behave as on different nodes)`)
}

func TestExchange(t *testing.T) {
	const ranks, rounds = 5, 20
	s := newTestServer(t, ServerConfig{Ranks: ranks})
	cs := joinAll(t, s)
	var wg sync.WaitGroup
	errs := make(chan error, ranks)
	for _, c := range cs {
		wg.Go(func() {
			for i := range rounds {
				mine := fmt.Appendf(nil, "%d of %d", i, c.Rank())
				if c.Rank() == 3 {
					mine = nil
				}
				all, err := c.Exchange(t.Context(), mine)
				if err != nil {
					errs <- err
					return
				}
				for r, v := range all {
					want := fmt.Sprintf("%d of %d", i, r)
					if r == 3 {
						want = ""
					}
					if string(v) != want {
						errs <- fmt.Errorf("rank %d has %q of rank %d", c.Rank(), v, r)
						return
					}
				}
			}
			errs <- c.Fence(t.Context())
		})
	}
	wg.Wait()
	for range ranks {
		require.NoError(t, <-errs)
	}
}

// A second exchange of a rank is refused while its first one waits, and does not affect the first
// one.
func TestOneExchangeAtATime(t *testing.T) {
	cs := joinAll(t, newTestServer(t, ServerConfig{Ranks: 2}))
	got := make(chan string, 1)
	go func() {
		all, err := cs[0].Exchange(t.Context(), []byte("a"))
		got <- fmt.Sprintf("%s %v", all, err)
	}()
	require.Eventually(t, func() bool {
		cs[0].mu.Lock()
		defer cs[0].mu.Unlock()
		return cs[0].exchange != nil
	}, 20*time.Second, time.Millisecond)
	_, err := cs[0].Exchange(t.Context(), []byte("c"))
	require.ErrorIs(t, err, ErrLimit)
	require.ErrorContains(t, err, "another exchange of this rank")
	require.Empty(t, got)
	_, err = cs[1].Exchange(t.Context(), []byte("b"))
	require.NoError(t, err)
	require.Equal(t, "[a b] <nil>", <-got)
}

func TestMeet(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 4})
	var cs []*Client
	for r := range 4 {
		t.Setenv(env.Node.Name, []string{"", "1", "", "01"}[r])
		c, err := s.Identity(r).Join(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Leave()) }()
		cs = append(cs, c)
	}
	peers := make([][]Peer, 4)
	var wg sync.WaitGroup
	for r, c := range cs {
		wg.Go(func() { peers[r], _ = c.Meet(t.Context(), map[string][]byte{"tcp": {byte(r)}, "none": nil}) })
	}
	wg.Wait()
	require.Equal(t, peers[0], peers[3])
	for r, p := range peers[0] {
		require.Equal(t, r, p.Rank)
		require.Equal(t, cs[r].Node(), p.Node)
		require.Equal(t, r/2, p.LocalRank)
		require.Equal(t, 2, p.LocalSize)
		require.Equal(t, os.Getpid(), p.PID)
		require.Equal(t, []byte{byte(r)}, p.Addrs["tcp"])
		require.Len(t, p.Addrs, 2)
	}
	require.Equal(t, cs[0].Node(), cs[2].Node())
	require.Equal(t, cs[1].Node(), cs[3].Node(), "01 is 1")
	require.NotEqual(t, cs[0].Node(), cs[1].Node())
}

// news returns the errors that a client's watchers get.
func news(c *Client) <-chan error {
	ch := make(chan error, 64)
	c.Watch(func(err error) { ch <- err })
	return ch
}

// Each wait for a rank that ends fails with its death, whether it began before or after the end.
func TestDeaths(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 4})
	cs := joinAll(t, s)[:3]
	heard := news(cs[0])
	results := make(chan error, 3)
	go func() { _, err := cs[0].Get(t.Context(), 3, "k"); results <- err }()
	go func() { results <- cs[1].Fence(t.Context()) }()
	waiting := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.space.members[0].waits == 1 && s.space.round.called[1]
	}
	require.Eventually(t, waiting, 10*time.Second, time.Millisecond)
	d, orderly := s.Ended(3, 137, "killed by signal 9 (killed)")
	require.False(t, d.Clean || orderly)
	for range 2 {
		err := <-results
		require.ErrorIs(t, err, ErrEnded)
		var death *Death
		require.ErrorAs(t, err, &death)
		require.Equal(t, Death{Rank: 3, Code: 137, How: "killed by signal 9 (killed)"}, *death)
	}
	require.Equal(t, "rank 3 has ended: killed by signal 9 (killed)", (<-heard).Error())
	require.ErrorIs(t, cs[2].Fence(t.Context()), ErrEnded)
	require.ErrorIs(t, cs[2].Fence(t.Context()), ErrEnded, "and for good")
	_, err := cs[2].Get(t.Context(), 3, "k")
	require.ErrorIs(t, err, ErrEnded)
	require.ErrorIs(t, <-news(cs[2]), ErrEnded, "a late watcher hears of earlier deaths")
	require.NoError(t, cs[1].Put("still", nil))
	_, err = cs[0].Get(t.Context(), 1, "still")
	require.NoError(t, err)
}

// Waits for a rank that has left fail, but the rank is not dead until its process ends.
func TestLeaving(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 2})
	cs := joinAll(t, s)
	heard := news(cs[0])
	require.NoError(t, cs[1].Put("k", nil))
	require.NoError(t, cs[1].Leave())
	_, err := cs[0].Get(t.Context(), 1, "k")
	require.NoError(t, err)
	_, err = cs[0].Get(t.Context(), 1, "other")
	require.ErrorContains(t, err, "it has left the job")
	require.ErrorIs(t, cs[0].Fence(t.Context()), ErrEnded)
	require.Empty(t, heard)
	s.Settle(1)
	d, orderly := s.Ended(1, 0, "exit status 0")
	require.True(t, d.Clean && orderly)
	require.True(t, (<-heard).(*Death).Clean)
	s.Settle(0)
	d, orderly = s.Ended(0, 0, "exit status 0")
	require.False(t, d.Clean || orderly, "it has not left")
}

func TestLostConnection(t *testing.T) {
	lost := make(chan string, 1)
	s := newTestServer(t, ServerConfig{Ranks: 2, OnLost: func(r int, how string) { lost <- fmt.Sprint(r, ": ", how) }})
	cs := joinAll(t, s)
	heard := news(cs[0])
	_ = cs[1].c.Close()
	require.Equal(t, "1: its connection to the launcher ended", <-lost)
	require.Equal(t, -1, (<-heard).(*Death).Code)
	s.Ended(1, 3, "exit status 3")
	require.Empty(t, heard, "a rank dies once")
}

// A rank that violates the protocol loses its connection, and does not affect other ranks.
func TestHostileRank(t *testing.T) {
	for name, row := range map[string]struct {
		send []byte
		how  string
	}{
		"kind":     {(&frame{kind: jobNotifies}).encode(), "does not send frames of kind"},
		"twice":    {append((&frame{kind: rankPuts, key: "k"}).encode(), (&frame{kind: rankPuts, key: "k"}).encode()...), "has a value already"},
		"exchange": {(&frame{kind: rankExchanges, id: 2}).encode(), "exchange 2 while 1 is being made"},
		"rank":     {(&frame{kind: rankGets, rank: 9, key: "k"}).encode(), "of rank 9"},
		"garbage":  {[]byte("\xff\xff\xff\xff and so on"), "a frame of 4294967295 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lost := make(chan string, 1)
			s := newTestServer(t, ServerConfig{Ranks: 2, OnLost: func(_ int, how string) { lost <- how }})
			cs := joinAll(t, s)
			_, err := cs[1].c.Write(row.send)
			require.NoError(t, err)
			require.Contains(t, <-lost, row.how)
			require.NoError(t, cs[0].Put("k", nil))
			_, err = cs[0].Get(t.Context(), 0, "k")
			require.NoError(t, err)
		})
	}
	// Too many waiting gets are refused.
	lost := make(chan string, 1)
	s := newTestServer(t, ServerConfig{Ranks: 2, OnLost: func(_ int, how string) { lost <- how }})
	cs := joinAll(t, s)
	var flood []byte
	for i := range maxWaiting + 1 {
		flood = append(flood, (&frame{kind: rankGets, id: uint64(i + 1), rank: 0, key: "never"}).encode()...)
	}
	_, err := cs[1].c.Write(flood)
	require.NoError(t, err)
	require.Contains(t, <-lost, "gets wait at one time")
}

// A peer that does not know the secret is refused.
func TestUnknownPeer(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 1})
	c, err := net.Dial("unix", filepath.Join(s.dir, socketFile))
	require.NoError(t, err)
	defer c.Close()
	wrong := newSecret()
	_, err = Handshake(c, &wrong, jobLabel, Initiator, []byte{0, 0, 0, 0})
	require.Error(t, err)
	own, err := s.Identity(0).Join(t.Context())
	require.NoError(t, err)
	require.NoError(t, own.Leave())
}

func TestAbort(t *testing.T) {
	asked := make(chan *Abort, 4)
	s := newTestServer(t, ServerConfig{Ranks: 2, OnAbort: func(a *Abort) { asked <- a }})
	cs := joinAll(t, s)
	heard := news(cs[1])
	fence := make(chan error)
	go func() { fence <- cs[1].Fence(t.Context()) }()
	require.NoError(t, cs[0].Abort(7, "no more"))
	require.NoError(t, cs[0].Abort(999, "not a status"))
	a := <-asked
	require.Equal(t, Abort{0, 7, "no more"}, *a)
	require.Equal(t, 1, (<-asked).Code)
	s.Abort(a)
	s.Abort(&Abort{Rank: 1, Code: 1, Reason: "second"})
	require.ErrorIs(t, <-fence, ErrAborted)
	require.ErrorContains(t, <-heard, "because of rank 0: no more")
	require.Empty(t, heard)
	_, err := cs[1].Get(t.Context(), 0, "k")
	require.ErrorIs(t, err, ErrAborted)
}

func TestLauncherGoes(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 100})
	var cs []*Client
	for _, r := range []int{97, 98} { // no other test has these ranks
		c, err := s.Identity(r).Join(t.Context())
		require.NoError(t, err)
		cs = append(cs, c)
	}
	results := make(chan error, 2)
	go func() { _, err := cs[0].Get(t.Context(), 1, "k"); results <- err }()
	go func() { results <- cs[1].Fence(t.Context()) }()
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-results, ErrLauncherLost)
	require.ErrorIs(t, <-results, ErrLauncherLost)
	for _, c := range cs {
		<-c.Lost()
		require.ErrorIs(t, c.Put("k", nil), ErrLauncherLost)
		require.ErrorIs(t, c.Fence(t.Context()), ErrLauncherLost)
	}
	for r := range exits { // such a rank is ended if it does not end by itself
		if r == 97 || r == 98 {
			break
		}
	}
}

// A launcher that is killed removes nothing. A rank that loses it removes the files, and one that
// has left does not. If the launcher lives, a rank that it drops removes nothing.
func TestFilesOfADeadLauncher(t *testing.T) {
	for name, row := range map[string]struct{ dead, left, stay bool }{
		"dead": {true, false, false}, "dead, and the rank has left": {true, true, true}, "alive": {false, false, true},
	} {
		s := newTestServer(t, ServerConfig{Ranks: 99})
		c, err := s.Identity(96).Join(t.Context())
		require.NoError(t, err)
		if row.dead {
			s.l.SetUnlinkOnClose(false)
			require.NoError(t, s.l.Close())
		}
		if row.left {
			require.NoError(t, c.Leave())
		} else {
			s.mu.Lock()
			s.conns[96].stop()
			s.mu.Unlock()
			<-c.Lost()
		}
		_, err = os.Stat(s.dir)
		require.Equal(t, row.stay, err == nil, name)
	}
}

func TestJoinGivesUp(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 1})
	require.NoError(t, s.l.Close())
	l, err := net.Listen("unix", filepath.Join(s.dir, socketFile)) // it does not accept
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.Identity(0).Join(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestFilesArePrivate(t *testing.T) {
	s := newTestServer(t, ServerConfig{Ranks: 1})
	for path, mode := range map[string]os.FileMode{s.dir: 0o700, filepath.Join(s.dir, socketFile): 0o600, filepath.Join(s.dir, secretFile): 0o600} {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), path)
	}
	require.NoError(t, os.Chmod(filepath.Join(s.dir, secretFile), 0o644))
	_, err := s.Identity(0).Join(t.Context())
	require.ErrorContains(t, err, "others may read it")
	require.NoError(t, os.Chmod(filepath.Join(s.dir, secretFile), 0o600))
	require.NoError(t, os.Chmod(s.dir, 0o755))
	_, err = s.Identity(0).Join(t.Context())
	require.ErrorIs(t, err, ErrEnvironment)
	require.NoError(t, os.Chmod(s.dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, secretFile), []byte("short"), 0o600))
	_, err = s.Identity(0).Join(t.Context())
	require.ErrorIs(t, err, ErrProtocol)
}

// Neither side leaves a goroutine behind, however it ends.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 3 {
		dir, err := os.MkdirTemp("", "l")
		require.NoError(t, err)
		s, err := NewServer(ServerConfig{Ranks: 3, bases: []string{dir}})
		require.NoError(t, err)
		var cs []*Client
		for r := range 3 {
			c, err := s.Identity(r).Join(t.Context())
			require.NoError(t, err)
			cs = append(cs, c)
		}
		other, err := net.Dial("unix", filepath.Join(s.dir, socketFile))
		require.NoError(t, err)
		defer other.Close()
		_ = cs[1].c.Close()
		require.NoError(t, cs[0].Leave())
		<-cs[1].Lost()
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		<-cs[2].Lost()
		require.Error(t, cs[2].Leave())
		require.NoError(t, os.Remove(dir))
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < before+3 }, 60*time.Second, time.Millisecond)
}
