// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/lobby"
)

// bareHosts returns a bare server of a job with ranks elsewhere, and its HostEvents as texts.
func bareHosts(ranks, elsewhere int) (*Server, <-chan string) {
	heard := make(chan string, 16)
	s := bareServer(ServerConfig{Ranks: ranks, Elsewhere: elsewhere})
	key := Key(newSecret())
	s.hosts.key, s.hosts.lobby, s.hosts.over = &key, lobby.New(2), make(chan struct{})
	s.hosts.events = HostEvents{
		Joined: func(from string, first, ranks int) { heard <- fmt.Sprintf("joined %s %d %d", from, first, ranks) },
		Ended:  func(rank, code int, how string) { heard <- fmt.Sprintf("ended %d %d %s", rank, code, how) },
		Lost: func(from string, first, ranks int, err error) {
			heard <- fmt.Sprintf("lost %s %d %d %v", from, first, ranks, err)
		},
	}
	return s, heard
}

// dialUnproved returns a connection from another machine; its other end is in the lobby.
func (s *Server) dialUnproved() (near, far net.Conn) {
	near, far = net.Pipe()
	s.hosts.lobby.Enter(far, s.hosts.over)
	s.mu.Lock()
	s.unproved[far] = true
	s.mu.Unlock()
	s.wg.Go(func() { s.identify(far) })
	return near, far
}

// host returns the connection of a launcher that has joined with ranks.
func (s *Server) host(t *testing.T, ranks int) net.Conn {
	t.Helper()
	near, _ := s.dialUnproved()
	_, err := near.Write([]byte{aLauncher})
	require.NoError(t, err)
	key := Secret(*s.hosts.key)
	said := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(ranks)), 1<<32-1)
	id, err := Handshake(near, &key, hostLabel, Initiator, said)
	require.NoError(t, err)
	require.Equal(t, s.id, string(id))
	f, err := readFrame(near)
	require.NoError(t, err)
	require.Equal(t, jobAdmits, f.kind, "%s", f.value)
	return near
}

func (s *Server) countUnproved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unproved)
}

// A connection that does not say what its other end is, or sends an unknown byte, is closed in
// time.
func TestTimeOfAnUnprovedConnection(t *testing.T) {
	for name, row := range map[string]struct {
		says []byte
		wait time.Duration
	}{"nothing": {nil, handshakeTime}, "a rank, and no more": {[]byte{aRank}, handshakeTime}, "a launcher, and no more": {[]byte{aLauncher}, handshakeTime}, "something else": {[]byte{'x'}, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s, heard := bareHosts(2, 1)
			near, far := s.dialUnproved()
			start := time.Now()
			go func() {
				if row.says != nil {
					_, _ = near.Write(row.says)
				}
			}()
			if row.wait > 0 {
				time.Sleep(row.wait - 1)
				synctest.Wait()
				require.Equal(t, 1, s.countUnproved(), name)
			}
			_, err := near.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, name)
			require.Equal(t, row.wait, time.Since(start), name)
			s.wg.Wait()
			require.Zero(t, s.countUnproved(), name)
			require.False(t, s.hosts.lobby.Leave(far), "%s: it has left the lobby", name)
			require.Empty(t, heard)
		})
	}
}

