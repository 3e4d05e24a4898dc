//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// clock stands still but for a step, a microsecond mostly, whenever one who looks gives way.
type clock struct {
	at     time.Time
	step   time.Duration
	rests  int
	here   []int // which of them other goroutines had
	pauses int
	each   func(n int) // behind the nth rest or pause
}

// still stops the time of what the test does from here on. The other goroutines of endpoints stand
// still.
func still(t *testing.T) *clock {
	c := &clock{at: time.Unix(1, 0)}
	n, r, p := now, rest, pause
	now = func() time.Time { return c.at }
	rest = func(here bool) {
		c.at = c.at.Add(max(c.step, time.Microsecond))
		if c.rests++; here {
			c.here = append(c.here, c.rests)
		}
		if c.each != nil {
			c.each(c.rests)
		}
	}
	pause = func() {
		if c.pauses++; c.each != nil {
			c.each(c.pauses)
		}
	}
	t.Cleanup(func() { now, rest, pause = n, r, p })
	return c
}

const (
	looks  = int(lookFor/time.Microsecond) + 1 // rests until one has looked long enough
	sleeps = int(sleepAfter/time.Microsecond) + 1
	watchs = int(watchFor/time.Microsecond) + 1
)

// beside returns two ranks that know each other, of which the first looks elsewhere too, and how
// often it has.
func beside(t *testing.T) (a, b *actor, asides *int) {
	s := onStage(t, 2, oneCopy)
	meet(t, s)
	asides = new(int)
	s[0].Beside(func() bool { *asides++; return false })
	return s[0], s[1], asides
}

// One who looks gives way after so many looks, to other goroutines each 64th time, and looks
// elsewhere each 16th time; it ends when nothing has come for a while.
func TestLookTurns(t *testing.T) {
	for _, turn := range []int{1, lookCrowded, 5, lookAlone} {
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			a, b, asides := beside(t)
			a.turn = turn
			woken := make(chan struct{}, 1)
			c := still(t)
			a.Look(woken, false)
			require.Equal(t, looks, c.rests, "a turn of %d", turn)
			require.Equal(t, []int{64, 128}, c.here)
			require.Equal(t, turn*(looks+1)/16, *asides)
			require.False(t, a.looking.Load())
			require.Zero(t, a.box.head.look.Load())

			*c = clock{at: c.at, each: func(n int) { // a frame comes: time begins again
				if n == 100 {
					require.NoError(t, b.Send(0, word(1)))
				}
			}}
			require.True(t, a.Enter())
			a.Look(woken, true)
			require.Equal(t, 100+looks, c.rests)
			require.Equal(t, sends(1, 1, 1), a.hears())

			*c = clock{at: c.at, each: func(n int) { // what was waited for comes
				if n == 7 {
					woken <- struct{}{}
				}
				a.wanted.Store(true) // it is for the sleeper
			}}
			a.Look(woken, false)
			require.Equal(t, 7, c.rests)
			require.False(t, a.looking.Load())
			a.Look(woken, false)
			require.Equal(t, 7, c.rests)
			<-woken

			n := 0
			a.Beside(func() bool { n++; return n == 3 }) // something has come elsewhere: time begins again
			*c = clock{at: c.at}
			a.Look(woken, false)
			at := (3*16 - 1) / turn // rests before
			require.Equal(t, at+looks, c.rests, "a turn of %d", turn)

			a.Beside(nil)
			*c = clock{at: c.at}
			a.Look(woken, false)
			require.Equal(t, looks, c.rests)
			// The sleeper looks a shorter time, not elsewhere, and makes way.
			a.Beside(func() bool { panic("it is nobody's") })
			a.wanted.Store(false)
			*c = clock{at: c.at}
			require.True(t, a.Enter())
			a.look(nil, sleepAfter)
			require.Equal(t, sleeps, c.rests)
			*c = clock{at: c.at, each: func(n int) { a.wanted.Store(n == 3) }}
			require.True(t, a.Enter())
			a.look(nil, sleepAfter)
			require.Equal(t, 3, c.rests)
			require.False(t, a.looking.Load())
			require.Zero(t, a.box.head.look.Load())
		})
	}
}

