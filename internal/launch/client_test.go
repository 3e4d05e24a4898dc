// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// A rank accepts the answer of a launcher, or returns what is wrong with it and closes the
// connection.
func TestAnswersToAJoiningRank(t *testing.T) {
	f := newFakeLauncher(t)
	good := frame{kind: jobWelcomes, rank: 3, code: 2, id: 1, key: f.id}
	with := func(change func(f *frame)) []byte {
		w := good
		change(&w)
		return w.encode()
	}
	for name, row := range map[string]struct {
		answer []byte
		is     error
		says   string
	}{
		"refused":        {with(func(f *frame) { f.kind, f.value = jobRefuses, []byte("no room") }), ErrRefused, "refused by the launcher: no room"},
		"another kind":   {with(func(f *frame) { f.kind = jobAnswers }), ErrProtocol, fmt.Sprintf("the launcher answers with a frame of kind %d", jobAnswers)},
		"no job's name":  {with(func(f *frame) { f.key = "x" }), ErrProtocol, fmt.Sprintf("the launcher answers with a frame of kind %d", jobWelcomes)},
		"no name at all": {with(func(f *frame) { f.key = "" }), ErrProtocol, "the launcher answers"},
		"another size":   {with(func(f *frame) { f.rank = 4 }), ErrEnvironment, env.Ranks.Name + "=3 in a job of 4 ranks"},
		"no frame":       {make([]byte, 4), ErrProtocol, "a frame of 0 bytes"},
	} {
		c, far, err := f.meet(t, &Identity{1, 3, f.dir}, row.answer)
		require.Nil(t, c, name)
		require.ErrorIs(t, err, row.is, name)
		require.ErrorContains(t, err, "launch: join: rank 1: ", name)
		require.ErrorContains(t, err, row.says, name)
		require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = far.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err, name)
	}
	c, _, err := f.meet(t, &Identity{1, 3, f.dir}, good.encode())
	require.NoError(t, err)
	require.Equal(t, []any{1, 3, 2, f.id, f.dir, true, f.secret}, []any{c.Rank(), c.Size(), c.Part(), c.JobID(), c.Dir(), c.Spread(), *c.Secret()})
	require.NoError(t, c.Leave())
}

// A directory that is not that of a job of this user is refused before any file in it is used. An
// error names a missing file.
func TestDirectoriesOfAJoiningRank(t *testing.T) {
	join := func(dir string) error {
		c, err := (&Identity{1, 2, dir}).Join(t.Context())
		require.Nil(t, c)
		return err
	}
	home := shortDir(t)
	missing := filepath.Join(home, dirPrefix+newTestID)
	err := join(missing)
	require.ErrorIs(t, err, ErrLauncherLost)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, env.Job.Name+": ")

	f := newFakeLauncher(t)
	require.NoError(t, f.l.Close()) // removes its socket
	err = join(f.dir)
	require.ErrorIs(t, err, ErrLauncherLost)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, socketFile)
	require.NoError(t, os.Remove(filepath.Join(f.dir, secretFile)))
	err = join(f.dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(f.dir, secretFile))

	file := filepath.Join(f.dir, dirPrefix+newTestID)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	other := filepath.Join(f.dir, "weft-job-x")
	require.NoError(t, os.Mkdir(other, 0o700))
	open := filepath.Join(f.dir, "o", dirPrefix+newTestID)
	require.NoError(t, os.MkdirAll(open, 0o700))
	for _, mode := range []os.FileMode{0o710, 0o701, 0o720, 0o702, 0o740, 0o704} {
		require.NoError(t, os.Chmod(open, mode))
		for _, dir := range []string{file, other, open} {
			err = join(dir)
			require.ErrorIs(t, err, ErrEnvironment, dir)
			require.ErrorContains(t, err, fmt.Sprintf("%s=%q is not the directory of a job of this user", env.Job.Name, dir))
		}
	}
}

// A context that ends while the launcher answers ends the call with its cause, or is too late: the
// call never returns a client with a closed connection.
func TestJoinAndCancelAtOnceHammer(t *testing.T) {
	f := newFakeLauncher(t)
	welcome := (&frame{kind: jobWelcomes, rank: 1, key: f.id}).encode()
	for i := range 100 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			far, _, err := f.accept()
			if err != nil {
				return
			}
			defer far.Close()
			if i%2 == 0 {
				go cancel(errEnough)
			}
			_, _ = far.Write(welcome)
			if i%2 == 1 {
				cancel(errEnough)
			}
			_, _ = io.Copy(io.Discard, far)
		}()
		c, err := (&Identity{0, 1, f.dir}).Join(ctx)
		if err != nil {
			require.Nil(t, c)
			require.ErrorIs(t, err, errEnough)
		} else {
			require.NoError(t, c.Put("k", nil))
			require.NoError(t, c.Leave())
		}
		<-done
		cancel(nil)
	}
}

