// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A greeting rank or launcher gives the other side the time of a handshake for its hello and its
// answer, and no limit from then on.
func TestTimeOfAGreeting(t *testing.T) {
	type greeter struct {
		greet func(c net.Conn) error
		label string
		first []byte // sent before its hello
		says  frame  // the answer to it
	}
	key := Key(newSecret())
	for name, g := range map[string]greeter{
		"rank": {func(c net.Conn) error {
			return (&Client{c: c, identity: Identity{0, 2, ""}, secret: Secret(key)}).greet()
		}, jobLabel, nil, frame{kind: jobWelcomes, rank: 2, key: newTestID}},
		"launcher": {func(c net.Conn) error {
			return (&Relay{cfg: RelayConfig{Ranks: 1, Key: &key}}).greet(c)
		}, hostLabel, []byte{aLauncher}, frame{kind: jobAdmits, rank: 1, code: 2, key: newTestID}},
	} {
		for silent := range 3 { // 0: from the beginning; 1: after the handshake; 2: never
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				secret := Secret(key)
				start := time.Now()
				go func() {
					_, _ = io.ReadFull(far, make([]byte, len(g.first)))
					if silent == 0 {
						_, _ = io.Copy(io.Discard, far)
						return
					}
					time.Sleep(handshakeTime - 1)
					_, _ = Handshake(far, &secret, g.label, Acceptor, []byte(newTestID))
					if silent == 2 {
						_, _ = far.Write(g.says.encode())
					}
				}()
				err := g.greet(near)
				if silent < 2 {
					require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
					require.Equal(t, silent == 0, strings.HasPrefix(err.Error(), "handshake: "), err)
					require.Equal(t, handshakeTime, time.Since(start))
				} else {
					require.NoError(t, err, name)
					time.Sleep(handshakeTime)
					go func() { _, _ = far.Write([]byte{1}) }()
					_, err := near.Read(make([]byte, 1))
					require.NoError(t, err, name)
				}
				_ = near.Close()
			})
		}
	}
}

// A greeting over a connection that is lost at any step fails with the reason.
func TestGreetingsThatAreLost(t *testing.T) {
	key := Key(newSecret())
	greets := func(name string, steps int) (left int, err error) {
		near, far := net.Pipe()
		defer near.Close()
		c := &losing{Conn: near, left: steps}
		label, says := jobLabel, frame{kind: jobWelcomes, rank: 2, key: newTestID}
		if name == "launcher" {
			label, says = hostLabel, frame{kind: jobAdmits, rank: 1, code: 2, key: newTestID}
		}
		go func() {
			if name == "launcher" {
				_, _ = io.ReadFull(far, []byte{aLauncher})
			}
			secret := Secret(key)
			_, _ = Handshake(far, &secret, label, Acceptor, []byte(newTestID))
			_, _ = far.Write(says.encode())
		}()
		if name == "launcher" {
			err = (&Relay{cfg: RelayConfig{Ranks: 1, Key: &key}}).greet(c)
		} else {
			err = (&Client{c: c, identity: Identity{0, 2, ""}, secret: Secret(key)}).greet()
		}
		return c.left, err
	}
	for _, name := range []string{"rank", "launcher"} {
		left, err := greets(name, 100)
		require.NoError(t, err)
		require.Less(t, left, 100)
		for step := range 100 - left {
			_, err := greets(name, step)
			require.ErrorIs(t, err, syscall.ECONNRESET, "%s, step %d", name, step)
		}
	}
}

// losing is a connection that is lost after so many reads and writes.
type losing struct {
	net.Conn
	left int
}

func (l *losing) step() error {
	if l.left == 0 {
		return syscall.ECONNRESET
	}
	l.left--
	return nil
}

func (l *losing) Read(b []byte) (int, error) {
	if err := l.step(); err != nil {
		return 0, err
	}
	return l.Conn.Read(b)
}

