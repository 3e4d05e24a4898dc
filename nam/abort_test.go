// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// The run is aborted at each step of an allocation in turn, while rank 0 is in it: every rank is
// told, no further step is made, and nothing is left when all have let go.
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
		// What rank 0 was in goes on to its end: one call of the store.
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

// A change that the run's end interrupts is an abort, and no disagreement of ranks, and changes
// nothing.
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
