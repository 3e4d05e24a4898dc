//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// A retired source is not polled any more; the others are. While a call of Retire waits, no other
// goroutine takes the turn, and Retire does not wait for ever.
func TestRetire(t *testing.T) {
	a, b := &fake{}, &fake{}
	e := engineOf(Config{Ranks: 1}, a, b)
	require.True(t, e.Take())
	require.False(t, e.Retire(a, time.Millisecond))
	var wg sync.WaitGroup
	wg.Go(func() { require.True(t, e.Retire(a, time.Minute)) })
	for e.retiring.Load() == 0 {
		runtime.Gosched()
	}
	e.Leave()
	wg.Wait()
	a.takeLog()
	a.polls, b.polls = 0, 0
	require.False(t, e.Poll())
	require.True(t, e.Enter())
	e.Leave()
	e.Ring(a) // too late
	require.Empty(t, a.takeLog())
	require.Equal(t, 0, a.polls)
	require.Positive(t, b.polls)
	e.retiring.Add(1)
	require.False(t, e.Enter())
	require.False(t, e.Poll())
	e.retiring.Add(-1)
	require.True(t, e.Retire(b, time.Minute))
	require.False(t, e.Poll())
}

// Until Hold is closed, doorbell goroutines and the guard do not poll.
func TestHold(t *testing.T) {
	hold := make(chan struct{})
	f := &fake{}
	e := engineOf(Config{Ranks: 1, Hold: hold}, f)
	require.True(t, e.onHold())
	rung := make(chan struct{})
	go func() { e.Ring(f); close(rung) }()
	require.False(t, e.Poll())
	require.Equal(t, 1, f.polls)
	close(hold)
	<-rung
	require.False(t, e.onHold())
	require.False(t, engineOf(Config{Ranks: 1}, f).onHold(), "there is no Hold")
}

// Goroutines of all kinds poll: each frame is delivered once, by one goroutine at a time, and none
// is left.
func TestHammer(t *testing.T) {
	const frames = 3000
	for range 3 {
		s := &memory{doorbell: make(chan struct{}, 1)}
		e := New([]fabric.Source{s}, Config{Ranks: 1})
		var wg, doorbells sync.WaitGroup
		over := make(chan struct{})
		doorbells.Go(func() {
			for {
				select {
				case <-s.doorbell:
					s.rung.Store(false)
					e.Ring(s)
				case <-over:
					return
				}
			}
		})
		wg.Go(func() {
			for range frames {
				s.sent.Add(1)
				s.RingDoorbell()
				if s.sent.Load()%7 == 0 {
					runtime.Gosched()
				}
			}
		})
		woken := make(chan struct{}, 1)
		for k := range 3 {
			wg.Go(func() {
				for i := k; s.got.Load() < frames; i++ {
					switch i % 5 {
					case 0:
						e.Try()
					case 1:
						e.PollChannel(woken, e.Enter())
					case 2:
						asked := 0
						if e.Enter() {
							e.PollUntil(func() bool { asked++; return asked > 10 })
							e.Leave()
						}
					case 3:
						e.Call()
					default:
						time.Sleep(10 * time.Microsecond) // only the doorbell goroutine polls
					}
				}
			})
		}
		wg.Wait()
		close(over)
		doorbells.Wait()
		require.EqualValues(t, frames, s.got.Load())
		require.Zero(t, s.twice.Load())
	}
}

// memory is a source like shared memory: a sender rings if the word is zero.
type memory struct {
	fabric.NoSource
	sent, got, twice atomic.Int64
	polling          atomic.Bool // a goroutine is in Poll
	word             atomic.Int32
	rung             atomic.Bool
	doorbell         chan struct{}
}

func (m *memory) RingDoorbell() {
	if m.word.CompareAndSwap(0, 1) {
		m.doorbell <- struct{}{}
	}
}

func (m *memory) Poll(bool) bool {
	if !m.polling.CompareAndSwap(false, true) {
		m.twice.Add(1)
	}
	defer m.polling.Store(false)
	n := m.sent.Load()
	if n == m.got.Load() {
		return false
	}
	m.word.Store(2)
	m.got.Store(n)
	return true
}

func (m *memory) Arm(on bool, _ fabric.Leaving) fabric.Armed {
	if !on {
		m.word.Store(2)
		return fabric.ArmedFully
	}
	m.word.Store(0)
	if m.sent.Load() != m.got.Load() {
		return fabric.SomethingHere
	}
	return fabric.ArmedFully
}

func (m *memory) String() string { return fmt.Sprint(m.sent.Load(), m.got.Load()) }
