// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// When the set is asked: always where somebody is not read directly, or a socket is full; else now
// and then, and that whether or not there is something to read.
func TestWhenTheSetIsAsked(t *testing.T) {
	l := newLinked(t, 2)
	y := l.eyes
	eventually(t, y.turn.Enter)
	defer y.turn.Leave(false)
	asked := func(looks int) (n int) {
		for range looks {
			if y.poll(); y.unasked == 0 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 5, asked(5), "nobody is read directly")
	y.talkers[1] = l.sock(1)
	require.Equal(t, 5, asked(5), "one of two is")
	y.talkers[0] = l.sock(2)
	require.Zero(t, asked(askAnyway-1), "both are")
	require.Equal(t, 1, asked(1))
	require.Equal(t, 2, asked(2*askAnyway))
	y.full.Add(1)
	require.Equal(t, 5, asked(5), "one is full")
	y.full.Add(-1)
	y.talkers = [2]*socket{}
	y.listen(l.sock(1))
	require.Equal(t, [2]*socket{l.sock(1)}, y.talkers)
	l.says(2, onWire(kindFrame, frameOf(2, 1)))
	for k := range askAnyway {
		require.Len(t, l.k.frames, k)
		l.says(1, onWire(kindFrame, frameOf(1, 1)))
		require.True(t, y.poll())
	}
	require.Len(t, l.k.frames, askAnyway+1, "one that talks without end does not keep the other one waiting")
	require.False(t, y.poll())
}

// Who is read directly, with two connections and with three.
func TestListenTo(t *testing.T) {
	for _, peers := range []int{2, 3} {
		l := newLinked(t, peers)
		y := l.eyes
		eventually(t, y.turn.Enter)
		a, b := l.sock(1), l.sock(2)
		for _, s := range []*socket{a, b} {
			y.listen(s)
			y.setApart(true)
			y.listen(s)
			require.Equal(t, s, y.talkers[0])
		}
		y.streak = 5
		if peers == 2 {
			require.Equal(t, [2]*socket{b, a}, y.talkers)
			require.True(t, a.apart)
			y.listen(a)
			require.Equal(t, [2]*socket{a, b}, y.talkers)
			require.True(t, b.apart)
			require.Equal(t, 5, y.streak)
			y.deaf(a)
			require.Equal(t, [2]*socket{nil, b}, y.talkers)
			y.deaf(a)
			y.listen(b)
			require.Equal(t, [2]*socket{b, nil}, y.talkers)
		} else {
			require.Equal(t, [2]*socket{b, nil}, y.talkers)
			require.False(t, a.apart, "it is in the set again")
			y.listen(a)
			require.Equal(t, [2]*socket{a, nil}, y.talkers)
			require.False(t, b.apart)
			require.Zero(t, y.streak)
		}
		a.setApart(false) // a test has made it deaf
		y.setApart(false)
		y.turn.Leave(false)
	}
}

// Who leaves is expected back if it has found something soon after somebody left, nobody sleeps for
// want of a delivery, and no socket is full. The eighth time in a row, what is read directly leaves
// the set.
func TestSoon(t *testing.T) {
	l := newLinked(t, 1)
	y := l.eyes
	eventually(t, y.turn.Enter)
	defer y.turn.Leave(false)
	y.listen(l.sock(1))
	soon := func(found bool, left, gaveUp time.Duration, full int32) bool {
		y.left = y.now() + left
		y.gaveUp.Store(int64(y.now() + gaveUp))
		y.full.Add(full)
		before := y.now()
		soon := y.Soon(found)
		y.full.Add(-full)
		require.GreaterOrEqual(t, y.left, before)
		require.LessOrEqual(t, y.left, y.now())
		return soon
	}
	const long = time.Hour // in the future: as if it were now, however long this takes
	require.False(t, soon(false, long, -long, 0))
	require.False(t, soon(true, -long, -long, 0))
	require.False(t, soon(true, long, long, 0))
	require.False(t, soon(true, long, -long, 1))
	require.Zero(t, y.streak)
	for k := range apartAfter {
		require.False(t, isApart(l.sock(1)), k)
		require.True(t, soon(true, long, -long, 0))
		require.Equal(t, k+1, y.streak)
	}
	require.True(t, isApart(l.sock(1)))
	y.Arm(false)
	require.Equal(t, map[int]string{y.inner: "once"}, members(t, y.outer))
	require.True(t, isApart(l.sock(1)))
	require.Equal(t, apartAfter, y.streak)
	y.Arm(true)
	require.Equal(t, map[int]string{y.inner: "in once"}, members(t, y.outer))
	require.False(t, isApart(l.sock(1)))
	require.Zero(t, y.streak)
}

// How long others wait for their turn, by how many ranks share how many processors.
func TestCrowd(t *testing.T) {
	n := runtime.NumCPU()
	e := newLinked(t, 1).Endpoint
	for _, row := range []struct {
		ranks, processors int
		crowded           bool
	}{{1, 1, false}, {2, 1, true}, {2, 2, false}, {2, 3, false}, {3, 2, true}, {n, 0, false}, {n + 1, 0, true}, {n - 1, 0, false}} {
		e.Crowd(row.ranks, row.processors)
		if row.crowded {
			require.Equal(t, turnCrowded, e.eyes.yieldAt, "%+v", row)
			require.Equal(t, lookForCrowded, e.eyes.lookFor)
		} else {
			require.Equal(t, turnAlone, e.eyes.yieldAt, "%+v", row)
			require.Equal(t, lookForAlone, e.eyes.lookFor)
		}
	}
	many, err := New(Config{Size: n + 1, Secret: testSecret, Lookup: noLookup})
	require.NoError(t, err)
	require.Equal(t, turnCrowded, many.eyes.yieldAt, "all ranks are here, as far as it knows")
	require.False(t, many.eyes.guard.Stop(), "the guard comes only when it is called")
	require.NoError(t, many.Close())
	secure, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, TLS: testTLS(t)})
	require.NoError(t, err)
	require.Nil(t, secure.eyes)
	secure.Crowd(2, 1)
	secure.Look(nil, false)
	require.False(t, secure.Enter())
	require.False(t, secure.Poll(1))
	require.NoError(t, secure.Close())
}