func (l *losing) Write(b []byte) (int, error) {
	if err := l.step(); err != nil {
		return 0, err
	}
	return l.Conn.Write(b)
}

// awaitStack returns when the stack of some goroutine contains all of the words.
func awaitStack(t *testing.T, words ...string) {
	t.Helper()
	buf := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		for _, g := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
			all := true
			for _, w := range words {
				all = all && bytes.Contains(g, []byte(w))
			}
			if all {
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond)
}

// passing is a relay between a rank and the launcher of the job.
type passing struct {
	r      *Relay
	rank   net.Conn
	server net.Conn
	heard  chan struct{}
	passed chan struct{} // closed when pass has returned
}

// greeted returns a passing whose rank has sent its hello, which the launcher has received.
func greeted(t *testing.T) *passing {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(shortDir(t), "s"), Net: "unix"})
	require.NoError(t, err)
	rank, err := net.DialUnix("unix", nil, ul.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	c, err := ul.AcceptUnix()
	require.NoError(t, err)
	p := &passing{rank: rank, passed: make(chan struct{})}
	p.r = &Relay{cfg: RelayConfig{Addr: l.Addr().String()}, pipes: map[net.Conn]bool{c: true}, ranks: map[int]chan struct{}{}}
	go func() { p.r.pass(c); close(p.passed) }()
	hello := makeHello(Initiator, []byte{0, 0, 1, 2})
	_, err = rank.Write(hello)
	require.NoError(t, err)
	p.server, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, p.server.SetDeadline(time.Now().Add(time.Minute)))
	got := make([]byte, 1+len(hello))
	_, err = io.ReadFull(p.server, got)
	require.NoError(t, err)
	require.Equal(t, append([]byte{aRank}, hello...), got)
	p.r.mu.Lock()
	p.heard = p.r.ranks[0x102]
	p.r.mu.Unlock()
	require.NotNil(t, p.heard)
	t.Cleanup(func() {
		<-p.passed
		<-p.heard
		require.Empty(t, p.r.pipes)
		_ = rank.Close()
		require.NoError(t, ul.Close())
		require.NoError(t, l.Close())
	})
	return p
}

// Data between a rank and the launcher of the job arrives whole, even if one of them does not read
// and the other ends. The relay passes data on until the launcher ends its side.
func TestPassedOnWhole(t *testing.T) {
	const most = 1 << 20
	text := bytes.Repeat([]byte("0123456789abcdef"), most/16)
	for _, leaves := range []bool{false, true} {
		p := greeted(t)
		wrote := make(chan struct{})
		go func() {
			_, _ = p.rank.Write(text)
			if leaves {
				_ = p.rank.Close()
			}
			close(wrote)
		}()
		if leaves { // the launcher sends much, and the rank reads none of it before it ends
			_, err := p.server.Write(text[:most/8])
			require.NoError(t, err)
		}
		got := make([]byte, most)
		_, err := io.ReadFull(p.server, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, got))
		<-wrote
		if leaves {
			_, err = p.server.Read(got)
			require.Equal(t, io.EOF, err, "the end of the rank's side arrives")
			select {
			case <-p.heard:
				require.Fail(t, "the launcher has not ended its side")
			default:
			}
			require.NoError(t, p.server.Close())
		} else {
			go func() { _, _ = p.server.Write(text); _ = p.server.Close() }()
			got, err = io.ReadAll(p.rank)
			require.NoError(t, err)
			require.True(t, bytes.Equal(text, got))
		}
	}
}

// Frames that a rank has sent before it ended arrive, although the launcher has not read them yet
// and sends frames that the rank does not get any more.
func TestPassedOnToASlowLauncher(t *testing.T) {
	p := greeted(t)
	said := 0
	for text := make([]byte, 1<<16); ; {
		require.NoError(t, p.rank.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
		n, err := p.rank.Write(text)
		if said += n; err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "everything on the way is full")
			break
		}
	}
	require.NoError(t, p.rank.Close())
	_, err := p.server.Write([]byte("too late"))
	require.NoError(t, err)
	awaitStack(t, "(*Relay).pass.", "io.discard.")
	got, err := io.ReadAll(p.server)
	require.NoError(t, err)
	require.Len(t, got, said)
	require.NoError(t, p.server.Close())
}