// offers has rank 1 push a transfer of one copy that rank 0 expects; copied is called when it is
// made.
func offers(a, b *actor, key uint64, copied func()) {
	a.Expect(1, key, make([]byte, 10), func(error) { copied() })
	b.Push(0, key, make([]byte, 10), func(error) {})
}

// Copies are made outside of looking, by one who looks on behind that, unless another goroutine
// does.
func TestLookCopies(t *testing.T) {
	for _, taken := range []bool{false, true} { // another goroutine looks meanwhile
		for name, look := range map[string]func(a *actor){
			"Look":    func(a *actor) { a.Look(make(chan struct{}), false) },
			"Watch":   func(a *actor) { a.Watch(func() bool { return false }) },
			"sleeper": func(a *actor) { require.True(t, a.enter()); a.look(nil, lookFor) },
		} {
			t.Run(fmt.Sprint(name, taken), func(t *testing.T) {
				a, b, _ := beside(t)
				a.turn = 2
				c := still(t)
				copies := 0
				c.each = func(n int) {
					if n == 5 {
						offers(a, b, 1, func() {
							copies++
							require.False(t, a.looking.Load())
							require.Zero(t, a.box.head.look.Load())
							if taken {
								require.True(t, a.Enter())
							}
						})
					}
				}
				look(a)
				require.Equal(t, 1, copies)
				want := map[string]int{"Look": looks, "Watch": watchs, "sleeper": looks}[name]
				if taken && name != "Watch" {
					want = 0
				}
				require.Equal(t, 5+want, c.rests)
				require.Equal(t, taken, a.looking.Load())
				if taken {
					require.EqualValues(t, 2, a.box.head.look.Load(), "it is the other's")
					a.Leave()
				}
				require.Zero(t, a.box.head.look.Load())
				require.Empty(t, a.hears())
			})
		}
	}
}

// hunter picks a frame.
type hunter struct {
	n      uint64 // its number
	asked  int
	enough int // it has enough when it is asked so often
	got    []uint64
}

func (h *hunter) Pick(src int, f *fabric.Frame) bool {
	if src != 1 || f.Head[0] != h.n {
		return false
	}
	h.got = append(h.got, f.Head[0])
	return true
}

func (h *hunter) Enough() bool { h.asked++; return h.asked == h.enough }

