// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// bareServer returns a Server without files and listeners, for connections that a test makes.
func bareServer(cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, id: newTestID, secret: newSecret(), space: newSpace(cfg.Ranks), conns: make([]*conn, cfg.Ranks), unproved: map[net.Conn]bool{}, timers: map[int]*time.Timer{}}
	s.hosts.taken = make([]bool, cfg.Elsewhere)
	return s
}

// shut closes a bare server.
func (s *Server) shut() {
	s.mu.Lock()
	s.closed = true
	for _, k := range s.conns {
		if k != nil {
			k.stop()
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// connect makes s serve a connection, and returns its other end.
func (s *Server) connect() net.Conn {
	near, far := net.Pipe()
	s.mu.Lock()
	s.unproved[far] = true
	s.mu.Unlock()
	s.wg.Go(func() { s.serve(far, nil) })
	return near
}

// greetAs shakes hands as a rank, and returns the answer.
func (s *Server) greetAs(t *testing.T, c net.Conn, said []byte) frame {
	t.Helper()
	_, err := Handshake(c, &s.secret, jobLabel, Initiator, said)
	require.NoError(t, err)
	f, err := readFrame(c)
	require.NoError(t, err)
	return f
}

// joinBare returns the connection of a rank that has joined.
func (s *Server) joinBare(t *testing.T, rank int) net.Conn {
	t.Helper()
	c := s.connect()
	f := s.greetAs(t, c, binary.BigEndian.AppendUint32(nil, uint32(int32(rank))))
	require.Equal(t, frame{kind: jobWelcomes, rank: int32(s.cfg.Ranks), key: newTestID, value: []byte{}}, f)
	return c
}

// A connection has the time of a handshake to prove itself, and no limit from then on.
func TestTimeOfAHandshake(t *testing.T) {
	for name, says := range map[string]int{"nothing": 0, "half a hello": 7, "a hello": helloSize} {
		synctest.Test(t, func(t *testing.T) {
			s := bareServer(ServerConfig{Ranks: 1})
			c := s.connect()
			go func() {
				if hello := makeHello(Initiator, nil); says > 0 {
					_, _ = c.Write(hello[:says])
				}
				_, _ = io.Copy(io.Discard, c)
			}()
			time.Sleep(handshakeTime - 1)
			synctest.Wait()
			require.Equal(t, 1, s.countUnproved(), name)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Empty(t, s.unproved, name)
			s.wg.Wait()
			_ = c.Close()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := bareServer(ServerConfig{Ranks: 1})
		c := s.joinBare(t, 0)
		require.Empty(t, s.unproved)
		time.Sleep(2 * handshakeTime)
		say(t, c, frame{kind: rankPuts, key: "k", value: []byte("v")}, frame{kind: rankGets, id: 1, key: "k"})
		f, err := readFrame(c)
		require.NoError(t, err)
		require.Equal(t, frame{kind: jobAnswers, id: 1, value: []byte("v")}, f)
		s.shut()
		_, err = c.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	})
}

// A peer that proves itself but is no rank that may join is told why. It hears nothing if it does
// not say which rank it is, or is too late.
func TestGreetingsOfRanks(t *testing.T) {
	for name, row := range map[string]struct {
		said []byte
		want string
	}{
		"short": {make([]byte, 3), "EOF"}, "long": {make([]byte, 5), "EOF"}, "nothing": {nil, "EOF"},
		"too large": {[]byte{0, 0, 0, 2}, "there is no rank 2 of 2"}, "negative": {[]byte{255, 255, 255, 255}, "there is no rank -1 of 2"},
		"has joined": {[]byte{0, 0, 0, 0}, "rank 0 is another process already; a rank is one process"}, "has ended": {[]byte{0, 0, 0, 1}, "the process that was started as rank 1 has ended"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := bareServer(ServerConfig{Ranks: 2})
			own := s.joinBare(t, 0)
			go func() { _, _ = io.Copy(io.Discard, own) }()
			s.Ended(1, 1, "how")
			c := s.connect()
			_, err := Handshake(c, &s.secret, jobLabel, Initiator, row.said)
			require.NoError(t, err)
			f, err := readFrame(c)
			if row.want == "EOF" {
				require.Equal(t, io.EOF, err, name)
			} else {
				require.NoError(t, err, name)
				require.Equal(t, frame{kind: jobRefuses, value: []byte(row.want)}, f)
				_, err = c.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err, name)
			}
			synctest.Wait()
			require.Empty(t, s.unproved)
			require.True(t, s.space.members[0].present())
			s.shut()
		})
	}
	for name, late := range map[string]func(s *Server) func() bool{
		"closed":       func(s *Server) func() bool { s.closed = true; return nil },
		"has to leave": func(s *Server) func() bool { return func() bool { return false } },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := bareServer(ServerConfig{Ranks: 1})
			near, far := net.Pipe()
			proved := late(s)
			s.wg.Go(func() { s.serve(far, proved) })
			_, err := Handshake(near, &s.secret, jobLabel, Initiator, make([]byte, 4))
			require.NoError(t, err)
			_, err = readFrame(near)
			require.Equal(t, io.EOF, err, name)
			s.wg.Wait()
			require.False(t, s.space.members[0].joined)
		})
	}
}