// A poll reads what is there. One in a loop, that comes again soon, disarms and leaves it to the
// guard; and after some in vain, others have their turn.
func TestPoll(t *testing.T) {
	l := newLinked(t, 1)
	y := l.eyes
	yields := 0
	y.yield = func() { yields++ }
	y.yieldAt = 3
	poll := func(tries int, polled time.Duration) bool {
		y.polled = y.now() + polled
		before := y.now()
		did := l.Poll(tries)
		require.GreaterOrEqual(t, y.polled, before)
		require.LessOrEqual(t, y.polled, y.now())
		return did
	}
	for tries, want := range []int{0, 0, 0, 1, 1, 1, 2} {
		require.False(t, poll(tries, -time.Hour))
		require.Equal(t, want, yields, tries)
	}
	l.says(1, onWire(kindFrame, frameOf(1, 1)))
	require.True(t, poll(3, -time.Hour))
	require.Equal(t, 2, yields, "it has something to do")
	y.yieldAt = 1
	require.False(t, poll(0, -time.Hour))
	require.False(t, poll(1, -time.Hour))
	require.Equal(t, 3, yields)
	y.gaveUp.Store(-int64(time.Hour))
	require.False(t, poll(disarmAfter, time.Hour))
	require.False(t, poll(disarmAfter+1, -time.Hour), "it has not come again soon")
	require.True(t, y.turn.Armed())
	require.Equal(t, map[int]string{y.inner: "in once"}, members(t, y.outer))
	y.polled = y.now() + time.Hour
	for !func() bool { // unless this goroutine was stopped for long between two steps
		l.Poll(disarmAfter + 1)
		y.polled = y.now() + time.Hour
		return !y.turn.Armed()
	}() {
	}
	require.Equal(t, map[int]string{y.inner: "once"}, members(t, y.outer))
	require.True(t, y.guard.Stop(), "the guard is to come")
	eventually(t, y.turn.Enter)
	yields = 0
	require.False(t, l.Poll(1), "somebody else looks")
	require.Equal(t, 1, yields)
	y.turn.Leave(false)
}

