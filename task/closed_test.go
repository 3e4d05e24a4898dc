// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/waits"
	"weft/task"
)

// census takes a valid census, as a service goroutine. It returns false if there is none in a
// while.
func census() (c waits.Census, ok bool) {
	waits.Service(func() { c, ok = waits.Take() })()
	return c, ok
}

// The census counts all goroutines if tasks wait for each other for ever: those of the tasks, of
// the runtime, of its pool, and those that package ants has made in its init.
func TestWaitingTasksAreCounted(t *testing.T) {
	skipRacesInLintMode(t)
	rt := task.New(task.Config{Workers: 2, Watchdog: -1})
	var main, child *task.Task
	var x int
	over := make(chan error)
	go waits.Service(func() {
		// as the caller of Run is while it waits; then it tells this test
		err := rt.Run(bg, func(t *task.Task) error {
			main = t
			t.Spawn(func(t *task.Task) error {
				child = t
				return t.Block()
			}, deps.Out(&x))
			t.Spawn(func(t *task.Task) error { return t.Wait() }, deps.In(&x))
			return t.Block()
		})
		over <- err
	})()
	var c waits.Census
	for ok := false; !ok || c.Foreign() != -1; c, ok = census() {
		// a service goroutine that sleeps in Run is counted twice
		time.Sleep(time.Millisecond)
	}
	require.Zero(t, c.Timed)
	main.Unblock()
	child.Unblock()
	require.NoError(t, <-over)
	require.NoError(t, rt.Close())
}

// Tasks that go on are never taken for a deadlock, in whatever they wait.
func TestNoClosedCensusHammer(t *testing.T) {
	rt := task.New(task.Config{Workers: 2, Watchdog: -1})
	defer rt.Close()
	var stop atomic.Bool
	found := make(chan int)
	go waits.Service(func() {
		n := 0
		for !stop.Load() {
			if c, ok := waits.Take(); ok && c.Closed() {
				n++
			}
		}
		found <- n
	})()
	require.NoError(t, rt.Run(bg, func(t *task.Task) error {
		for i := range 200 {
			var x int
			t.Spawn(func(t *task.Task) error {
				switch i % 4 {
				case 0:
					return t.Sleep(time.Millisecond)
				case 1:
					t.Blocking(func() { time.Sleep(time.Millisecond) })
				case 2:
					return t.Await(func(done func()) {
						go func() {
							time.Sleep(time.Millisecond)
							done()
						}()
					})
				case 3:
					_, err := t.BlockFor(time.Millisecond)
					return err
				}
				return nil
			}, deps.Out(&x))
			if err := t.WaitOn(deps.In(&x)); err != nil {
				return err
			}
		}
		return nil
	}))
	stop.Store(true)
	require.Zero(t, <-found)
}