// A rank whose connection ends is lost, once, if the end of its process does not become known in
// time. Otherwise the others hear how the process ended.
func TestTimeOfALoss(t *testing.T) {
	for name, row := range map[string]struct {
		says frame
		then func(s *Server)
		want string // the text that OnLost and rank 1 hear; "": none
	}{
		"its end":      {frame{}, func(*Server) {}, "its connection to the launcher ended"},
		"wrong kind":   {frame{kind: jobKills}, func(*Server) {}, fmt.Sprintf("protocol error: a rank does not send frames of kind %d", jobKills)},
		"limit":        {frame{kind: rankPuts}, func(*Server) {}, "beyond a limit: a key of 0 bytes; 1 to 255 are legal"},
		"twice":        {frame{kind: rankPuts, key: "k"}, func(*Server) {}, `the key has a value already: "k"`},
		"it has ended": {frame{}, func(s *Server) { s.Ended(0, 3, "exit status 3") }, ""},
		"the job has":  {frame{}, func(s *Server) { s.mu.Lock(); s.closed = true; s.mu.Unlock() }, ""},
		"it has left":  {frame{kind: rankLeaves}, func(*Server) {}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			lost := make(chan string, 4)
			s := bareServer(ServerConfig{Ranks: 2, OnLost: func(rank int, how string) { lost <- fmt.Sprintf("%d: %s", rank, how) }})
			c, other := s.joinBare(t, 0), s.joinBare(t, 1)
			heard := make(chan frame, 4)
			go func() {
				for {
					f, err := readFrame(other)
					if err != nil {
						return
					}
					heard <- f
				}
			}()
			say(t, c, frame{kind: rankPuts, key: "k"})
			if row.says.kind != 0 {
				say(t, c, row.says)
			}
			_ = c.Close()
			synctest.Wait()
			require.Nil(t, s.conns[0])
			row.then(s)
			time.Sleep(endNotice - 1)
			synctest.Wait()
			require.Empty(t, lost, name)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if row.want != "" {
				require.Equal(t, "0: "+row.want, <-lost, name)
				require.Equal(t, frame{kind: jobNotifies, rank: 0, code: -1, value: []byte(row.want)}, <-heard)
				require.Empty(t, s.timers)
				s.Ended(0, 3, "exit status 3")
			}
			time.Sleep(time.Hour)
			require.Empty(t, lost, name)
			if s.space.members[0].death != nil && row.want == "" {
				require.Equal(t, frame{kind: jobNotifies, rank: 0, code: 3, value: []byte("exit status 3")}, <-heard, name)
			}
			synctest.Wait()
			require.Empty(t, heard, name)
			s.shut()
		})
	}
	synctest.Test(t, func(t *testing.T) { // OnLost is not set
		s := bareServer(ServerConfig{Ranks: 1})
		_ = s.joinBare(t, 0).Close()
		time.Sleep(endNotice)
		synctest.Wait()
		require.NotNil(t, s.space.members[0].death)
		s.lost(0, "again")
		s.timers[0] = time.NewTimer(0)
		s.lost(0, "again")
		require.Equal(t, "its connection to the launcher ended", s.space.members[0].death.How)
		s.shut()
	})
}