// The sleeper makes way for one that polls in a loop, and not for one that passes by.
func TestSleeperMakesWay(t *testing.T) {
	hold := make(chan struct{})
	close(hold)
	for tries, want := range []bool{false, true, true} {
		eps := openAll(t, 2, func(c *Config) { c.Hold = hold })
		wanted := make(chan bool, 1)
		cs := bindAll(eps)
		cs[1].each = func(int, fabric.Frame) {
			require.False(t, eps[1].eyes.turn.Wanted())
			require.False(t, eps[1].Poll(tries))
			wanted <- eps[1].eyes.turn.Wanted()
		}
		require.NoError(t, eps[0].Send(1, fabric.Frame{}))
		require.Equal(t, want, <-wanted)
	}
}

// The sleeper sleeps in Go's poller where nothing comes, also when something has come before.
func TestSleeperSleeps(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	asleep := func() (n int) {
		buf := make([]byte, 1<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			first, rest, _ := strings.Cut(g, "\n")
			if strings.Contains(first, "[IO wait") && strings.Contains(rest, "(*eyes).sleeper") {
				n++
			}
		}
		return n
	}
	for k := range uint64(2) {
		eventually(t, func() bool { return asleep() == 2 })
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{k}}))
		eventually(t, func() bool { return cs[1].n.Load() == int64(k+1) })
	}
	eventually(t, func() bool { return asleep() == 2 })
}

// Looking, step by step: how often it looks until it looks at the time, lets others run, or ends.
func TestLook(t *testing.T) {
	l := newLinked(t, 1)
	y := l.eyes
	eventually(t, y.turn.Enter)
	y.talkers[0] = l.sock(1) // so that unasked counts the looks
	yields := 0
	var at []int
	woken := make(chan struct{}, 1)
	y.yield = func() {
		yields++
		at = append(at, y.unasked)
	}
	looks := func(yieldAt int, woken chan struct{}, patience time.Duration) int {
		yields, at, y.unasked, y.yieldAt = 0, nil, 0, yieldAt
		y.look(woken, patience)
		return y.unasked
	}
	require.Equal(t, 2*turnTime%askAnyway, looks(turnAlone, woken, 0), "it ends when it looks at the time once more")
	require.Zero(t, yields)
	require.Equal(t, (turnTime+8)%askAnyway, looks(turnTime+8, woken, 0), "or when it has let others run")
	require.Equal(t, []int{(turnTime + 8) % askAnyway}, at)
	require.Equal(t, 2, looks(1, woken, 0))
	require.Equal(t, []int{1, 2}, at)
	require.Equal(t, 6, looks(3, woken, 0))
	require.Equal(t, []int{3, 6}, at)

	old := y.yield // and it goes on until there is something
	y.yield = func() {
		if old(); yields == 5 {
			woken <- struct{}{}
		}
	}
	require.Equal(t, 10, looks(2, woken, time.Hour))
	require.Equal(t, 0, looks(2, woken, time.Hour), "there is something already")
	require.Zero(t, yields)
	<-woken
	y.yield = old
	l.k.each = func(fabric.Frame) { woken <- struct{}{} }
	l.says(1, onWire(kindFrame, frameOf(1, 1)))
	looks(1, woken, time.Hour)
	require.Zero(t, yields, "what comes is looked for at once")
	<-woken

	n := 0 // time is counted from what came last
	l.k.each = func(fabric.Frame) { n++ }
	y.yield = func() {
		if old(); yields == 1 {
			l.says(1, onWire(kindFrame, frameOf(1, 1)))
		}
	}
	looks(1, woken, 0)
	require.Equal(t, 1, n)
	require.Equal(t, 3, yields)

	y.yield = old // the sleeper: only where more is to come, and nobody else wants to
	require.Equal(t, 1, looks(1, nil, time.Hour))
	require.Zero(t, yields)
	y.full.Add(1)
	require.True(t, y.busy())
	looks(1, nil, 0)
	require.Equal(t, 2, yields)
	y.full.Add(-1)
	require.False(t, y.busy())
	l.says(1, onWire(kindPiece, pieceOf(5, 0, 9))[:headSize+2])
	looks(1, nil, 0)
	require.True(t, y.busy())
	require.Equal(t, 2, yields)
	y.turn.Leave(false)
}

