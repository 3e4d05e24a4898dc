// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// loggingHost is a runtime that logs the scheduler's calls.
type loggingHost struct {
	mu    sync.Mutex
	log   []string // of Stole, Parks, Unparks and Wakes
	polls atomic.Int64
	has   bool // there is something to poll
}

func (h *loggingHost) note(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *loggingHost) Poll(*Slot) bool { h.polls.Add(1); return h.has }
func (h *loggingHost) Stole(s, from *Slot, _ *chain.Node, taken int) {
	h.note("%d stole %d from %d", s.ID, taken, from.ID)
}
func (h *loggingHost) Parks(s *Slot, all bool) { h.note("%d parks %v", s.ID, all) }
func (h *loggingHost) Unparks(s *Slot)         { h.note("%d unparks", s.ID) }
func (h *loggingHost) Wakes()                  { h.note("wakes") }

func newScheduler(slots, rounds int) (*Scheduler, *loggingHost) {
	q, h := new(Scheduler), new(loggingHost)
	list := make([]*Slot, slots)
	for i := range list {
		list[i] = new(Slot)
	}
	q.Init(h, list, rounds, 0)
	return q, h
}

// until returns when f returns true.
func until(f func() bool) {
	for !f() {
		runtime.Gosched()
	}
}

func nodes(n int) []*chain.Node {
	list := make([]*chain.Node, n)
	for i := range list {
		list[i] = new(chain.Node)
	}
	return list
}

// ready queues n on s, as the runtime does.
func ready(s *Slot, n *chain.Node, priority int32) {
	if priority != 0 {
		s.q.Ready(n, priority)
		return
	}
	s.Push(n)
	s.Tell()
}

// A slot takes tasks with a priority first, then its successor, then its own, the newest first. If
// a task with a priority comes before the successor, any slot may take the successor.
func TestPick(t *testing.T) {
	q, _ := newScheduler(2, 0)
	defer q.Free()
	s := q.slots[0]
	n := nodes(8)
	ready(s, n[0], 0)
	ready(s, n[1], 0)
	s.Next = n[2]
	ready(s, n[3], -1)
	ready(s, n[4], 1)
	ready(s, n[5], 7)
	q.Ready(n[6], 0)
	q.Ready(n[7], 7)
	require.True(t, s.Urgent())
	for _, want := range []struct {
		n      int
		queued bool
	}{{5, true}, {7, true}, {4, true}, {2, false}, {1, false}, {0, false}} {
		got, queued := s.Pick()
		require.Same(t, n[want.n], got)
		require.Equal(t, want.queued, queued, "task %d", want.n)
	}
	got, _ := s.Pick()
	require.Nil(t, got)
	require.Equal(t, [3]int64{1, 0, 1}, q.Lengths())
	require.True(t, q.Work())
	for _, want := range []int{6, 3} {
		got, closed := s.Hunt()
		for got == nil { // the search before it parks
			require.False(t, closed)
			got, closed = s.Hunt()
		}
		require.Same(t, n[want], got)
	}
	require.False(t, q.Work())
	require.False(t, s.Urgent())
}

// While a slot has tasks of its own, each 61st task that it takes is from the injection queue.
func TestPickChecksInject(t *testing.T) {
	q, _ := newScheduler(1, 0)
	defer q.Free()
	s := q.slots[0]
	outside := new(chain.Node)
	q.Ready(outside, 0)
	for range 2 * injectPeriod {
		s.Push(new(chain.Node))
	}
	for k := 1; ; k++ {
		if n, queued := s.Pick(); n == outside {
			require.True(t, queued)
			require.Equal(t, injectPeriod, k)
			return
		}
	}
}