// Connections that do not begin with a rank's hello are not passed on, and none is if the launcher
// does not listen.
func TestNotPassedOn(t *testing.T) {
	dir := shortDir(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	require.NoError(t, err)
	defer ul.Close()
	closedPort, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closedPort.Close())
	rank := makeHello(Initiator, make([]byte, 4))
	for name, row := range map[string]struct {
		says   []byte
		addr   net.Addr
		closed bool
	}{
		"no hello": {[]byte(strings.Repeat("GET /", 10)), l.Addr(), false}, "an acceptor": {makeHello(Acceptor, make([]byte, 4)), l.Addr(), false},
		"a short greeting": {makeHello(Initiator, make([]byte, 3)), l.Addr(), false}, "a long greeting": {makeHello(Initiator, make([]byte, 5)), l.Addr(), false},
		"no listener": {rank, closedPort.Addr(), false}, "the relay is closed": {rank, l.Addr(), true},
	} {
		c, err := net.DialUnix("unix", nil, ul.Addr().(*net.UnixAddr))
		require.NoError(t, err)
		far, err := ul.AcceptUnix()
		require.NoError(t, err)
		r := &Relay{cfg: RelayConfig{Addr: row.addr.String()}, pipes: map[net.Conn]bool{far: true}, ranks: map[int]chan struct{}{}, closed: row.closed}
		_, err = c.Write(row.says)
		require.NoError(t, err)
		r.pass(far)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err, name)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, name)
		require.Empty(t, r.pipes)
		if row.closed || row.addr != l.Addr() {
			<-r.ranks[0] // Settle does not wait
		} else {
			require.Empty(t, r.ranks)
		}
		_ = c.Close()
	}
	// The connection made while the relay was closed has been ended, and no other one was made.
	c, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err = c.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	require.NoError(t, l.(*net.TCPListener).SetDeadline(time.Now()))
	_, err = l.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// A launcher that cannot join closes its connections, each before it tries again, and leaves no
// file.
func TestJoiningAJobFails(t *testing.T) {
	home := shortDir(t)
	key := Key(newSecret())
	secret := Secret(key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ended := func(c net.Conn) {
		t.Helper()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err := io.Copy(io.Discard, c)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		_ = c.Close()
	}
	join := func(ctx context.Context, bases ...string) <-chan error {
		result := make(chan error, 1)
		go func() {
			_, err := JoinJob(ctx, RelayConfig{Addr: l.Addr().String(), Key: &key, Ranks: 1, First: -1, Wait: time.Minute, bases: bases, OnLost: func(error) {}})
			result <- err
		}()
		return result
	}
	accept := func(handshake bool) net.Conn {
		t.Helper()
		c, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err)
		if handshake {
			_, err = Handshake(c, &secret, hostLabel, Acceptor, []byte(newTestID))
			require.NoError(t, err)
		}
		return c
	}
	result := join(t.Context(), home)
	for _, handshake := range []bool{false, true} {
		c := accept(handshake)
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		ended(c) // before the launcher tries again
	}
	c := accept(true)
	_, err = c.Write((&frame{kind: jobRefuses, value: []byte("no room")}).encode())
	require.NoError(t, err)
	ended(c)
	require.EqualError(t, <-result, "launch: join "+l.Addr().String()+": refused by the launcher: no room")

	result = join(t.Context(), filepath.Join(home, "missing"))
	c = accept(true)
	_, err = c.Write((&frame{kind: jobAdmits, rank: 1, code: 2, key: newTestID}).encode())
	require.NoError(t, err)
	ended(c)
	require.ErrorContains(t, <-result, "the directory of a job cannot be made: ")

	for _, handshake := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		result = join(ctx, home)
		c = accept(handshake)
		cancel(errEnough)
		require.ErrorIs(t, <-result, errEnough)
		ended(c)
	}
	list, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, list)
}

