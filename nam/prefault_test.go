// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
)

// stop does not wait for all pages.
func TestPrefaultStops(t *testing.T) {
	p := &prefaulter{done: make(chan struct{})}
	go func() {
		for !p.stopped.Load() {
			time.Sleep(time.Millisecond)
		}
		close(p.done)
	}()
	for range 2 { // it may be called more than once
		p.stop()
	}
	(*prefaulter)(nil).stop()
}

// A window is ready while the kernel still makes its pages, however long that takes. Data put
// meanwhile is there, and Free stops the prefaulting.
func TestAllocateDoesNotWaitForAllPages(t *testing.T) {
	const size = 64 << 20
	var made atomic.Int64
	hold := make(chan struct{})
	cfg := Config{step: func(name string) {
		if name == "prefault" {
			made.Add(1)
			<-hold // a kernel that is slow
		}
	}}
	s, err := Open(t.TempDir(), cfg)
	require.NoError(t, err)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, size, 8, Prefault(true))
		if err != nil {
			return err
		}
		got := []int64{0}
		err = errors.Join(w.Fence(0),
			w.Put(comm.Of([]int64{42}), 1-c.Rank(), size/8-1), w.Fence(0),
			w.Get(comm.Of(got), c.Rank(), size/8-1), w.Fence(0))
		if got[0] != 42 {
			err = errors.Join(err, errors.New("what was put ahead of the pages is not there"))
		}
		w.b.prefault.stopped.Store(true)
		if err := c.Barrier(); err != nil {
			return err
		}
		if c.Rank() == 0 {
			close(hold)
		}
		return errors.Join(err, w.Free())
	}))
	require.EqualValues(t, 2, made.Load(), "Free ends it after the piece at hand")
	require.NoError(t, s.Close())
}