// After turnMax successors a slot runs the task that has waited longest: the oldest of the
// injection queue, else of its own deque, which does not take that for a theft.
func TestTurns(t *testing.T) {
	q, _ := newScheduler(1, 0)
	defer q.Free()
	s := q.slots[0]
	n := nodes(3)
	s.Push(n[0])
	s.Push(n[1])
	q.Ready(n[2], 0)
	for _, want := range []*chain.Node{n[2], n[0], n[1], nil} {
		for range turnMax - 1 {
			s.Turns()
			require.Nil(t, s.Next)
		}
		s.Turns()
		require.Same(t, want, s.Next)
		s.Next = nil
	}
	require.EqualValues(t, 2, s.deque.own)
	require.Equal(t, s.deque.own, s.deque.top.Load())
}

// Of equal priorities the oldest task comes first. popIf does not skip a task that is not fit.
func TestPrioQueue(t *testing.T) {
	var q prioQueue
	require.Nil(t, q.pop())
	n := nodes(6)
	for i, priority := range []int32{0, 2, -1, 7, 0, 2} {
		q.push(n[i], priority)
	}
	require.EqualValues(t, 6, q.n.Load())
	require.Nil(t, q.popIf(func(x *chain.Node) bool { return x != n[3] }))
	for _, want := range []int{3, 1, 5, 0, 4, 2} {
		require.Same(t, n[want], q.pop())
	}
	require.Nil(t, q.popIf(func(*chain.Node) bool { return true }))
	require.Zero(t, q.n.Load())
}

// A thief takes half of the tasks that are left, at most eight with the one that it runs.
func TestSteal(t *testing.T) {
	for _, row := range []struct{ there, taken int }{{1, 1}, {2, 1}, {3, 2}, {5, 3}, {15, 8}, {100, 8}} {
		q, h := newScheduler(2, 1)
		victim, thief := q.slots[0], q.slots[1]
		n := nodes(row.there)
		for _, x := range n {
			victim.Push(x)
		}
		got, closed := thief.Hunt()
		require.False(t, closed)
		require.Same(t, n[0], got)
		require.Equal(t, fmt.Sprintf("1 stole %d from 0", row.taken), h.log[0])
		require.Nil(t, thief.Next)
		for k := row.taken - 1; k > 0; k-- {
			x, queued := thief.Pick()
			require.Same(t, n[k], x)
			require.False(t, queued)
		}
		require.Nil(t, thief.Pop())
		require.Zero(t, q.idle.hunting.Load())
		q.Free()
	}
}

// A slot searches all queues so many rounds before it parks, more if there is something to poll.
func TestRounds(t *testing.T) {
	for _, has := range []bool{false, true} {
		q, h := newScheduler(1, 3)
		h.has = has
		ended := make(chan bool)
		go func() {
			_, closed := q.slots[0].Hunt()
			ended <- closed
		}()
		until(q.AllParked)
		want := int64(3)
		if has {
			want *= pollRounds
		}
		require.Equal(t, want, h.polls.Load())
		q.Close()
		require.False(t, <-ended, "a woken slot searches again")
		_, closed := q.slots[0].Hunt()
		require.True(t, closed)
		q.Free()
	}
}

// The order in which a slot visits other slots is decided by the seed alone.
func TestStealSeed(t *testing.T) {
	for _, seed := range []uint64{0, 7} {
		s := new(Slot)
		q := new(Scheduler)
		q.Init(new(loggingHost), []*Slot{s}, 0, seed)
		require.Equal(t, *rand.NewPCG(0, 0x9E3779B97F4A7C15^seed), s.rng)
		q.Free()
	}
}

