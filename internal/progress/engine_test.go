//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// stillClock stands still but for a step whenever one who polls looks at it, and counts who has had
// a turn.
type stillClock struct {
	at    time.Duration
	step  time.Duration
	asked int
	rests int
	here  int         // of these, how often other goroutines had a turn too
	each  func(n int) // behind the nth look at the time
}

// still stops the time of what the test does from here on.
func still(t *testing.T, step time.Duration) *stillClock {
	c := &stillClock{at: time.Hour, step: step}
	k, r, p := clock, rest, pause
	clock = func() time.Duration {
		c.at += c.step
		if c.asked++; c.each != nil {
			c.each(c.asked)
		}
		return c.at
	}
	rest = func(here bool) {
		if c.rests++; here {
			c.here++
		}
	}
	pause = func() {}
	t.Cleanup(func() { clock, rest, pause = k, r, p })
	return c
}

// fake is a source that does what a test says, and keeps a log.
type fake struct {
	fabric.NoSource
	costs  fabric.Costs
	polls  int
	log    []string
	finds  func(n int) bool // what the nth poll finds; nil: nothing
	midway bool
	jobs   int // for Work
	later  bool
}

func (f *fake) Costs() fabric.Costs { return f.costs }
func (f *fake) Midway() bool        { return f.midway }
func (f *fake) Waits() bool         { return f.jobs > 0 }
func (f *fake) Serve()              { f.log = append(f.log, "serve") }
func (f *fake) RingDoorbell()       { f.log = append(f.log, "knock") }

func (f *fake) Work() {
	if f.jobs > 0 {
		f.jobs--
		f.log = append(f.log, "work")
	}
}

func (f *fake) Poll(patient bool) bool {
	f.polls++
	return f.finds != nil && f.finds(f.polls)
}

func (f *fake) Arm(on bool, why fabric.Leaving) fabric.Armed {
	switch {
	case !on:
		f.log = append(f.log, "disarm")
	case why == fabric.LeavingForSoon && f.later:
		f.log = append(f.log, "later")
		return fabric.ArmDeferred
	default:
		f.log = append(f.log, "arm"+[]string{" in vain", "", " soon"}[why])
	}
	return fabric.ArmedFully
}

func (f *fake) take() []string {
	l := f.log
	f.log = nil
	return l
}

func engineOf(cfg Config, sources ...*fake) *Engine {
	var all []fabric.Source
	for _, f := range sources {
		all = append(all, f)
	}
	return New(all, cfg)
}

// requireFree requires that nobody has the turn.
func requireFree(t *testing.T, e *Engine) {
	t.Helper()
	require.Zero(t, e.turn.word.Load())
}

// A waiter polls until it has what it waits for, or nothing has come for a while: less long where
// ranks are crowded, and longer while pieces of a transfer are to come. It looks at the time now
// and then, and gives way.
func TestLook(t *testing.T) {
	const step = time.Microsecond
	for _, row := range []struct {
		name    string
		crowded bool
		midway  bool
		long    time.Duration
		every   int
	}{
		{"alone", false, false, lookFor, timeEvery},
		{"crowded", true, false, lookFor, timeEveryCrowded},
		{"midway", false, true, midwayFor, timeEvery},
		{"crowded, midway", true, true, lookFor, timeEveryCrowded},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := &fake{midway: row.midway}
			e := engineOf(Config{Ranks: 1, Crowded: row.crowded}, f)
			woken := make(chan struct{}, 1)
			c := still(t, step)
			e.PollChannel(woken, false)
			looks := int(row.long/step) + 2 // the first one begins the time
			require.Equal(t, row.every*looks, f.polls)
			require.Equal(t, []string{"disarm", "arm in vain"}, f.take())
			require.GreaterOrEqual(t, c.asked, looks)
			if row.crowded {
				require.Equal(t, looks, c.rests, "each time")
			} else {
				require.InDelta(t, looks/(int(yieldAfter/step)+1), c.rests, 2, "when the others' turn comes")
			}
			require.InDelta(t, int(row.long/goroutinesAfter), c.here, float64(looks)/40)
			requireFree(t, e)

			f.polls = 0 // something comes: time begins again
			f.finds = func(n int) bool { return n == 100 }
			require.True(t, e.Enter())
			e.PollChannel(woken, true)
			require.Equal(t, 100+row.every*looks, f.polls)
			require.Equal(t, []string{"disarm", "arm in vain"}, f.take())

			f.polls = 0 // what was waited for comes
			f.finds = func(n int) bool {
				if n == 7 {
					woken <- struct{}{}
				}
				return false
			}
			e.PollChannel(woken, false)
			require.Equal(t, 7, f.polls)
			require.Equal(t, []string{"disarm", "arm"}, f.take())
			e.PollChannel(woken, false)
			require.Equal(t, 7, f.polls, "it is here")
			requireFree(t, e)
		})
	}
}