// The frames that a rank sends its launcher, one by one.
func TestFramesOfARank(t *testing.T) {
	c, far := newFakeLauncher(t).client(t, 1, 3)
	expect := func(want frame) {
		t.Helper()
		if want.value == nil {
			want.value = []byte{}
		}
		require.Equal(t, want, hears(t, far))
	}
	require.NoError(t, c.Put("k", []byte("v")))
	expect(frame{kind: rankPuts, key: "k", value: []byte("v")})
	got := make(chan string, 2)
	for id := range uint64(2) {
		go func() {
			v, err := c.Get(t.Context(), 2, "g")
			got <- fmt.Sprintf("%s %v", v, err)
		}()
		expect(frame{kind: rankGets, id: id + 1, rank: 2, key: "g"})
	}
	say(t, far, frame{kind: jobAnswers, id: 2, value: []byte("two")})
	require.Equal(t, "two <nil>", next(t, got))
	say(t, far, frame{kind: jobDenies, id: 1, rank: 2})
	require.Equal(t, " launch: get: rank 1: rank 2 has ended: it has left the job", next(t, got))
	for round := range uint64(2) {
		go func() {
			all, err := c.Exchange(t.Context(), []byte("mine"))
			got <- fmt.Sprintf("%q %v", all, err)
		}()
		expect(frame{kind: rankExchanges, id: round + 1, value: []byte("mine")})
		say(t, far, frame{kind: jobShares, id: round + 1, rank: 2, value: []byte("two")}, frame{kind: jobShares, id: round + 1, rank: 0, value: []byte("zero")},
			frame{kind: jobShared, id: round + 1})
		require.Equal(t, `["zero" "" "two"] <nil>`, next(t, got))
	}
	require.NoError(t, c.Deadlock("all wait"))
	expect(frame{kind: rankAborts, id: 1, code: StatusDeadlock, value: []byte("all wait")})
	require.NoError(t, c.Deadlock(strings.Repeat("x", MaxValue+1)))
	expect(frame{kind: rankAborts, id: 1, code: StatusDeadlock, value: bytes.Repeat([]byte("x"), MaxValue)})
	for _, row := range []struct {
		b    Blame
		rank int32
		code int32
	}{
		{Blame{Rank: -1, Reason: "why"}, -1, 0}, {Blame{Rank: 0, Certain: true, Reason: "why"}, 0, blameCertain},
		{Blame{Rank: 2, Lost: true, Reason: "why"}, 2, blameLost}, {Blame{Rank: 1, Certain: true, Lost: true, Reason: "why"}, 1, blameCertain | blameLost},
	} {
		require.NoError(t, c.Blame(row.b))
		expect(frame{kind: rankBlames, rank: row.rank, code: row.code, value: []byte("why")})
	}
	require.EqualError(t, c.Blame(Blame{Rank: 1}), "launch: blame: rank 1: beyond a limit: rank 1; legal are -1 to 2, and this one if it is certain")
	require.NoError(t, c.Abort(9, "reason"))
	expect(frame{kind: rankAborts, code: 9, value: []byte("reason")})
	require.NoError(t, c.Leave())
	expect(frame{kind: rankLeaves})
	_, err := readFrame(far)
	require.Equal(t, io.EOF, err)
}

// An illegal frame of the launcher ends the connection. Waiting and later calls return why, or that
// the launcher is gone if the frame was only cut off.
func TestEndsOfAConnection(t *testing.T) {
	answer := (&frame{kind: jobAnswers, id: 1, value: []byte("v")}).encode()
	for name, row := range map[string]struct {
		says []byte
		want error
	}{
		"nothing":          {nil, ErrLauncherLost},
		"part of a length": {answer[:2], ErrLauncherLost},
		"part of a frame":  {answer[:len(answer)-1], ErrLauncherLost},
		"no frame":         {[]byte("\xff\xff\xff\xff"), ErrProtocol},
		"a wrong frame":    {(&frame{kind: jobAnswers, id: 2}).encode(), ErrProtocol},
		"a rank's frame":   {(&frame{kind: rankPuts, key: "k"}).encode(), ErrProtocol},
	} {
		c, far := newFakeLauncher(t).client(t, 0, 2)
		other := ErrLauncherLost
		if row.want == ErrLauncherLost {
			other = ErrProtocol
		}
		results := make(chan error, 2)
		go func() { _, err := c.Get(t.Context(), 1, "k"); results <- err }()
		require.Equal(t, rankGets, hears(t, far).kind)
		go func() { results <- c.Fence(t.Context()) }()
		require.Equal(t, rankExchanges, hears(t, far).kind)
		_, err := far.Write(row.says)
		require.NoError(t, err)
		if row.want == ErrLauncherLost {
			require.NoError(t, far.Close())
		}
		for range 2 {
			err := <-results
			require.ErrorIs(t, err, row.want, name)
			require.NotErrorIs(t, err, other, name)
		}
		<-c.Lost()
		_, err = c.Get(t.Context(), 1, "k")
		for op, err := range map[string]error{"put": c.Put("k", nil), "get": err, "exchange": c.Fence(t.Context()), "abort": c.Abort(1, ""),
			"deadlock": c.Deadlock(""), "blame": c.Blame(Blame{Rank: 1}), "leave": c.Leave()} {
			require.ErrorIs(t, err, row.want, "%s, %s", name, op)
			require.ErrorContains(t, err, "launch: "+op+": rank 0: ", name)
		}
		require.NoError(t, c.Leave(), "again does nothing")
		_ = far.Close()
	}
}