// Tasks come one by one, from goroutines without a slot and from slots, while slots are about to
// park. Each runs once. A lost wake-up would be a hang.
func TestIdleHammer(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	for _, slots := range []int{1, 2, 4} {
		for _, searches := range []int{0, 1, Rounds} {
			q, _ := newScheduler(slots, searches)
			var ran atomic.Int64
			var wg sync.WaitGroup
			for _, s := range q.slots {
				wg.Go(func() {
					s.Take()
					defer s.Leave()
					for {
						n, closed := (*chain.Node)(nil), false
						for n == nil && !closed {
							if n, _ = s.Pick(); n == nil {
								n, closed = s.Hunt()
							}
						}
						if closed {
							return
						}
						if n.Flags == 0 {
							x := &chain.Node{Flags: 1}
							ready(s, x, int32(ran.Load()%3)-1)
						}
						ran.Add(1)
					}
				})
			}
			for k := range rounds {
				q.Ready(new(chain.Node), int32(k%3)-1)
				if k%2 == 0 {
					until(func() bool { return ran.Load() == 2*int64(k+1) })
				}
				if k%32 == 0 {
					until(func() bool { return q.NotAtRest() == "" })
				}
			}
			until(func() bool { return ran.Load() == 2*int64(rounds) })
			start := time.Now()
			until(func() bool { return q.NotAtRest() == "" || time.Since(start) > time.Minute })
			require.Empty(t, q.NotAtRest())
			parked, times := q.Parks()
			require.Equal(t, slots, parked)
			require.GreaterOrEqual(t, times, uint64(slots))
			n := 0
			q.EachParked(func(*Slot) { n++ })
			require.Equal(t, slots, n)
			q.Close()
			wg.Wait()
			q.Free()
		}
	}
}

// NotAtRest names what keeps a scheduler from being at rest.
func TestNotAtRest(t *testing.T) {
	q, _ := newScheduler(1, 0)
	defer q.Free()
	s := q.slots[0]
	require.Equal(t, "not all slots are parked", q.NotAtRest())
	q.idle.list = []*Slot{s}
	q.idle.parked.Store(1)
	require.Empty(t, q.NotAtRest())
	q.idle.hunting.Store(1)
	require.Equal(t, "slots are counted as hunting", q.NotAtRest())
	q.idle.hunting.Store(0)
	q.inject.push(new(chain.Node))
	require.Equal(t, "tasks are queued", q.NotAtRest())
	q.inject.pop()
	s.hunting = true
	require.Equal(t, "a parked slot hunts, or has a task", q.NotAtRest())
	s.hunting, s.Next = false, new(chain.Node)
	require.Equal(t, "a parked slot hunts, or has a task", q.NotAtRest())
}

// The table of holders finds each goroutine's own slot, also if identities collide or are used
// again.
func TestHolders(t *testing.T) {
	var h holders
	slots := make([]*Slot, 16)
	h.init(len(slots))
	for i := range slots {
		slots[i] = new(Slot)
	}
	const g0 = uintptr(0x1000)
	for round := range uintptr(200) {
		for i, s := range slots {
			h.set(g0+round*8+uintptr(i), s) // many have the same home
		}
		for i, s := range slots {
			require.Same(t, s, h.find(g0+round*8+uintptr(i)))
		}
		require.Nil(t, h.find(g0+round*8+16))
		require.Nil(t, h.find(g0-8))
		slots[3].g.Store(0)
		require.Nil(t, h.find(g0+round*8+3))
	}
}

// A waker that finds no slot to wake must check again itself, since no slot inherits its count (P3
// again). The test makes the schedule: the waker is held up between reading the empty list and
// giving its count back, while a slot parks and work arrives.
func TestWakeWithEmptyListChecksAgain(t *testing.T) {
	q, _ := newScheduler(1, 0)
	i, s := &q.idle, q.slots[0]
	s.sema = sleeper{ch: make(xatomic.Chan[struct{}], 1)}
	i.parked.Store(1) // the waker saw a parked slot, which has left the list since
	i.mu.Lock()
	woke := make(chan struct{})
	go func() { i.wake(); close(woke) }()
	until(func() bool { return i.hunting.Load() == 1 })
	i.parked.Store(0)
	i.mu.Unlock()
	// From here on the waker may be before, in or after the step that gives its count back. A slot
	// parks, work arrives, and the notifier relies on the hunter that it sees.
	i.mu.Lock()
	i.list = append(i.list, s)
	i.parked.Add(1)
	i.mu.Unlock()
	relied := i.parked.Load() != 0 && i.hunting.Load() != 0
	<-woke
	if relied {
		select {
		case <-s.sema.ch:
		default:
			t.Fatal("the notifier relied on a waker that woke nobody")
		}
	}
}