// What is to be done without the turn is done by one who polls on behind that, unless another
// goroutine does meanwhile.
func TestWorkIsDoneWithoutTheTurn(t *testing.T) {
	for _, taken := range []bool{false, true} {
		f := &worker{}
		e := New([]fabric.Source{f}, Config{Ranks: 1})
		f.finds = func(n int) bool {
			if n == 5 {
				f.jobs++
			}
			return n == 5
		}
		f.work = func() {
			requireFree(t, e)
			if taken {
				require.True(t, e.Take())
			}
		}
		still(t, 10*time.Microsecond)
		e.PollChannel(make(chan struct{}), false)
		require.Zero(t, f.jobs)
		require.Equal(t, taken, f.polls == 5)
		if taken {
			e.Leave()
		}
		requireFree(t, e)
	}
}

type worker struct {
	fake
	work func()
}

func (w *worker) Work() {
	if w.jobs > 0 {
		w.jobs--
		w.work()
	}
}

// Who seeks keeps the turn, whatever comes of it.
func TestSeek(t *testing.T) {
	f := &fake{}
	e := engineOf(Config{Ranks: 1}, f)
	still(t, time.Microsecond)
	for _, row := range []struct {
		met    int // ready from this question on
		job    bool
		is, no bool
	}{{1, false, true, false}, {20, false, true, false}, {1 << 30, false, false, true}, {1 << 30, true, false, false}} {
		asked := 0
		f.finds = func(int) bool {
			if row.job {
				f.jobs = 1
			}
			return row.job
		}
		require.True(t, e.Enter())
		met, tired := e.PollUntil(func() bool { asked++; return asked >= row.met })
		require.Equal(t, []bool{row.is, row.no}, []bool{met, tired}, "%+v", row)
		require.False(t, e.Enter(), "the caller has the turn")
		e.Leave()
		require.Zero(t, f.jobs)
	}
	require.NotContains(t, f.take(), "arm in vain", "it says nothing of what comes of the wait")
}

// A caller of Look disarms before it polls, and one of Seek if the first poll has found nothing.
func TestWhenWaitersDisarm(t *testing.T) {
	still(t, time.Microsecond)
	for seeks, want := range map[bool][2]int{false: {1, 1}, true: {0, 1}} {
		f := &fake{}
		e := engineOf(Config{Ranks: 1}, f)
		ch := make(chan struct{}, 1)
		f.finds = func(n int) bool {
			require.Equal(t, strings.Repeat("disarm", want[n-1]), strings.Join(f.log, ", "), "poll %d, seeks: %v", n, seeks)
			if n == 2 {
				ch <- struct{}{}
			}
			return n == 2
		}
		if seeks {
			require.True(t, e.Take())
			met, _ := e.PollUntil(func() bool { return len(ch) > 0 })
			require.True(t, met)
			e.Leave()
		} else {
			e.PollChannel(ch, false)
		}
		require.Equal(t, 2, f.polls)
	}
}