// One who seeks a frame takes it from the ring itself, and what is before it goes to the handler;
// it gives up when it is asked to, or has nothing found for a while, and looks still.
func TestSeek(t *testing.T) {
	for _, turn := range []int{1, lookCrowded, 5, lookAlone} {
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			a, b, asides := beside(t)
			a.turn = turn
			seek := func(h *hunter) (picked, tired bool) {
				require.True(t, a.Enter())
				picked, tired = a.Seek(h)
				require.True(t, a.looking.Load())
				require.EqualValues(t, 2, a.box.head.look.Load())
				return picked, tired
			}
			c := still(t)
			h := &hunter{n: 3}
			picked, tired := seek(h)
			require.False(t, picked)
			require.True(t, tired)
			require.Equal(t, looks, c.rests)
			require.Equal(t, []int{64, 128}, c.here)
			require.Equal(t, turn*(looks+1), h.asked)
			require.Equal(t, turn*(looks+1)/16, *asides)
			a.Leave()

			*c = clock{at: c.at, each: func(n int) {
				if n == 1 || n == 50 {
					for k := range 2 {
						require.NoError(t, b.Send(0, word(uint64(n/50*2+k)+1)))
					}
				}
			}}
			h = &hunter{n: 3}
			picked, tired = seek(h)
			require.True(t, picked)
			require.False(t, tired)
			require.Equal(t, 50, c.rests)
			require.Equal(t, []uint64{3}, h.got)
			require.Equal(t, sends(1, 1, 2), a.hears(), "the frame behind it stays")
			a.Leave()
			require.Equal(t, sends(1, 4, 4), a.hears())

			*c = clock{at: c.at}
			h = &hunter{n: 9, enough: 3*turn + 1}
			picked, tired = seek(h)
			require.False(t, picked || tired)
			require.Equal(t, 3, c.rests)
			a.Leave()

			*c = clock{at: c.at, each: func(n int) { // another frame: time begins again
				if n == 60 {
					require.NoError(t, b.Send(0, word(5)))
				}
			}}
			h = &hunter{n: 9}
			_, tired = seek(h)
			require.True(t, tired)
			require.Equal(t, 60+looks, c.rests)
			a.Leave()
			require.Equal(t, sends(1, 5, 5), a.hears())

			n := 0
			a.Beside(func() bool { n++; return n == 3 })
			*c = clock{at: c.at}
			_, tired = seek(&hunter{n: 9})
			require.True(t, tired)
			require.Equal(t, (3*16-1)/turn+looks, c.rests, "a turn of %d", turn)
			a.Leave()
			a.Beside(nil)

			copied := false
			*c = clock{at: c.at, each: func(n int) {
				if n == 2 {
					offers(a, b, uint64(turn), func() { copied = true })
				}
			}}
			picked, tired = seek(&hunter{n: 9})
			require.False(t, picked || tired, "there is a copy to make")
			require.Equal(t, 2, c.rests)
			require.False(t, copied)
			a.Leave()
			require.True(t, copied)
		})
	}
}

// The sleeper, up, says that it is, looks for a moment, and sleeps again. With the only processor
// it looks on only while a transfer is under way.
func TestSleeper(t *testing.T) {
	before := single
	t.Cleanup(func() { single = before })
	for _, row := range []struct {
		name   string
		single bool
		under  func(a, b *actor)
		rests  int
	}{
		{"", false, nil, sleeps},
		{"nothing is under way", true, nil, 0},
		{"something is expected", true, func(a, _ *actor) { a.Expect(1, 1, make([]byte, 1), func(error) {}) }, int(midwayFor/time.Microsecond) + 1},
		{"something waits", true, func(a, _ *actor) { a.fills(t, 1) }, int(midwayFor/time.Microsecond) + 1},
		{"a copy is to be made", true, func(a, b *actor) { offers(a, b, 1, func() {}); a.Expect(1, 2, make([]byte, 1), func(error) {}) }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, b, _ := beside(t)
			for a.rings(t) > 0 {
				require.NoError(t, a.bell.wait())
			}
			a.turn = 1
			single = row.single
			if row.under != nil {
				row.under(a, b)
			}
			require.NoError(t, b.Send(0, word(1)))
			if a.rings(t) == 0 {
				a.bell.ring()
			}
			a.wanted.Store(true)
			a.each = func(int, fabric.Frame) {
				require.True(t, a.up.Load())
				require.True(t, a.looking.Load())
				require.False(t, a.wanted.Load())
				a.closed.Store(true) // it ends when it is woken again
				a.bell.ring()
			}
			c := still(t)
			a.sleeper()
			require.Equal(t, row.rests, c.rests, row.name)
			require.Empty(t, c.here)
			require.Equal(t, sends(1, 1, 1), a.hears())
			require.False(t, a.up.Load())
			require.False(t, a.looking.Load())
			require.Zero(t, a.box.head.look.Load())
			require.Zero(t, a.bulk.waits.Load())
		})
	}
	t.Run("one has not left yet", sleeperWaits)
}

