// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/env"
	"weft/task/internal/sched"
)

// said collects what a runtime reports.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// impatient returns a runtime that ends deadlocks soon.
func impatient(t *testing.T, cfg Config, limit time.Duration) (*Runtime, *said) {
	got := &said{}
	cfg.Reports = got
	rt, err := open(cfg, tuning{rounds: sched.Rounds, deadlock: limit})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	return rt, got
}

// programsThatHang are programs in which all tasks wait for each other, or for something that never
// comes.
var programsThatHang = map[string]func(t *Task) error{
	"a task that nobody unblocks": func(t *Task) error {
		t.SpawnWith(Attrs{Label: "lonely"}, func(t *Task) error { return t.Block() })
		return nil
	},
	"a parent that waits for it": func(t *Task) error {
		t.SpawnWith(Attrs{Label: "lonely"}, func(t *Task) error { return t.Block() })
		return t.Wait()
	},
	"tasks that wait for a blocked task": func(t *Task) error {
		var x int
		t.SpawnWith(Attrs{Label: "lonely"}, func(t *Task) error { return t.Block() }, deps.Out(&x))
		for range 100 {
			t.Spawn(func(*Task) error { return nil }, deps.InOut(&x))
		}
		return t.WaitOn(deps.In(&x))
	},
	"many": func(t *Task) error {
		for range 20 {
			t.SpawnWith(Attrs{Label: "lonely"}, func(t *Task) error { return t.Block() })
		}
		return nil
	},
}

// A program in which all tasks wait, and nothing else can act, reports that and ends with an error
// that says which task waits for what.
func TestDeadlockOfTasks(t *testing.T) {
	for name, main := range programsThatHang {
		for _, workers := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				rt, got := impatient(t, Config{Workers: workers}, 100*time.Millisecond)
				for range 2 { // the runtime goes on
					err := rt.Run(bg, main)
					require.ErrorIs(t, err, ErrDeadlock)
					require.ErrorContains(t, err, `task "lonely" (spawned at `)
					require.ErrorContains(t, err, "waits in Block")
				}
				require.Contains(t, got.String(), "no goroutine is left that could wake one")
				require.Contains(t, got.String(), `task "lonely" (spawned at `)
				d := rt.Spawn(bg, main)
				require.ErrorIs(t, d.Wait(bg), ErrDeadlock)
			})
		}
	}
}

// The deadlock is found while any number of goroutines close the runtime.
func TestDeadlockWhileClosing(t *testing.T) {
	watch(t)
	rt, _ := impatient(t, Config{Workers: 2}, 100*time.Millisecond)
	d := rt.Spawn(bg, func(t *Task) error { return t.Block() })
	for range 2 {
		go rt.Close()
	}
	require.NoError(t, rt.Close())
	require.ErrorIs(t, d.Err(), ErrDeadlock)
}

// An event that never ends is reported. It keeps the run open; the run has the error afterwards.
func TestDeadlockOfEvents(t *testing.T) {
	rt, got := impatient(t, Config{Workers: 2}, 200*time.Millisecond)
	err := rt.Run(bg, func(t *Task) error {
		t.Spawn(func(t *Task) error {
			end := t.Hold()
			// the detector does not know of the timer
			time.AfterFunc(time.Second, func() { end(nil) })
			return nil
		})
		return t.Wait()
	})
	require.ErrorIs(t, err, ErrDeadlock)
	require.Contains(t, got.String(), "waits in Wait")
	require.Contains(t, got.String(), "Events that no code ends (Hold) keep it open")
	require.Equal(t, 1, strings.Count(got.String(), "no goroutine is left"), got.String())
}

// While another goroutine of the program lives, tasks that wait for each other's Mutexes are
// reported once, with that goroutine.
func TestSuspectedDeadlockOfTasks(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	go func() { <-never }()
	rt, got := impatient(t, Config{Workers: 2}, 200*time.Millisecond)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	d := rt.Spawn(ctx, func(t *Task) error {
		crossLocks(t, new([2]Mutex))
		return nil
	})
	// Poll rarely: the detector finds the deadlock only while no goroutine runs, this one included.
	require.Eventually(t, func() bool { return strings.Contains(got.String(), "for a Mutex") }, time.Minute, 50*time.Millisecond)
	cancel()
	require.ErrorIs(t, d.Wait(bg), context.Canceled)
	text := got.String()
	require.Equal(t, 1, strings.Count(text, "unless a goroutine of the program acts"), text)
	require.Equal(t, 2, strings.Count(text, "waits in Mutex.Lock"), text)
	_, acts, _ := strings.Cut(text, "that may act: ")
	require.Contains(t, acts, "TestSuspectedDeadlockOfTasks")
	before, _, _ := strings.Cut(text, " tasks have waited for a Mutex")
	lasts, err := time.ParseDuration(before[strings.LastIndexByte(before, ' ')+1:])
	require.NoError(t, err, text)
	require.GreaterOrEqual(t, lasts, 59*time.Millisecond, "no sooner than three tenths of the limit")
}