// One who waits for memory of other ranks glances a few times, polls then, and gives up after a
// while; where another goroutine has the turn, it only waits.
func TestWatch(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		f := &fake{}
		e := engineOf(Config{Ranks: 1, Crowded: crowded}, f)
		first := glances
		if crowded {
			first = glancesCrowded
		}
		still(t, time.Microsecond)
		for _, at := range []int{1, first, first + 1} {
			asked := 0
			e.Watch(func() bool {
				if asked++; asked <= first {
					requireFree(t, e)
				}
				return asked == at
			})
			require.Equal(t, at, asked)
			require.Zero(t, f.polls)
		}
		e.Watch(func() bool { return false })
		every := map[bool]int{false: timeEvery, true: timeEveryCrowded}[crowded]
		require.Equal(t, every*(int(watchFor/time.Microsecond)+2), f.polls)
		requireFree(t, e)
		f.polls = 0
		require.True(t, e.Take())
		asked := 0
		e.Watch(func() bool { asked++; return false })
		require.Zero(t, f.polls)
		require.Greater(t, asked, first+1000)
		e.Leave()
	}
}

// A try polls once, whether or not anybody waits; one that finds nothing arms and disarms nothing,
// and gives way now and then.
func TestTry(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		f := &fake{}
		e := engineOf(Config{Ranks: 1, Crowded: crowded}, f)
		every := triesAlone
		if crowded {
			every = triesCrowded
		}
		c := still(t, time.Microsecond)
		for n := range 130 * every {
			require.False(t, e.Try())
			require.Equal(t, (n+1)/every, c.rests)
			require.Equal(t, (n+1)/every/triesHere, c.here)
		}
		require.Empty(t, f.take())
		require.Equal(t, 130*every, f.polls)
		rests := c.rests
		require.False(t, e.Poll())
		require.Equal(t, rests, c.rests, "who has other work sees to others itself")
		f.finds = func(int) bool { return true }
		require.True(t, e.Try())
		require.Zero(t, e.tries.Load())
		require.Equal(t, []string{"arm"}, f.take(), "what finds something has disarmed")
		require.True(t, e.Take())
		require.False(t, e.Try(), "somebody else has the turn")
		require.False(t, e.turn.wanted.Load())
		e.turn.up.Store(true)
		require.False(t, e.Poll())
		require.False(t, e.turn.wanted.Load(), "who passes by leaves it to the sleeper")
		require.False(t, e.Try())
		require.True(t, e.turn.wanted.Load())
		e.turn.up.Store(false)
		e.Leave()
	}
}

// How many tries it takes until other goroutines get the processor goes by how many ranks share it.
func TestHowOftenTriesYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, row := range []struct {
		processors, ranks int
		every             uint32
	}{{1, 1, yieldSingle}, {1, 2, yieldCrowded}, {2, 1, yieldAlone}, {2, 2, 2}, {2, 3, yieldCrowded}, {3, 2, 3}, {4, 4, 4}, {4, 5, yieldCrowded}} {
		runtime.GOMAXPROCS(row.processors)
		e := New(nil, Config{Ranks: row.ranks})
		require.Equal(t, row.every, e.yieldEvery, "%+v", row)
		require.False(t, e.Polls())
		require.False(t, e.Enter())
		require.False(t, e.Poll())
		for range 3 {
			require.False(t, e.Try())
		}
		require.Equal(t, uint32(3), e.tries.Load())
		e.PollChannel(nil, false)
	}
}

// Where goroutines read, nothing is polled, and a loop of tries lets them run, though there is one
// processor.
func TestReadersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := engineOf(Config{Ranks: 1}, &fake{costs: fabric.Costs{Readers: true}})
	require.False(t, e.Polls())
	for n := 0; ; n++ { // a busy machine lets others run at any time
		require.Less(t, n, 100)
		var ran atomic.Bool
		e.tries.Store(0)
		go ran.Store(true)
		for range readEvery - 1 {
			e.Try()
		}
		before := ran.Load()
		e.Try()
		if !before && ran.Load() {
			return
		}
		for !ran.Load() {
			runtime.Gosched()
		}
	}
}