// sleeperWaits has the sleeper come up while one who looked is about to leave.
func sleeperWaits(t *testing.T) {
	a, _, _ := beside(t)
	for a.rings(t) > 0 {
		require.NoError(t, a.bell.wait())
	}
	a.box.head.look.Store(1)
	a.looking.Store(true)
	a.bell.ring()
	c := still(t)
	single = true
	c.each = func(n int) {
		require.Zero(t, a.box.head.look.Load(), "the word is even before it waits")
		if n == 3 {
			a.closed.Store(true)
			a.bell.ring()
			a.looking.Store(false)
		}
	}
	a.sleeper()
	require.Equal(t, 3, c.pauses)
	// Closed before it sleeps.
	a.box.head.look.Store(1)
	a.bell.ring()
	a.sleeper()
	require.EqualValues(t, 1, a.box.head.look.Load())
}

// With the only processor, the next piece in time begins the wait again.
func TestLookShortly(t *testing.T) {
	a, b, _ := beside(t)
	c := still(t)
	a.Expect(1, 1, make([]byte, 1), func(error) {})
	c.each = func(n int) {
		if n == 70 {
			require.NoError(t, b.Send(0, word(1)))
		}
	}
	require.True(t, a.enter())
	a.lookShortly()
	require.Equal(t, 70+int(midwayFor/time.Microsecond)+1, c.rests)
	require.False(t, a.looking.Load())
	require.Equal(t, sends(1, 1, 1), a.hears())
	require.True(t, a.Forget(1, 1))
}

// Watch glances at what it waits for a few times, looks for it then, and gives up when nothing has
// come for a while.
func TestWatch(t *testing.T) {
	for turn, glances := range map[int]int{lookCrowded: 8, lookAlone: 100} {
		step := 1 // µs
		if turn == lookAlone {
			step = 10
		}
		watchs := int(watchFor/time.Microsecond)/step + 1
		t.Run(fmt.Sprint(turn), func(t *testing.T) {
			a, b, asides := beside(t)
			a.turn = turn
			c := still(t)
			for _, before := range []int{0, 1, glances - 1, glances} { // so many glances, and it is there
				n := 0
				a.Watch(func() bool {
					require.Equal(t, n >= glances, a.looking.Load())
					n++
					return n == before+1
				})
				require.Equal(t, before+1, n)
				require.Zero(t, c.rests)
				require.False(t, a.looking.Load())
			}
			*asides = 0
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			n := 0
			never := func() bool { n++; return false }
			a.Watch(never)
			require.Equal(t, watchs, c.rests)
			every := 50/step + 2 // rests in which the time of other goroutines comes
			require.Len(t, c.here, watchs/every)
			for i, k := range c.here {
				require.Equal(t, every*(i+1), k)
			}
			require.Equal(t, glances+turn*(watchs+1), n)
			require.Equal(t, turn*(watchs+1)/16, *asides)
			require.False(t, a.looking.Load())
			require.Zero(t, a.box.head.look.Load())
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond, each: func(n int) {
				if n == 50 {
					require.NoError(t, b.Send(0, word(1)))
				}
			}}
			a.Watch(never)
			require.Equal(t, 50+watchs, c.rests)
			require.Equal(t, sends(1, 1, 1), a.hears())
			elsewhere := 0
			a.Beside(func() bool { elsewhere++; return elsewhere == 3 })
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			a.Watch(never)
			require.Equal(t, (3*16-1)/turn+watchs, c.rests)
			a.Beside(nil)
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			a.Watch(never)
			require.Equal(t, watchs, c.rests)
			// Where another goroutine looks, it only waits.
			require.True(t, a.Enter())
			require.NoError(t, b.Send(0, word(2)))
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			a.Watch(never)
			require.Equal(t, watchs, c.rests)
			require.Empty(t, a.hears())
			require.True(t, a.looking.Load())
			a.Leave()
			// A copy that is waited for is made, and seen, at once.
			copied := false
			offers(a, b, 2, func() { copied = true })
			a.box.head.look.Store(0)
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			a.Watch(func() bool { return copied })
			require.Zero(t, c.rests)
			require.True(t, copied)
			// A copy that comes at the end is made.
			copied = false
			offers(a, b, 1, func() { copied = true })
			a.box.head.look.Store(0)
			*c = clock{at: c.at, step: time.Duration(step) * time.Microsecond}
			n = 0
			a.Watch(func() bool { n++; return n == glances+1 })
			require.True(t, copied, "one who leaves takes what has come")
		})
	}
}