// crossLocks spawns two tasks that wait for each other's Mutex.
func crossLocks(t *Task, ms *[2]Mutex) {
	var have sync.WaitGroup
	have.Add(len(ms))
	for i := range ms {
		t.Spawn(func(t *Task) error {
			return t.Critical(&ms[i], func() error {
				have.Done()
				have.Wait()
				return t.Critical(&ms[1-i], func() error { return nil })
			})
		})
	}
}

// Tasks wait for a Mutex in vain if its holder waits, directly or through others, for a Mutex that
// it holds, or for tasks that all wait for tasks. They do not if some task may go on by itself.
func TestLocksInVain(t *testing.T) {
	type locks = [2]Mutex
	behind := func(wait func(t *Task) error) func(t *Task, ms *locks, gate chan struct{}) {
		return func(t *Task, ms *locks, _ chan struct{}) {
			locked := make(chan struct{})
			t.Spawn(func(t *Task) error {
				return t.Critical(&ms[0], func() error {
					close(locked)
					return wait(t)
				})
			})
			<-locked
			for range 2 {
				t.Spawn(func(t *Task) error { return t.Critical(&ms[0], func() error { return nil }) })
			}
		}
	}
	blocks := func(t *Task, gate chan struct{}) {
		t.Spawn(func(t *Task) error {
			t.Blocking(func() { <-gate })
			return nil
		})
	}
	for name, c := range map[string]struct {
		lockers int
		other   string // what another task waits in
		inVain  bool
		main    func(t *Task, ms *locks, gate chan struct{})
	}{
		"a cycle": {2, "", true, func(t *Task, ms *locks, _ chan struct{}) { crossLocks(t, ms) }},
		"a cycle, and Blocking": {2, opBlocking, true, func(t *Task, ms *locks, gate chan struct{}) {
			crossLocks(t, ms)
			blocks(t, gate)
		}},
		"Blocking": {2, opBlocking, false, func(t *Task, ms *locks, gate chan struct{}) {
			behind(func(t *Task) error {
				t.Blocking(func() { <-gate })
				return nil
			})(t, ms, gate)
		}},
		"a sleep": {2, opSleep, false, behind(func(t *Task) error { return t.Sleep(time.Hour) })},
		"a block": {2, opBlock, false, behind(func(t *Task) error { return t.Block() })},
		"a join": {3, "", true, func(t *Task, ms *locks, gate chan struct{}) {
			behind(func(t *Task) error {
				return t.run.rt.Spawn(bg, func(t *Task) error { return t.Critical(&ms[0], func() error { return nil }) }).Join(t)
			})(t, ms, gate)
		}},
		"a wait for Blocking": {2, opBlocking, false, func(t *Task, ms *locks, gate chan struct{}) {
			behind(func(t *Task) error {
				blocks(t, gate)
				return t.Wait()
			})(t, ms, gate)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newTestRuntime(t, Config{Workers: 2})
			ctx, cancel := context.WithCancel(bg)
			gate := make(chan struct{})
			var ms locks
			d := rt.Spawn(ctx, func(t *Task) error {
				c.main(t, &ms, gate)
				return nil
			})
			until(func() bool {
				text := strings.Join(rt.describeWaits(), "\n") + "\n"
				return strings.Count(text, opLock) == c.lockers && (c.other == "" || strings.Contains(text, " "+c.other+"\n"))
			})
			require.Equal(t, c.inVain, rt.locksInVain())
			cancel()
			close(gate)
			_ = d.Wait(bg) // nil if the gate opened first
		})
	}
}

// A program that may go on is not ended and not reported.
func TestNoDeadlockOfTasks(t *testing.T) {
	const limit = 60 * time.Millisecond
	for name, main := range map[string]func(t *Task) error{
		"a goroutine of the program": func(t *Task) error {
			go func() { time.Sleep(6 * limit); t.Unblock() }()
			return t.Block()
		},
		"an event of a goroutine": func(t *Task) error {
			end := t.Hold()
			go func() { time.Sleep(6 * limit); end(nil) }()
			return nil
		},
		"a time": func(t *Task) error {
			_, err := t.BlockFor(6 * limit)
			return err
		},
		"a sleep": func(t *Task) error { return t.Sleep(6 * limit) },
		"a function of Blocking": func(t *Task) error {
			t.Blocking(func() { time.Sleep(6 * limit) })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, got := impatient(t, Config{Workers: 2}, limit)
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Spawn(main)
				return t.Wait()
			}))
			require.Empty(t, got.String())
		})
	}
	t.Run("never", func(t *testing.T) {
		t.Setenv(env.DeadlockWarnings.Name, "-1")
		rt, got := impatient(t, Config{Workers: 2}, limit)
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			time.AfterFunc(6*limit, t.Unblock)
			return t.Block()
		}))
		require.Empty(t, got.String())
	})
	t.Run("an illegal value", func(t *testing.T) {
		t.Setenv(env.DeadlockWarnings.Name, "never")
		_, err := Open(Config{})
		require.ErrorContains(t, err, `PSP_DEADLOCK_WARNINGS="never"; legal: `)
	})
}
