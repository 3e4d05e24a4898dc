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

// stillClock is a clock that advances by a step at each reading, and counts yields.
type stillClock struct {
	at    time.Duration
	step  time.Duration
	asked int
	rests int
	here  int         // the yields that were to goroutines of this process too
	each  func(n int) // called after the nth reading
}

// still replaces the clock of the package until the end of the test.
func still(t *testing.T, step time.Duration) *stillClock {
	c := &stillClock{at: time.Hour, step: step}
	k, r, p := clock, yieldProcessor, pause
	clock = func() time.Duration {
		c.at += c.step
		if c.asked++; c.each != nil {
			c.each(c.asked)
		}
		return c.at
	}
	yieldProcessor = func(here bool) {
		if c.rests++; here {
			c.here++
		}
	}
	pause = func() {}
	t.Cleanup(func() { clock, yieldProcessor, pause = k, r, p })
	return c
}

// fake is a scripted source that keeps a log.
type fake struct {
	fabric.NoSource
	costs  fabric.Costs
	polls  int
	log    []string
	finds  func(n int) bool // what the nth poll finds; nil: nothing
	midway bool
	jobs   int // for Work
	defers bool
}

func (f *fake) Costs() fabric.Costs { return f.costs }
func (f *fake) Midway() bool        { return f.midway }
func (f *fake) Waits() bool         { return f.jobs > 0 }
func (f *fake) Serve()              { f.log = append(f.log, "serve") }
func (f *fake) RingDoorbell()       { f.log = append(f.log, "ring") }

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
	case why == fabric.LeavingForSoon && f.defers:
		f.log = append(f.log, "defer")
		return fabric.ArmDeferred
	default:
		f.log = append(f.log, "arm"+[]string{" in vain", "", " soon"}[why])
	}
	return fabric.ArmedFully
}

func (f *fake) takeLog() []string {
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

// requireFree requires that the turn is free.
func requireFree(t *testing.T, e *Engine) {
	t.Helper()
	require.Zero(t, e.turn.word.Load())
}

// A waiter polls until its condition is met, or nothing has arrived for a while. In the middle of a
// transfer it polls for longer, unless ranks are crowded. It reads the clock now and then, and
// yields.
func TestPollChannel(t *testing.T) {
	const step = time.Microsecond
	for _, row := range []struct {
		name    string
		crowded bool
		midway  bool
		long    time.Duration
		every   int
	}{
		{"alone", false, false, pollFor, timeEvery},
		{"crowded", true, false, pollFor, timeEveryCrowded},
		{"midway", false, true, midwayFor, timeEvery},
		{"crowded, midway", true, true, pollFor, timeEveryCrowded},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := &fake{midway: row.midway}
			e := engineOf(Config{Ranks: 1, Crowded: row.crowded}, f)
			woken := make(chan struct{}, 1)
			c := still(t, step)
			e.PollChannel(woken, false)
			readings := int(row.long/step) + 2 // the first one starts the time
			require.Equal(t, row.every*readings, f.polls)
			require.Equal(t, []string{"disarm", "arm in vain"}, f.takeLog())
			require.GreaterOrEqual(t, c.asked, readings)
			if row.crowded {
				require.Equal(t, readings, c.rests, "each time")
			} else {
				require.InDelta(t, readings/(int(yieldAfter/step)+1), c.rests, 2, "every yieldAfter")
			}
			require.InDelta(t, int(row.long/goroutinesAfter), c.here, float64(readings)/40)
			requireFree(t, e)

			f.polls = 0 // something arrives: the time starts again
			f.finds = func(n int) bool { return n == 100 }
			require.True(t, e.Enter())
			e.PollChannel(woken, true)
			require.Equal(t, 100+row.every*readings, f.polls)
			require.Equal(t, []string{"disarm", "arm in vain"}, f.takeLog())

			f.polls = 0 // the condition is met
			f.finds = func(n int) bool {
				if n == 7 {
					woken <- struct{}{}
				}
				return false
			}
			e.PollChannel(woken, false)
			require.Equal(t, 7, f.polls)
			require.Equal(t, []string{"disarm", "arm"}, f.takeLog())
			e.PollChannel(woken, false)
			require.Equal(t, 7, f.polls, "it is met already")
			requireFree(t, e)
		})
	}
}