// As many ranks as processors need few turns.
func TestCrowd(t *testing.T) {
	e := onStage(t, 1, nil)[0]
	all := runtime.NumCPU()
	for _, row := range []struct {
		ranks, processors int
		crowded           bool
	}{{1, 1, false}, {2, 1, true}, {2, 2, false}, {3, 2, true}, {all, 0, false}, {all + 1, 0, true}} {
		e.Crowd(row.ranks, row.processors)
		require.Equal(t, map[bool]int{false: lookAlone, true: lookCrowded}[row.crowded], e.turn, "%+v", row)
	}
	big, err := New(Config{Size: all + 1})
	require.NoError(t, err)
	require.Equal(t, lookCrowded, big.turn)
	require.NoError(t, big.Close())
	require.Equal(t, fabric.Caps{Kind: "shm", EagerLimit: EagerLimit, MaxFrame: MaxFrame, Ordered: true, SharedMemory: true}, e.Caps(0))
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

// Copies that nobody has made yet are made when the endpoint closes.
func TestCloseMakesCopies(t *testing.T) {
	hold := make(chan struct{})
	eps := openAll(t, 2, func(c *Config) {
		c.SingleCopy = 1
		if c.Rank == 0 {
			c.Hold = hold
		}
	})
	a, b := &actor{Endpoint: eps[0]}, &actor{Endpoint: eps[1]}
	a.Bind(a)
	b.Bind(mute{})
	ended := make(chan error, 2)
	a.Expect(1, 1, make([]byte, 10), func(err error) { ended <- err })
	b.Push(0, 1, make([]byte, 10), func(error) {})
	a.looks(t)
	closed := make(chan struct{})
	go func() { _ = a.Close(); close(closed) }()
	soon(t, a.closed.Load)
	require.Empty(t, ended)
	close(hold)
	<-closed
	require.NoError(t, <-ended)
	require.Empty(t, ended)
}

// A handler that does not return keeps Close waiting for a bounded time, and keeps its memory.
// Close waits for the endpoint's own goroutine first.
func TestCloseUnderAHandler(t *testing.T) {
	hold := make(chan struct{})
	eps := openAll(t, 2, func(c *Config) {
		if c.Rank == 0 {
			c.Hold = hold
		}
	})
	waitsFor(t, 20*time.Millisecond)
	a := &actor{Endpoint: eps[0]}
	a.Bind(a)
	eps[1].Bind(mute{})
	require.NoError(t, eps[1].Send(0, fabric.Frame{Data: []byte("data")}))
	in, out := make(chan struct{}), make(chan struct{})
	got := ""
	a.each = func(_ int, f fabric.Frame) {
		in <- struct{}{}
		<-out
		got = string(f.Data)
	}
	looked := make(chan struct{})
	go func() { a.Look(make(chan struct{}), false); close(looked) }()
	<-in
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	soon(t, a.closed.Load)
	select {
	case <-closed:
		t.Error("its own goroutine has not ended")
	case <-time.After(60 * time.Millisecond):
	}
	close(hold)
	require.EqualError(t, <-closed, "shm: somebody still looks at what has come")
	require.EqualError(t, a.Close(), "shm: somebody still looks at what has come", "it says so again")
	close(out)
	<-looked
	require.Equal(t, "data", got)
	for _, p := range a.peers {
		p.leave()
	}
	require.NoError(t, a.release())
}