// What is dear to poll is polled now and then, unless something has come from there last; so is
// what is disarmed.
func TestSeveral(t *testing.T) {
	cheap, dear := &fake{}, &fake{costs: fabric.Costs{Poll: true, Arm: true}, later: true}
	e := engineOf(Config{Ranks: 1}, cheap, dear)
	still(t, 0)
	look := func(polls int) {
		asked := 0
		require.True(t, e.Enter())
		e.PollUntil(func() bool { asked++; return asked > polls })
		e.Leave()
	}
	look(160)
	require.Equal(t, []int{160, 10}, []int{cheap.polls, dear.polls})
	require.Equal(t, []string{"disarm", "arm"}, cheap.take())
	require.Empty(t, dear.take(), "nothing has come from there")
	dear.finds = func(n int) bool { return n == 11 }
	look(16)
	require.Equal(t, 1, e.last)
	cheap.polls, dear.polls = 0, 0
	cheap.take()
	look(16)
	require.Equal(t, []int{15, 15}, []int{cheap.polls, dear.polls}, "one of which has found something, behind which it is asked once more")
	require.Equal(t, "disarm", dear.log[0])
	cheap.finds = func(int) bool { return true }
	look(1)
	require.Zero(t, e.last)
	// Who has found nothing for long disarms what is dear, too.
	cheap.finds, dear.finds = nil, nil
	cheap.take()
	dear.take()
	e.turn.armed = e.turn.all
	still(t, time.Microsecond)
	e.PollChannel(make(chan struct{}), false)
	require.Equal(t, []string{"disarm", "arm in vain"}, dear.take())
}

// Arming is put off where that is dear, something was found, soon after somebody has left, and
// nobody sleeps for want of a delivery.
func TestSoon(t *testing.T) {
	f := &fake{costs: fabric.Costs{Arm: true}, later: true}
	e := engineOf(Config{Ranks: 1}, f)
	c := still(t, 0)
	leave := func(found bool, left, gaveUp time.Duration) string {
		require.True(t, e.Enter())
		f.take()
		e.turn.guarded = true // the timer is another test's
		e.left = c.at - left
		e.gaveUp.Store(int64(c.at - gaveUp))
		e.leave(found)
		return f.take()[0]
	}
	require.Equal(t, "later", leave(true, rapid/2, 2*othersWait))
	require.Equal(t, c.at, e.left)
	require.Equal(t, "arm", leave(true, 2*rapid, 2*othersWait))
	require.Equal(t, "arm", leave(true, rapid/2, othersWait/2))
	require.Equal(t, "arm in vain", leave(false, rapid/2, 2*othersWait))
	// Who gives up says so, and who does not get the turn.
	e.gaveUp.Store(0)
	c.step = time.Microsecond
	e.PollChannel(make(chan struct{}), false)
	require.Positive(t, e.gaveUp.Load())
	e.gaveUp.Store(0)
	require.True(t, e.Enter())
	woken := make(chan struct{}, 1)
	woken <- struct{}{}
	e.PollChannel(woken, false)
	require.Zero(t, e.gaveUp.Load(), "what it waits for is here")
	<-woken
	e.PollChannel(woken, false)
	require.Positive(t, e.gaveUp.Load())
	e.Leave()
	// A loop that has found nothing for some tries, and comes again at once, disarms, and leaves as
	// if it had found something.
	e.turn.armed = 1
	e.gaveUp.Store(0)
	c.step = 0
	f.take()
	for range testsAfter + 1 {
		require.False(t, e.Try())
	}
	require.Empty(t, f.take())
	require.False(t, e.Try())
	require.Equal(t, []string{"disarm", "later"}, f.take())
}

// The guard comes when arming was put off, and polls; it comes again while somebody has the turn.
func TestGuard(t *testing.T) {
	var polls atomic.Int32
	f := &fake{costs: fabric.Costs{Arm: true}, later: true}
	f.finds = func(int) bool { polls.Add(1); return false }
	e := engineOf(Config{Ranks: 1}, f)
	require.True(t, e.Enter())
	e.turn.guarded = true
	e.guard()
	time.Sleep(5 * guardAfter)
	require.Zero(t, polls.Load(), "somebody has the turn")
	e.gaveUp.Store(0)
	e.left = clock() + time.Hour // as if he had left just now, however long this takes
	e.leave(true)
	for polls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	require.True(t, e.Retire(f, time.Second))
	require.False(t, e.timer.t.Stop(), "it does not come any more")
}