// Settle waits for the end of a connection, but not for ever.
func TestTimeOfSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bareServer(ServerConfig{Ranks: 2})
		c := s.joinBare(t, 0)
		start := time.Now()
		s.Settle(1)
		require.Zero(t, time.Since(start), "it never came")
		s.Settle(0)
		require.Equal(t, endNotice, time.Since(start))
		time.AfterFunc(endNotice/2, func() { _ = c.Close() })
		start = time.Now()
		s.Settle(0)
		require.Equal(t, endNotice/2, time.Since(start))
		s.Settle(0)
		require.Equal(t, endNotice/2, time.Since(start))
		d, orderly := s.Ended(0, 0, "exit status 0")
		require.Equal(t, Death{Rank: 0, How: "exit status 0, without leaving the job"}, *d)
		require.False(t, orderly)
		d, orderly = s.Ended(1, 5, "exit status 5")
		require.Equal(t, Death{Rank: 1, Code: 5, How: "exit status 5"}, *d)
		require.True(t, orderly, "it never came")
		s.shut()
	})
	r := &Relay{ranks: map[int]chan struct{}{3: make(chan struct{})}}
	synctest.Test(t, func(t *testing.T) {
		heard := make(chan struct{})
		r.ranks[3] = heard
		start := time.Now()
		r.Settle(2)
		require.Zero(t, time.Since(start))
		r.Settle(3)
		require.Equal(t, relayNotice, time.Since(start))
		time.AfterFunc(relayNotice/2, func() { close(heard) })
		r.Settle(3)
		require.Equal(t, relayNotice+relayNotice/2, time.Since(start))
	})
}

// A rank may abort the job with any number; one that is no exit status becomes 1.
func TestStatusOfAnAbort(t *testing.T) {
	asked := make(chan Abort, 8)
	synctest.Test(t, func(t *testing.T) {
		s := bareServer(ServerConfig{Ranks: 2, OnAbort: func(a *Abort) { asked <- *a }})
		c := s.joinBare(t, 1)
		for code, want := range map[int32]int{-1: 1, 0: 1, 1: 1, 2: 2, 254: 254, 255: 255, 256: 1, 1 << 30: 1} {
			say(t, c, frame{kind: rankAborts, code: code, value: []byte("why")})
			synctest.Wait()
			require.Equal(t, Abort{1, want, "why"}, <-asked, code)
		}
		say(t, c, frame{kind: rankAborts, id: 1, code: StatusDeadlock, value: []byte("all wait")})
		synctest.Wait()
		require.Equal(t, Abort{-1, StatusDeadlock, "all wait"}, <-asked)
		s.cfg.OnAbort = nil
		say(t, c, frame{kind: rankAborts, code: 1}, frame{kind: rankPuts, key: "k"})
		synctest.Wait()
		require.Len(t, s.space.members[1].values, 1, "it goes on")
		s.shut()
	})
}

// A rank that joins late hears of all ended ranks before anything else.
func TestLateRankHearsOfDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bareServer(ServerConfig{Ranks: 4, Elsewhere: 2, Part: func(rank int) int { return 10 + rank }})
		s.Ended(0, 0, "exit status 0")
		s.Ended(2, 137, "killed")
		c := s.connect()
		require.Equal(t, frame{kind: jobWelcomes, rank: 4, code: 13, id: 1, key: newTestID, value: []byte{}}, s.greetAs(t, c, []byte{0, 0, 0, 3}))
		for _, want := range []frame{{kind: jobNotifies, id: 1, value: []byte("exit status 0")}, {kind: jobNotifies, rank: 2, code: 137, value: []byte("killed")}} {
			f, err := readFrame(c)
			require.NoError(t, err)
			require.Equal(t, want, f)
		}
		s.Abort(&Abort{Rank: 1, Code: 9, Reason: "no more"})
		f, err := readFrame(c)
		require.NoError(t, err)
		require.Equal(t, frame{kind: jobAborts, rank: 1, code: 9, value: []byte("no more")}, f)
		require.True(t, s.hosts.ending)
		s.shut()
	})
}
