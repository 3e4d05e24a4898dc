// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// The run is aborted at each step of an allocation in turn, while rank 0 is in that step. Every
// rank gets the error, no further step is made, and nothing is left when all ranks have released
// the window.
func TestAbortAtEachStep(t *testing.T) {
	boom := errors.New("boom")
	for _, step := range []string{"create:file", "create:filed", "create:reserved", "header:written", "create:synced", "prefault", "create:committing", "create:committed", "create:ready"} {
		var mu sync.Mutex
		var later []string
		aborted := false
		reached, done := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var cfg nam.Config
		nam.SetStep(&cfg, func(name string) {
			mu.Lock()
			if aborted && (strings.HasPrefix(name, "create:") || name == "header:written") {
				later = append(later, name)
			}
			mu.Unlock()
			if name == step {
				once.Do(func() {
					close(reached)
					<-done
					mu.Lock()
					aborted = true
					mu.Unlock()
				})
			}
		})
		dir := shortDir(t)
		s, err := nam.Open(dir, cfg)
		require.NoError(t, err)
		var errs [2]error
		err = comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			two, err := c.Split(c.Rank()/2, 0)
			if err != nil {
				return err
			}
			if c.Rank() == 2 {
				<-reached
				go func() {
					<-c.Context().Done()
					close(done)
				}()
				return boom
			}
			_, err = s.Allocate(two, 64, 8, nam.Persistent, nam.Name("w"), nam.Prefault(c.Rank() == 0))
			errs[c.Rank()] = err
			return err
		})
		require.ErrorIs(t, err, boom, step)
		for r, err := range errs {
			require.ErrorIs(t, err, comm.ErrAborted, "%s: rank %d", step, r)
		}
		mu.Lock()
		// Rank 0's call of the store runs to its end.
		if i := strings.Join(later, " "); strings.Contains(i, "create:filed") && step != "create:file" || strings.Contains(i, "create:committing") {
			t.Errorf("%s: after the run was aborted: %s", step, i)
		}
		mu.Unlock()
		require.Eventually(t, func() bool {
			all, err := s.List()
			return err == nil && len(all) == 0
		}, time.Minute, time.Millisecond, step)
		require.NoError(t, s.Close())
		s, err = nam.Open(dir, nam.Config{})
		require.NoError(t, err)
		requireEmpty(t, s)
		require.NoError(t, s.Close())
	}
}

// The run is aborted at some moment of an allocation, or of an attach, or after. Each rank gets a
// window or an error, and nothing is left when all ranks have released theirs.
func TestAbortAtAnyTime(t *testing.T) {
	boom := errors.New("boom")
	s := newTestStore(t, nam.Config{})
	allocate := func(c *comm.Comm) (*nam.Win, error) { return s.Allocate(c, 64, 8, nam.Persistent, nam.Name("w")) }
	attach := func(c *comm.Comm) (*nam.Win, error) { return s.Attach(c, "w") }
	// once makes a third rank abort the run after a time, or never if the time is negative. It
	// returns how long the call takes.
	once := func(call func(*comm.Comm) (*nam.Win, error), after time.Duration) (took time.Duration, made bool) {
		var wins [2]*nam.Win
		var errs [2]error
		ready := make(chan struct{})
		err := comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			two, err := c.Split(c.Rank()/2, 0)
			if err != nil {
				return err
			}
			if c.Rank() == 2 {
				if <-ready; after < 0 {
					return nil
				}
				for begun := time.Now(); time.Since(begun) < after; {
					runtime.Gosched()
				}
				return boom
			}
			begun := time.Now()
			if c.Rank() == 0 {
				close(ready)
			}
			wins[c.Rank()], errs[c.Rank()] = call(two)
			if c.Rank() == 0 {
				took = time.Since(begun)
			}
			if after < 0 {
				return errors.Join(errs[c.Rank()], wins[c.Rank()].Free())
			}
			return nil
		})
		if after < 0 {
			require.NoError(t, err)
			return took, true
		}
		require.ErrorIs(t, err, boom)
		for r := range wins {
			if wins[r] == nil {
				require.ErrorIs(t, errs[r], comm.ErrAborted, "rank %d", r)
			} else {
				require.NoError(t, errs[r], "rank %d", r)
			}
		}
		return took, wins[0] != nil
	}
	gone := func() bool {
		all, err := s.List()
		return err == nil && len(all) == 0
	}
	took, _ := once(allocate, -1)
	require.NoError(t, s.Remove("w"))
	for try := range 200 {
		if _, made := once(allocate, took*time.Duration(try)/100); made {
			require.NoError(t, s.Remove("w"))
		}
		require.Eventually(t, gone, time.Minute, time.Millisecond)
	}
	once(allocate, -1)
	took, _ = once(attach, -1)
	for try := range 200 {
		once(attach, took*time.Duration(try)/100)
	}
	require.NoError(t, s.Remove("w"))
	require.Eventually(t, gone, time.Minute, time.Millisecond, "somebody has kept it")
	requireEmpty(t, s)
}

// A SetInfo that the run's end interrupts returns the abort, not a difference between ranks, and
// changes nothing.
func TestAbortedSetInfo(t *testing.T) {
	boom := errors.New("boom")
	s := newTestStore(t, nam.Config{})
	var got error
	ready := make(chan struct{})
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			<-ready
			return boom
		}
		close(ready)
		got = w.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_persistent"))
		return errors.Join(got, expect(w.Info().Get("psnam_consistency") == "psnam_consistency_volatile", "%v", w.Info()))
	})
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, got, comm.ErrAborted)
	require.NotErrorIs(t, got, nam.ErrInfo)
	require.Eventually(t, func() bool {
		all, err := s.List()
		return err == nil && len(all) == 0
	}, time.Minute, time.Millisecond, "the window was not freed")
}