// The goroutine of a doorbell polls for a moment, and makes way. If it has no processor of its own,
// or polling is dear, it polls once, but longer where a transfer is under way.
func TestRing(t *testing.T) {
	require.True(t, New(nil, Config{Ranks: 1, Full: true}).full)
	require.Equal(t, runtime.NumCPU() == 1, New(nil, Config{Ranks: 1}).full)
	const step = time.Microsecond
	polls := func(long time.Duration) int { return timeEvery * (int(long/step) + 2) }
	for _, row := range []struct {
		name         string
		full, midway bool
		dear         bool
		want         int
	}{
		{"", false, false, false, polls(sleeperFor)},
		{"midway", false, true, false, polls(sleeperFor)},
		{"full", true, false, false, 1},
		{"full, midway", true, true, false, polls(sleeperMidway)},
		{"dear", false, false, true, 1},
		{"dear, midway", false, true, true, polls(sleeperMidway)},
	} {
		f := &fake{midway: row.midway, costs: fabric.Costs{Poll: row.dear}}
		e := engineOf(Config{Ranks: 1}, f)
		e.full = row.full
		e.turn.wanted.Store(true)
		still(t, step)
		f.finds = func(n int) bool {
			require.True(t, e.turn.up.Load())
			if n == 1 {
				require.False(t, e.turn.wanted.Load(), "it is another one who wanted it")
			}
			return false
		}
		e.Ring(f)
		require.Equal(t, row.want, f.polls, row.name)
		require.Equal(t, []string{"serve", "disarm", "arm in vain", "serve"}, f.take(), row.name)
		require.False(t, e.turn.up.Load())
		requireFree(t, e)
		// It makes way.
		f.midway, f.polls = true, 0
		f.finds = func(n int) bool { e.turn.wanted.Store(n == 3); return n < 3 }
		e.Ring(f)
		require.Equal(t, 3, f.polls, row.name)
		// A job ends it.
		f.polls = 0
		f.finds = func(n int) bool { f.jobs = 1; return true }
		e.Ring(f)
		require.Equal(t, 1, f.polls, row.name)
		require.Zero(t, f.jobs)
	}
	// Where somebody has the turn, it is his.
	f := &fake{}
	e := engineOf(Config{Ranks: 1}, f)
	require.True(t, e.Enter())
	e.Ring(f)
	e.Call()
	require.Zero(t, f.polls)
	f.take()
	e.Leave()
	require.Equal(t, []string{"arm", "serve", "arm"}, f.take())
	require.Equal(t, 1, f.polls, "what has rung is here")
}

// A waiter that finds a doorbell's goroutine polling has it make way, but does not wait for one
// that does not; it does not wait for another waiter.
func TestClaim(t *testing.T) {
	e := engineOf(Config{Ranks: 1}, &fake{})
	woken := make(chan struct{}, 1)
	w := waiter{ch: woken}
	require.True(t, e.claim(&w))
	require.False(t, e.claim(&w), "another goroutine waits")
	e.turn.up.Store(true)
	pauses := 0
	before := pause
	t.Cleanup(func() { pause = before })
	pause = func() { pauses++ }
	require.False(t, e.claim(&w))
	require.Equal(t, wantFor/100, pauses)
	require.True(t, e.turn.wanted.Load())
	pause = func() { e.leave(true) } // as that one does
	require.True(t, e.claim(&w))
	woken <- struct{}{}
	pauses = 0
	pause = func() { pauses++ }
	require.False(t, e.claim(&w))
	require.Zero(t, pauses)
	e.turn.up.Store(false)
	e.Leave()
}

// One who gives way to other goroutines has them run where there is one processor.
func TestGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ran := make(chan struct{})
	go close(ran)
	for range 10 {
		giveWay(true)
	}
	select {
	case <-ran:
	default:
		t.Fatal("the other goroutine has not run")
	}
}