// A launcher or a rank from another machine has no time limit once it is admitted. The launcher's
// notice of a rank's end counts after the rank's own frames.
func TestTimeOfALauncher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, heard := bareHosts(3, 2)
		host := s.host(t, 2)
		require.Equal(t, "joined pipe 1 2", <-heard)
		near, far := s.dialUnproved()
		_, err := near.Write([]byte{aRank})
		require.NoError(t, err)
		require.Equal(t, jobWelcomes, s.greetAs(t, near, []byte{0, 0, 0, 2}).kind)
		require.False(t, s.hosts.lobby.Leave(far), "it has left the lobby")
		require.Zero(t, s.countUnproved())
		time.Sleep(2 * handshakeTime)
		say(t, host, frame{kind: hostEnded, rank: 2, code: 3, value: []byte("how")})
		time.Sleep(endNotice - 1)
		synctest.Wait()
		require.Empty(t, heard, "the rank's connection has not ended")
		time.AfterFunc(1, func() { _ = near.Close() })
		require.Equal(t, "ended 2 3 how", <-heard)
		say(t, host, frame{kind: hostEnded, rank: 1, code: 4, value: []byte("so")})
		require.Equal(t, "ended 1 4 so", <-heard)
		_ = host.Close()
		require.Equal(t, "lost pipe 1 2 EOF", <-heard)
		s.shut()
		require.Empty(t, heard)
	})
	synctest.Test(t, func(t *testing.T) { // no HostEvents are set
		s, _ := bareHosts(3, 2)
		s.hosts.events = HostEvents{}
		host := s.host(t, 2)
		say(t, host, frame{kind: hostEnded, rank: 2})
		_ = host.Close()
		s.wg.Wait()
		require.Len(t, s.hosts.list, 1)
	})
	synctest.Test(t, func(t *testing.T) {
		// one that is refused, and one that is evicted when it has just proved itself
		s, heard := bareHosts(3, 2)
		key := Secret(*s.hosts.key)
		for _, way := range []bool{false, true} {
			near, far := s.dialUnproved()
			_, err := near.Write([]byte{aLauncher})
			require.NoError(t, err)
			if way {
				synctest.Wait()
				s.hosts.lobby.Leave(far)
			}
			_, err = Handshake(near, &key, hostLabel, Initiator, make([]byte, 8))
			require.NoError(t, err)
			if !way {
				f, err := readFrame(near)
				require.NoError(t, err)
				require.Equal(t, frame{kind: jobRefuses, value: []byte("0 ranks are brought; 2 of 2 are still missing")}, f)
			}
			_, err = near.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			s.wg.Wait()
			require.Zero(t, s.countUnproved())
		}
		require.Empty(t, s.hosts.list)
		require.Empty(t, heard)
	})
}

// Launchers of other machines are dismissed together, within endNotice, whether they read or not.
// From then on no launcher is admitted.
func TestTimeOfADismissal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, heard := bareHosts(5, 4)
		a, b := s.host(t, 2), s.host(t, 1)
		require.Equal(t, []string{"joined pipe 1 2", "joined pipe 3 1"}, []string{<-heard, <-heard})
		got := make(chan frame, 8)
		go func() {
			for {
				f, err := readFrame(b)
				if err != nil {
					return
				}
				got <- f
			}
		}()
		s.SignalHosts(3)
		require.Equal(t, frame{kind: jobSignals, code: 3, value: []byte{}}, <-got)
		s.KillHosts()
		require.Equal(t, frame{kind: jobKills, value: []byte{}}, <-got)
		require.False(t, s.hosts.ending)
		start := time.Now()
		s.DismissHosts(7)
		require.Equal(t, endNotice, time.Since(start), "a does not listen")
		require.Equal(t, frame{kind: jobOver, code: 7, value: []byte{}}, <-got)
		require.ErrorContains(t, s.assignLocked(&host{}, make([]byte, 8)), "the job is being ended")
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		_ = a.Close()
		_ = b.Close()
		s.wg.Wait()
		require.Empty(t, heard, "the job is over: no launcher is lost")
	})
	synctest.Test(t, func(t *testing.T) {
		s, _ := bareHosts(5, 4)
		c := s.host(t, 2)
		s.Abort(&Abort{Rank: -1, Code: 9, Reason: "why"})
		f, err := readFrame(c)
		require.NoError(t, err)
		require.Equal(t, frame{kind: jobAborts, rank: -1, code: 9, value: []byte("why")}, f)
		require.True(t, s.hosts.ending)
		_ = c.Close()
		s.wg.Wait()
	})
}