// A launcher waits for another one to listen. If that does not happen, its error is a timeout only
// if there is no better reason.
func TestLauncherThatDoesNotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	_, err = dialUntilListening(t.Context(), addr, 400*time.Millisecond, 0)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "within 400ms: dial tcp "+addr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dialUntilListening(ctx, addr, time.Hour, 0)
	require.ErrorContains(t, err, "within 1h0m0s: ")
	_, err = dialUntilListening(t.Context(), addr, -1, 0)
	var late net.Error
	require.True(t, errors.As(err, &late) && late.Timeout(), err)

	type result struct {
		c   net.Conn
		err error
	}
	got := make(chan result, 1)
	go func() { c, err := dialUntilListening(t.Context(), addr, time.Minute, 0); got <- result{c, err} }()
	awaitStack(t, "launch.dialUntilListening", "[select]")
	l, err = net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("another process has the port: %v", err)
	}
	defer l.Close()
	r := <-got
	require.NoError(t, r.err)
	require.NoError(t, r.c.Close())
}

// Launchers go on listening when connections cannot be accepted for a while.
func TestListeningGoesOn(t *testing.T) {
	s, key := spreadServer(t, 3, 1)
	r, err := testRelay(t, s.Addr(), key, 1)
	require.NoError(t, err)
	past := time.Now().Add(-time.Hour)
	for function, l := range map[string]interface{ SetDeadline(time.Time) error }{"(*Server).accept(": s.l, "(*Server).acceptHosts(": s.hosts.l.(*net.TCPListener), "(*Relay).accept(": r.l} {
		require.NoError(t, l.SetDeadline(past))
		awaitStack(t, "launch."+function, "[sleep]")
		require.NoError(t, l.SetDeadline(time.Time{}))
	}
	for _, p := range []*Identity{s.Identity(0), r.Identity(2)} {
		c, err := p.Join(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Leave())
	}
	// A connection that is made while the launcher closes is ended, and the launcher does not
	// listen any more.
	for dir, set := range map[string]func(closed bool){
		s.dir: func(closed bool) { s.mu.Lock(); s.closed = closed; s.mu.Unlock() },
		r.dir: func(closed bool) { r.mu.Lock(); r.closed = closed; r.mu.Unlock() },
	} {
		set(true)
		c, err := net.Dial("unix", filepath.Join(dir, socketFile))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "EOF")
		_ = c.Close()
		set(false)
	}
	require.Zero(t, s.countUnproved())
	require.Eventually(t, func() bool {
		// the relay may not have released the ranks that have left yet
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.pipes) == 0
	}, time.Minute, time.Millisecond)
}

// A launcher that cannot listen for others leaves no files.
func TestListeningForOthersFails(t *testing.T) {
	home := shortDir(t)
	key := Key(newSecret())
	var dir string
	s, err := NewServer(ServerConfig{Ranks: 2, Elsewhere: 1, Listen: "127.0.0.1:x", Key: &key, bases: []string{home}, OnDir: func(d string) { dir = d }})
	require.Nil(t, s)
	require.ErrorContains(t, err, "launch: serve: listen tcp: ")
	require.NoDirExists(t, dir)
	if sockets, err := os.ReadFile("/proc/net/unix"); err == nil {
		require.NotContains(t, string(sockets), dir, "it does not listen any more")
	}
	s, err = NewServer(ServerConfig{Ranks: 1, bases: []string{filepath.Join(home, "missing")}})
	require.Nil(t, s)
	require.ErrorContains(t, err, "launch: serve: the directory of a job cannot be made: ")

	// The secret of such a job is made from the key and the job's name.
	s, k := spreadServer(t, 2, 1)
	require.Equal(t, k.secret(s.id), s.secret)
}