// Other goroutines have their turn, though this one looks for long.
func TestLookLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := newLinked(t, 1)
	y := l.eyes
	eventually(t, y.turn.Enter)
	yields := 0
	y.yield, y.yieldAt = func() { yields++ }, 1
	for range 100 { // until there is a look in which nothing else lets the other one run: a busy machine can do so, too
		yields = 0
		woken := make(chan struct{}, 1)
		go func() { woken <- struct{}{} }()
		if y.look(woken, time.Hour); yields == turnHere {
			break
		}
	}
	require.Equal(t, turnHere, yields)
	y.turn.Leave(false)
}

// Look: who comes disarms, unless what it waits for is here; who leaves with nothing says so; who
// does not get to look goes at once.
func TestLookEnters(t *testing.T) {
	l := newLinked(t, 1)
	y := l.eyes
	y.lookFor = 0
	var states []string
	y.yieldAt = 1
	y.yield = func() { states = append(states, members(t, y.outer)[y.inner]) }
	woken := make(chan struct{}, 1)
	woken <- struct{}{}
	l.Look(woken, false)
	require.Empty(t, states)
	require.Zero(t, y.gaveUp.Load(), "it has found what it waits for")
	<-woken
	l.Look(woken, false)
	require.Equal(t, []string{"once", "once"}, states)
	require.Equal(t, map[int]string{y.inner: "in once"}, members(t, y.outer))
	require.Positive(t, y.gaveUp.Load())
	y.gaveUp.Store(0)
	require.True(t, l.Enter())
	require.Equal(t, map[int]string{y.inner: "once"}, members(t, y.outer))
	require.False(t, l.Enter())
	woken <- struct{}{}
	l.Look(woken, false) // somebody else looks
	require.Zero(t, y.gaveUp.Load())
	<-woken
	l.Look(woken, false)
	require.Positive(t, y.gaveUp.Load(), "it sleeps now")
	y.gaveUp.Store(0)
	states = nil
	l.Look(woken, true) // it has entered before
	require.Len(t, states, 2)
	require.Positive(t, y.gaveUp.Load())
	require.True(t, l.Enter(), "and left")
	y.gaveUp.Store(-int64(time.Hour))
	y.left = y.now() + time.Hour
	l.Leave()
	require.False(t, y.turn.Armed(), "as if it had found something")
	require.True(t, y.guard.Stop())
	require.True(t, y.turn.Enter())
	y.turn.Leave(false)
	y.ended.Store(true)
	require.False(t, l.Enter())
	y.ended.Store(false)
}

// Who finds the sleeper looking has it make way, but does not wait for one that does not.
func TestInsist(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	hold := make(chan struct{})
	close(hold)
	eps := openAll(t, 2, func(c *Config) { c.Hold = hold })
	cs := bindAll(eps)
	y := eps[1].eyes
	require.False(t, y.insist(nil), "nobody looks")
	y.lookFor = time.Hour
	woken, looked := make(chan struct{}, 1), make(chan struct{})
	insists := make(chan bool, 2)
	cs[1].each = func(_ int, f fabric.Frame) {
		switch f.Head[0] {
		case 0: // by the sleeper: as long as it is in here it does not make way
			none := make(chan struct{}, 1)
			insists <- y.insist(none)
			none <- struct{}{}
			insists <- y.insist(none)
			go func() { eps[1].Look(woken, false); close(looked) }()
			runtime.Gosched() // it finds the sleeper looking, and lets it run now
		case 1:
			woken <- struct{}{}
		}
	}
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	require.False(t, <-insists)
	require.False(t, <-insists)
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{1}}))
	<-looked
	<-woken
}