// Close ends all connections: unproved ones, those of ranks and launchers, and one that enters
// meanwhile.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, heard := bareHosts(5, 2)
		lost := make(chan int, 4)
		s.cfg.OnLost = func(rank int, _ string) { lost <- rank }
		var ends []net.Conn
		for r := range 2 {
			ends = append(ends, s.joinSpread(t, r))
		}
		_ = s.joinSpread(t, 2).Close()
		other, _ := s.dialUnproved()
		ends = append(ends, s.connect(), other, s.host(t, 1))
		synctest.Wait()
		require.Len(t, s.timers, 1)
		timer := s.timers[2]
		<-heard
		require.Error(t, s.Close(), "a bare server has no directory")
		require.False(t, timer.Stop(), "it has been stopped")
		for i, c := range ends {
			_, err := c.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, i)
		}
		require.NoError(t, s.Close())
		time.Sleep(time.Hour)
		require.Empty(t, lost)
		require.Empty(t, heard)
		require.Zero(t, s.countUnproved())
	})
	synctest.Test(t, func(t *testing.T) { // Ended stops the timer too
		s := bareServer(ServerConfig{Ranks: 1})
		_ = s.joinBare(t, 0).Close()
		synctest.Wait()
		timer := s.timers[0]
		s.Ended(0, 1, "exit status 1")
		require.False(t, timer.Stop())
		require.Empty(t, s.timers)
		s.shut()
	})
}

// joinSpread is joinBare in a job with ranks elsewhere.
func (s *Server) joinSpread(t *testing.T, rank int) net.Conn {
	t.Helper()
	c := s.connect()
	require.Equal(t, jobWelcomes, s.greetAs(t, c, binary.BigEndian.AppendUint32(nil, uint32(rank))).kind)
	return c
}

// The frames that a relay sends the launcher of the job, and receives from it.
func TestTimeOfARelay(t *testing.T) {
	relay := func() (*Relay, net.Conn, chan string) {
		near, far := net.Pipe()
		calls := make(chan string, 16)
		return &Relay{up: near, cfg: RelayConfig{
			OnAbort:  func(a *Abort) { calls <- fmt.Sprint("abort ", *a) },
			OnSignal: func(n int) { calls <- fmt.Sprint("signal ", n) },
			OnKill:   func() { calls <- "kill" },
			OnOver:   func(status int) { calls <- fmt.Sprint("over ", status) },
			OnLost:   func(err error) { calls <- fmt.Sprint("lost ", err) },
		}}, far, calls
	}
	synctest.Test(t, func(t *testing.T) {
		r, far, _ := relay()
		for code, clean := range map[int]bool{0: true, 1: false, -1: false} {
			go func() {
				d, orderly := r.Ended(2, code, "how")
				assert.Equal(t, Death{Rank: 2, Code: code, How: "how", Clean: clean}, *d)
				assert.True(t, orderly)
			}()
			f, err := readFrame(far)
			require.NoError(t, err)
			require.Equal(t, frame{kind: hostEnded, rank: 2, code: int32(code), value: []byte("how")}, f)
			synctest.Wait()
		}
		require.Nil(t, r.Blames(0))
		r.Abort(nil)
		start := time.Now()
		r.Ended(3, 0, "no listener")
		require.Equal(t, handshakeTime, time.Since(start))
		_, err := r.up.Write([]byte{1})
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
	for name, row := range map[string]struct {
		last frame
		want string
	}{
		"over": {frame{kind: jobOver, code: 5}, "over 5"}, "its end": {frame{}, "lost EOF"},
		"a rank's frame": {frame{kind: rankPuts}, "lost protocol error: a frame of kind 1 from the launcher"}, "closed": {frame{}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, far, calls := relay()
			done := make(chan struct{})
			go func() { r.read(); close(done) }()
			for i := range 2 {
				say(t, far, frame{kind: jobSignals, code: int32(i)}, frame{kind: jobAborts, rank: int32(i), code: 7, value: []byte("why")}, frame{kind: jobKills})
				require.Equal(t, []string{fmt.Sprint("signal ", i), fmt.Sprintf("abort {%d 7 why}", i), "kill"}, []string{<-calls, <-calls, <-calls})
			}
			if name == "closed" {
				r.mu.Lock()
				r.closed = true
				r.mu.Unlock()
			}
			if row.last.kind != 0 {
				say(t, far, row.last)
			} else {
				_ = far.Close()
			}
			<-done
			if row.want != "" {
				require.Equal(t, row.want, <-calls, name)
			}
			require.Empty(t, calls, name)
		})
	}
}
