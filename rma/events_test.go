// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/event/oracle"
	"weft/rma"
	"weft/trace"
)

// taken is a sink that keeps the trace events of windows, by rank.
type taken struct {
	mu     sync.Mutex
	byRank map[int][]string
}

func (k *taken) Begin(*event.Recorder)    { k.byRank = map[int][]string{} }
func (k *taken) Flush(event.Moment) error { return nil }
func (k *taken) Idle() error              { return nil }
func (k *taken) Close() error             { return nil }

func (k *taken) Events(s *event.Source, recs []event.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range recs {
		r := &recs[i]
		if r.Kind().Info().Group == "windows" {
			if r.Kind() == event.EpochClosing || r.Kind() == event.EpochClosed {
				// the numbers of requests depend on the order of the ranks
				same := event.Make(0, r.Kind(), 0, r.B, r.C)
				r = &same
			}
			k.byRank[s.Location.Index] = append(k.byRank[s.Location.Index], event.Sentence(r, nil))
		}
	}
}

// The trace events of a window, word for word: operations of an open epoch, operations that are
// queued after a fence, an operation that fails, and Free.
func TestEventsOfAWindow(t *testing.T) {
	sink := &taken{}
	rec, err := event.New(event.Options{Sinks: []event.Sink{sink}})
	require.NoError(t, err)
	err = comm.Run(t.Context(), comm.Config{Ranks: 2, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
		w, mem, err := rma.Allocate[int64](c, 2)
		if err != nil {
			return err
		}
		one := comm.Of([]int64{1})
		if err := w.Put(one, 1, 0); !errors.Is(err, rma.ErrSync) {
			return errors.New("a put before the first fence")
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		if c.Rank() == 0 {
			err = errors.Join(err, w.Put(one, 1, 0), w.Accumulate(one, 1, 1, comm.Sum))
			if err := w.Put(one, 1, 2); !errors.Is(err, rma.ErrRange) {
				return errors.New("a put beyond the end")
			}
		}
		// Rank 1 has not called its fence, so the next operations are queued.
		f := w.Ifence(0)
		if c.Rank() == 0 {
			err = errors.Join(err, w.Get(comm.Of(mem[:1]), 1, 0), c.Send(one, 1, 0))
		} else {
			_, e := c.Recv(comm.Of([]int64{0}), 0, 0)
			err = errors.Join(err, e)
		}
		_, e := f.Wait(c.Context())
		return errors.Join(err, e, w.Fence(rma.NoSucceed), w.Free())
	})
	require.NoError(t, err)
	require.NoError(t, rec.Close())
	require.Equal(t, []string{
		"window 1 has 2 regions; that of this rank has 16 bytes",
		"request 0: fence of window 1, which is to close epoch 1: opens",
		"request 0: epoch 1 of window 1 is closed at this rank",
		"request 0: fence of window 1, which is to close epoch 2: opens",
		"request 0: epoch 2 of window 1 is closed at this rank",
		"request 0: fence of window 1, which is to close epoch 3: -",
		"request 0: epoch 3 of window 1 is closed at this rank",
		"request 0: fence of window 1, which is to close epoch 4: last",
		"request 0: epoch 4 of window 1 is closed at this rank",
		"window 1 is freed at this rank",
	}, sink.byRank[1])
	ops := map[string]int{}
	for _, s := range sink.byRank[0] {
		ops[s]++
	}
	done := ": completed; other processes see its effect when the epoch is closed"
	for _, s := range []string{
		"operation 1 of window 1, in epoch 2: put 8 bytes in the region of rank 1",
		"operation 2 of window 1, in epoch 2: accumulate 8 bytes in the region of rank 1",
		"operation 3 of window 1, in epoch 3: get 8 bytes from the region of rank 1",
		"operation 1 of window 1 has ended at this rank" + done,
		"operation 3 of window 1 has ended at this rank" + done,
	} {
		require.Equal(t, 1, ops[s], "%s: %q", s, sink.byRank[0])
	}
	require.Len(t, sink.byRank[0], len(sink.byRank[1])+6)
}

// Many goroutines issue operations, direct and queued, while others call fences. By the rules of
// the checker, each operation belongs to the epoch in which it is carried out.
func TestHammerEvents(t *testing.T) {
	rec := oracle.New(t)
	const writers, puts, fences = 3, 60, 40
	err := comm.Run(t.Context(), comm.Config{Ranks: 2, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
		w, _, err := rma.Allocate[int64](c, writers)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		errs := make([]error, writers+1)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				v := []int64{int64(i)}
				for range puts {
					errs[i] = errors.Join(errs[i], w.Accumulate(comm.Of(v), 1-c.Rank(), i, comm.Sum))
				}
			})
		}
		var reqs []*comm.Request
		for range fences {
			reqs = append(reqs, w.Ifence(0))
		}
		wg.Wait()
		errs[writers] = comm.WaitAll(c.Context(), reqs...)
		return errors.Join(errors.Join(errs...), w.Fence(rma.NoSucceed), w.Free())
	})
	require.NoError(t, err)
}

// An aborted run has windows that no rank frees, and fences that fail. Its recording is legal.
func TestEventsOfAnAbortedRun(t *testing.T) {
	boom := errors.New("boom")
	err := comm.Run(t.Context(), comm.Config{Ranks: 2, Trace: (*trace.Recorder)(oracle.New(t))}, func(c *comm.Comm) error {
		w, _, err := rma.Allocate[int64](c, 1)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		if c.Rank() == 1 {
			return boom
		}
		f := w.Ifence(0)
		err = w.Put(comm.Of([]int64{1}), 1, 0)
		_, e := f.Wait(t.Context())
		if e == nil {
			return errors.New("the fence of an aborted run succeeds")
		}
		return err
	})
	require.ErrorIs(t, err, boom)
}