// An endpoint whose looker does not leave is not waited for longer than Linger; what that may use
// stays open.
func TestCloseUnderALooker(t *testing.T) {
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Linger: time.Millisecond})
	require.NoError(t, err)
	c := newCollect()
	e.Bind(c)
	near, far := tcpPair(t)
	defer far.Close()
	e.peers[1].state = connecting
	eventually(t, e.eyes.turn.Enter)
	e.peers[1].establish(near)
	require.NoError(t, far.Close())
	eventually(t, func() bool { e.eyes.poll(); return e.eyes.open.Load() == 0 }) // else Close waits for it
	require.EqualError(t, e.Close(), "tcp: somebody still looks at what has come")
	require.EqualError(t, e.Close(), "tcp: somebody still looks at what has come")
	require.False(t, e.Enter())
	require.False(t, e.peers[1].sock.closed)
	e.peers[1].drop()
	require.NoError(t, unix.Close(e.eyes.inner))
}

// The guard: not behind the end, and it comes again while it is not to look, or somebody looks.
func TestGuardComesAgain(t *testing.T) {
	hold := make(chan struct{})
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup, Hold: hold})
	require.NoError(t, err)
	k := &keeper{}
	e.Bind(k)
	y := e.eyes
	require.True(t, y.held())
	require.True(t, e.Enter()) // disarmed
	y.Guard()
	y.left, y.streak = y.now()+time.Hour, 0
	y.gaveUp.Store(-int64(time.Hour))
	y.turn.Leave(true)
	require.False(t, y.turn.Armed())
	close(hold)
	require.False(t, y.held())
	eventually(t, func() bool { // it has come, and armed
		if !y.turn.Enter() {
			return false
		}
		armed := y.turn.Armed()
		y.turn.Leave(true)
		return armed
	})
	y.guard.Reset(time.Hour)
	require.NoError(t, e.Close())
	require.False(t, y.guard.Stop(), "it does not come any more")
	y.Guard()
	eventually(t, func() bool { return !y.guard.Stop() })
	e, err = New(Config{Size: 2, Secret: testSecret, Lookup: noLookup})
	require.NoError(t, err)
	require.False(t, e.eyes.held(), "there is no such thing")
	require.NoError(t, e.Close())
}

// A socket that somebody writes to is closed by the writer, not under it.
func TestDropUnderAWriter(t *testing.T) {
	l := newLinked(t, 1)
	p, s := l.peers[1], l.sock(1)
	eventually(t, l.eyes.turn.Enter)
	s.end(errors.New("it has ended"))
	l.eyes.turn.Leave(false)
	p.writing = true
	p.drop()
	require.True(t, s.dead)
	require.False(t, s.closed)
	require.False(t, p.flush(), "it is dead")
	p.mu.Lock()
	require.False(t, p.wroteLocked())
	p.mu.Unlock()
	require.False(t, p.writing)
	require.True(t, s.closed)
	l.peers[0].drop() // which has no connection
}

// An endpoint that cannot have what it needs leaves nothing open behind.
func TestNewFails(t *testing.T) {
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	ln, err := net.Listen("tcp", "127.0.0.1:0") // what the first one opens, Go keeps
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	names, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	highest := 0
	for _, n := range names {
		fd, err := strconv.Atoi(n.Name())
		require.NoError(t, err)
		highest = max(highest, fd)
	}
	var fill []int // of the gaps
	top := 0
	for top <= highest {
		top, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		fill = append(fill, top)
	}
	var errs []error
	for k := range 4 {
		limit := old
		limit.Cur = uint64(top + 1 + k)
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		e, err := New(Config{Size: 1, Secret: testSecret})
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
		errs = append(errs, err)
		if err == nil {
			require.NoError(t, e.Close())
		}
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		require.Equal(t, top+1, fd, "%d descriptors are allowed: something is left open", k)
		require.NoError(t, unix.Close(fd))
	}
	for _, fd := range fill {
		require.NoError(t, unix.Close(fd))
	}
	for _, err := range errs[:3] {
		require.ErrorIs(t, err, unix.EMFILE)
		require.ErrorContains(t, err, "tcp: ")
	}
	require.ErrorContains(t, errs[1], "epoll_create")
	require.ErrorContains(t, errs[2], "epoll_create")
	require.NoError(t, errs[3])
}