// If a connection fails, each call that sends a frame fails, even before the reader has noticed the
// end.
func TestCallsOnABrokenConnection(t *testing.T) {
	for op, call := range map[string]func(c *Client) error{
		"put":      func(c *Client) error { return c.Put("k", nil) },
		"get":      func(c *Client) error { _, err := c.Get(t.Context(), 1, "k"); return err },
		"exchange": func(c *Client) error { _, err := c.Exchange(t.Context(), nil); return err },
		"abort":    func(c *Client) error { return c.Abort(1, "") },
		"deadlock": func(c *Client) error { return c.Deadlock("") },
		"blame":    func(c *Client) error { return c.Blame(Blame{Rank: 1}) },
		"leave":    (*Client).Leave,
	} {
		near, far := net.Pipe()
		require.NoError(t, far.Close())
		c := &Client{identity: Identity{0, 2, ""}, c: near, done: make(chan struct{}), keys: map[string]bool{}, gets: map[uint64]chan answer{}}
		close(c.done)
		err := call(c)
		require.ErrorIs(t, err, io.ErrClosedPipe, op)
		require.ErrorContains(t, err, "launch: "+op+": rank 0: ")
		require.Equal(t, op != "leave", errors.Is(err, ErrLauncherLost), op)
	}
}

// The end of a rank's participation in the job counts before a limit that a call would exceed.
func TestCallsAfterTheEnd(t *testing.T) {
	full := map[uint64]chan answer{}
	for i := range uint64(maxWaiting) {
		full[i] = nil
	}
	abort := &Abort{Rank: 1, Code: 2, Reason: "no more"}
	broken := errors.New("broken")
	for _, row := range []struct {
		c    *Client
		want error
	}{
		{&Client{left: true, abort: abort, err: broken}, ErrLeft}, {&Client{abort: abort, err: broken}, abort}, {&Client{err: broken}, broken},
	} {
		row.c.identity, row.c.gets, row.c.broken = Identity{0, 2, ""}, full, errEnough
		_, err := row.c.Get(t.Context(), 1, "k")
		for op, err := range map[string]error{"put": row.c.Put("k", nil), "get": err, "exchange": row.c.Fence(t.Context()), "abort": row.c.Abort(1, ""), "deadlock": row.c.Deadlock("")} {
			require.Equal(t, &Error{Op: op, Rank: 0, Err: row.want}, err)
		}
	}
}

// A rank counts the bytes that it has published, and itself refuses a value that would be too much.
func TestTooManyBytesOfARank(t *testing.T) {
	c := joinAll(t, newTestServer(t, ServerConfig{Ranks: 1}))[0]
	value := make([]byte, MaxValue)
	for i := range MaxRankBytes/MaxValue - 1 {
		require.NoError(t, c.Put(strconv.Itoa(i), value))
	}
	require.NoError(t, c.Put("all but one", value[:MaxValue-1]))
	require.ErrorIs(t, c.Put("too much", value[:2]), ErrLimit)
	require.NoError(t, c.Put("the last", value[:1]))
	require.ErrorIs(t, c.Put("too much", value[:1]), ErrLimit)
	require.NoError(t, c.Put("none", nil))
	all, err := c.Exchange(t.Context(), value)
	require.NoError(t, err)
	require.Len(t, all[0], MaxValue, "an exchange is not counted")
	_, err = c.Get(t.Context(), 0, "none")
	require.NoError(t, err, "the launcher has accepted all of it")
}