// A waiter does the work that needs no turn, and polls on after it, unless another goroutine has
// taken the turn meanwhile.
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

// PollUntil keeps the turn, whatever it returns.
func TestPollUntil(t *testing.T) {
	f := &fake{}
	e := engineOf(Config{Ranks: 1}, f)
	still(t, time.Microsecond)
	for _, row := range []struct {
		met    int // ready returns true from this call on
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
		met, exhausted := e.PollUntil(func() bool { asked++; return asked >= row.met })
		require.Equal(t, []bool{row.is, row.no}, []bool{met, exhausted}, "%+v", row)
		require.False(t, e.Enter(), "the caller has the turn")
		e.Leave()
		require.Zero(t, f.jobs)
	}
	require.NotContains(t, f.takeLog(), "arm in vain", "PollUntil does not report the result of the wait")
}

// PollChannel disarms before it polls; PollUntil disarms if the first poll has found nothing.
func TestWhenWaitersDisarm(t *testing.T) {
	still(t, time.Microsecond)
	for until, want := range map[bool][2]int{false: {1, 1}, true: {0, 1}} {
		f := &fake{}
		e := engineOf(Config{Ranks: 1}, f)
		ch := make(chan struct{}, 1)
		f.finds = func(n int) bool {
			require.Equal(t, strings.Repeat("disarm", want[n-1]), strings.Join(f.log, ", "), "poll %d, PollUntil: %v", n, until)
			if n == 2 {
				ch <- struct{}{}
			}
			return n == 2
		}
		if until {
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

// Watch checks its condition a few times, then polls, and gives up after a while. If another
// goroutine has the turn, Watch only checks.
func TestWatch(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		f := &fake{}
		e := engineOf(Config{Ranks: 1, Crowded: crowded}, f)
		first := watchChecks
		if crowded {
			first = watchChecksCrowded
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

// A try polls once. If it finds nothing, it arms and disarms nothing, and yields now and then.
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
		require.Empty(t, f.takeLog())
		require.Equal(t, 130*every, f.polls)
		rests := c.rests
		require.False(t, e.Poll())
		require.Equal(t, rests, c.rests, "a caller of Poll yields itself")
		f.finds = func(int) bool { return true }
		require.True(t, e.Try())
		require.Zero(t, e.tries.Load())
		require.Equal(t, []string{"arm"}, f.takeLog(), "a poll that finds something disarms")
		require.True(t, e.Take())
		require.False(t, e.Try(), "another goroutine has the turn")
		require.False(t, e.turn.requested.Load())
		e.turn.background.Store(true)
		require.False(t, e.Poll())
		require.False(t, e.turn.requested.Load(), "a single poll leaves the turn to the doorbell goroutine")
		require.False(t, e.Try())
		require.True(t, e.turn.requested.Load())
		e.turn.background.Store(false)
		e.Leave()
	}
}

// How often tries yield to other goroutines depends on how many ranks share the processors.
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

// A source with reader goroutines is not polled, and a loop of tries lets the readers run, even on
// one processor.
func TestReadersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := engineOf(Config{Ranks: 1}, &fake{costs: fabric.Costs{Readers: true}})
	require.False(t, e.Polls())
	for n := 0; ; n++ { // a busy machine may run the other goroutine at any time
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

// A source that is costly to poll is polled now and then, or always if it was the last that had
// something. The same holds for disarming a source that is costly to arm.
func TestSeveral(t *testing.T) {
	cheap, costly := &fake{}, &fake{costs: fabric.Costs{Poll: true, Arm: true}, defers: true}
	e := engineOf(Config{Ranks: 1}, cheap, costly)
	still(t, 0)
	poll := func(polls int) {
		asked := 0
		require.True(t, e.Enter())
		e.PollUntil(func() bool { asked++; return asked > polls })
		e.Leave()
	}
	poll(160)
	require.Equal(t, []int{160, 10}, []int{cheap.polls, costly.polls})
	require.Equal(t, []string{"disarm", "arm"}, cheap.takeLog())
	require.Empty(t, costly.takeLog(), "it has had nothing")
	costly.finds = func(n int) bool { return n == 11 }
	poll(16)
	require.Equal(t, 1, e.last)
	cheap.polls, costly.polls = 0, 0
	cheap.takeLog()
	poll(16)
	require.Equal(t, []int{15, 15}, []int{cheap.polls, costly.polls}, "one poll finds something, after which there is one more")
	require.Equal(t, "disarm", costly.log[0])
	cheap.finds = func(int) bool { return true }
	poll(1)
	require.Zero(t, e.last)
	// A waiter that has found nothing for long disarms costly sources too.
	cheap.finds, costly.finds = nil, nil
	cheap.takeLog()
	costly.takeLog()
	e.turn.armed = e.turn.all
	still(t, time.Microsecond)
	e.PollChannel(make(chan struct{}), false)
	require.Equal(t, []string{"disarm", "arm in vain"}, costly.takeLog())
}

// Arming is deferred if it is costly, the goroutine has found something, another has left shortly
// before, and no waiter has given up.
func TestWhenArmingIsDeferred(t *testing.T) {
	f := &fake{costs: fabric.Costs{Arm: true}, defers: true}
	e := engineOf(Config{Ranks: 1}, f)
	c := still(t, 0)
	leave := func(found bool, left, gaveUp time.Duration) string {
		require.True(t, e.Enter())
		f.takeLog()
		e.turn.guarded = true // TestGuard has the timer
		e.left = c.at - left
		e.gaveUp.Store(int64(c.at - gaveUp))
		e.leave(found)
		return f.takeLog()[0]
	}
	require.Equal(t, "defer", leave(true, rapidWithin/2, 2*gaveUpFor))
	require.Equal(t, c.at, e.left)
	require.Equal(t, "arm", leave(true, 2*rapidWithin, 2*gaveUpFor))
	require.Equal(t, "arm", leave(true, rapidWithin/2, gaveUpFor/2))
	require.Equal(t, "arm in vain", leave(false, rapidWithin/2, 2*gaveUpFor))
	// A waiter that gives up, or does not get the turn, sets gaveUp.
	e.gaveUp.Store(0)
	c.step = time.Microsecond
	e.PollChannel(make(chan struct{}), false)
	require.Positive(t, e.gaveUp.Load())
	e.gaveUp.Store(0)
	require.True(t, e.Enter())
	woken := make(chan struct{}, 1)
	woken <- struct{}{}
	e.PollChannel(woken, false)
	require.Zero(t, e.gaveUp.Load(), "its condition is met")
	<-woken
	e.PollChannel(woken, false)
	require.Positive(t, e.gaveUp.Load())
	e.Leave()
	// A loop that has found nothing for some tries, and polls again at once, disarms, and leaves as
	// if it had found something.
	e.turn.armed = 1
	e.gaveUp.Store(0)
	c.step = 0
	f.takeLog()
	for range loopAfter + 1 {
		require.False(t, e.Try())
	}
	require.Empty(t, f.takeLog())
	require.False(t, e.Try())
	require.Equal(t, []string{"disarm", "defer"}, f.takeLog())
}

// The guard polls after arming was deferred. While another goroutine has the turn, it comes again.
func TestGuard(t *testing.T) {
	var polls atomic.Int32
	f := &fake{costs: fabric.Costs{Arm: true}, defers: true}
	f.finds = func(int) bool { polls.Add(1); return false }
	e := engineOf(Config{Ranks: 1}, f)
	require.True(t, e.Enter())
	e.turn.guarded = true
	e.startGuard()
	time.Sleep(5 * guardAfter)
	require.Zero(t, polls.Load(), "another goroutine has the turn")
	e.gaveUp.Store(0)
	e.left = clock() + time.Hour // as if a goroutine had left just now, however long the test takes
	e.leave(true)
	for polls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	require.True(t, e.Retire(f, time.Second))
	require.False(t, e.timer.t.Stop(), "the timer is stopped")
}

// A doorbell goroutine polls for a moment, and gives up the turn on request. Without a spare
// processor, or if polling is costly, it polls once, but longer in the middle of a transfer.
func TestRing(t *testing.T) {
	require.True(t, New(nil, Config{Ranks: 1, Full: true}).full)
	require.Equal(t, runtime.NumCPU() == 1, New(nil, Config{Ranks: 1}).full)
	const step = time.Microsecond
	polls := func(long time.Duration) int { return timeEvery * (int(long/step) + 2) }
	for _, row := range []struct {
		name         string
		full, midway bool
		costly       bool
		want         int
	}{
		{"", false, false, false, polls(doorbellFor)},
		{"midway", false, true, false, polls(doorbellFor)},
		{"full", true, false, false, 1},
		{"full, midway", true, true, false, polls(doorbellMidwayFor)},
		{"costly", false, false, true, 1},
		{"costly, midway", false, true, true, polls(doorbellMidwayFor)},
	} {
		f := &fake{midway: row.midway, costs: fabric.Costs{Poll: row.costly}}
		e := engineOf(Config{Ranks: 1}, f)
		e.full = row.full
		e.turn.requested.Store(true)
		still(t, step)
		f.finds = func(n int) bool {
			require.True(t, e.turn.background.Load())
			if n == 1 {
				require.False(t, e.turn.requested.Load(), "the request was for an earlier owner")
			}
			return false
		}
		e.Ring(f)
		require.Equal(t, row.want, f.polls, row.name)
		require.Equal(t, []string{"serve", "disarm", "arm in vain", "serve"}, f.takeLog(), row.name)
		require.False(t, e.turn.background.Load())
		requireFree(t, e)
		// It gives up the turn on request.
		f.midway, f.polls = true, 0
		f.finds = func(n int) bool { e.turn.requested.Store(n == 3); return n < 3 }
		e.Ring(f)
		require.Equal(t, 3, f.polls, row.name)
		// A job ends it.
		f.polls = 0
		f.finds = func(n int) bool { f.jobs = 1; return true }
		e.Ring(f)
		require.Equal(t, 1, f.polls, row.name)
		require.Zero(t, f.jobs)
	}
	// If another goroutine has the turn, that one polls.
	f := &fake{}
	e := engineOf(Config{Ranks: 1}, f)
	require.True(t, e.Enter())
	e.Ring(f)
	e.Call()
	require.Zero(t, f.polls)
	f.takeLog()
	e.Leave()
	require.Equal(t, []string{"arm", "serve", "arm"}, f.takeLog())
	require.Equal(t, 1, f.polls, "the source that has rung is polled")
}

// A waiter requests the turn from a doorbell goroutine, but waits for it only for a bounded number
// of tries. It does not wait for another waiter.
func TestTakeAsWaiter(t *testing.T) {
	e := engineOf(Config{Ranks: 1}, &fake{})
	woken := make(chan struct{}, 1)
	w := waiter{ch: woken}
	require.True(t, e.takeAsWaiter(&w))
	require.False(t, e.takeAsWaiter(&w), "another goroutine waits")
	e.turn.background.Store(true)
	pauses := 0
	before := pause
	t.Cleanup(func() { pause = before })
	pause = func() { pauses++ }
	require.False(t, e.takeAsWaiter(&w))
	require.Equal(t, requestTries/100, pauses)
	require.True(t, e.turn.requested.Load())
	pause = func() { e.leave(true) } // as the doorbell goroutine does
	require.True(t, e.takeAsWaiter(&w))
	woken <- struct{}{}
	pauses = 0
	pause = func() { pauses++ }
	require.False(t, e.takeAsWaiter(&w))
	require.Zero(t, pauses)
	e.turn.background.Store(false)
	e.Leave()
}

// giveWay lets other goroutines run on one processor.
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