// An exchange that was given up is a rank's last one, whatever else fails exchanges before or
// after.
func TestExchangeThatWasGivenUp(t *testing.T) {
	c, far := newFakeLauncher(t).client(t, 0, 3)
	give := func(before func()) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() { _, err := c.Exchange(ctx, nil); result <- err }()
		require.Equal(t, rankExchanges, hears(t, far).kind)
		before()
		cancel(errEnough)
		require.Equal(t, c.fail("exchange", errEnough), <-result)
	}
	give(func() {})
	require.EqualError(t, c.Fence(t.Context()), "launch: exchange: rank 0: an earlier exchange was given up: enough")
	heard := news(c)
	say(t, far, frame{kind: jobNotifies, rank: 2, code: 3, value: []byte("how")}, frame{kind: jobFails, id: 1, rank: 2})
	<-heard
	say(t, far, frame{kind: jobFails, id: 1, rank: 1}, frame{kind: jobNotifies, rank: 1, code: 4, value: []byte("so")})
	<-heard // so all frames before it were handled
	require.EqualError(t, c.Fence(t.Context()), "launch: exchange: rank 0: an earlier exchange was given up: enough")

	c, far = newFakeLauncher(t).client(t, 0, 3)
	earlier := errors.New("earlier")
	give(func() {
		c.mu.Lock()
		c.broken = earlier
		c.mu.Unlock()
	})
	require.ErrorIs(t, c.Fence(t.Context()), earlier)
}

// A late watcher hears once of all earlier ends, by rank, and then of the job's. It hears of later
// ones together with the earlier watchers.
func TestWatchers(t *testing.T) {
	c, far := newFakeLauncher(t).client(t, 1, 4)
	first := news(c)
	say(t, far, frame{kind: jobNotifies, rank: 3, code: 1, value: []byte("a")}, frame{kind: jobNotifies, rank: 0, code: 2, value: []byte("b")},
		frame{kind: jobAborts, rank: -1, code: 3, value: []byte("c")}, frame{kind: jobAborts, rank: 2, code: 4, value: []byte("d")},
		// For an aborted rank all answers are too late, and it does not check them.
		frame{kind: jobAnswers, id: 9}, frame{kind: jobShared, id: 9}, frame{kind: jobFails, id: 9})
	three, zero := &Death{Rank: 3, Code: 1, How: "a"}, &Death{Rank: 0, Code: 2, How: "b"}
	over := &Abort{Rank: -1, Code: 3, Reason: "c"}
	for _, want := range []error{three, zero, over} {
		require.Equal(t, want, <-first)
	}
	late := news(c)
	for _, want := range []error{zero, three, over} {
		require.Equal(t, want, <-late)
	}
	say(t, far, frame{kind: jobNotifies, rank: 2, code: 5, id: 1, key: "3!", value: []byte("how\x00why")})
	for _, ch := range []<-chan error{first, late} {
		require.Equal(t, &Death{Rank: 2, Code: 5, How: "how", Clean: true, Cause: &Blame{Rank: 3, Certain: true, Reason: "why", Lost: true}}, <-ch)
		require.Empty(t, ch)
	}
}

// Leave returns after the client's goroutine has ended.
func TestLeaveWaitsForTheReader(t *testing.T) {
	f := newFakeLauncher(t)
	for range 20 {
		c, _ := f.client(t, 0, 1)
		require.NoError(t, c.Leave())
		select {
		case <-c.done:
		default:
			require.Fail(t, "the reader has not ended")
		}
		select {
		case <-c.Lost():
			require.Fail(t, "a rank that has left has lost no launcher")
		default:
		}
	}
}

// A rank that leaves while it checks whether its launcher is dead has left.
func TestLeaveWhileTheLauncherIsProbed(t *testing.T) {
	for range 1000 {
		f := newFakeLauncher(t)
		c, far := f.client(t, 0, 1)
		require.NoError(t, far.Close())
		probe, err := f.l.Accept() // the rank probes several times, within some milliseconds
		require.NoError(t, err)
		require.NoError(t, probe.Close())
		c.mu.Lock()
		late := c.err != nil
		c.left = true
		c.mu.Unlock()
		<-c.done
		if late {
			continue
		}
		require.ErrorIs(t, c.Put("k", nil), ErrLeft)
		c.mu.Lock()
		err = c.err
		c.mu.Unlock()
		require.Equal(t, ErrLeft, err)
		select {
		case <-c.Lost():
			require.Fail(t, "it hears that the launcher is gone")
		default:
		}
		return
	}
}

// A rank whose connection ends while its launcher listens probes several times before it believes
// that, and removes nothing.
func TestHowOftenALauncherIsProbed(t *testing.T) {
	f := newFakeLauncher(t)
	c, far := f.client(t, 0, 1)
	require.NoError(t, far.Close())
	<-c.Lost()
	require.NoError(t, f.l.SetDeadline(time.Now().Add(time.Minute)))
	for range 10 {
		probe, err := f.l.Accept()
		require.NoError(t, err)
		require.NoError(t, probe.Close())
	}
	require.NoError(t, f.l.SetDeadline(time.Now()))
	_, err := f.l.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.DirExists(t, f.dir)
}
