// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/internal/event"
	"weft/internal/event/check"
	"weft/internal/event/journal"
	"weft/internal/event/oracle"
	"weft/internal/event/timeline"
	"weft/trace"
)

// begun is a sink that keeps which collectives each rank begins, by communicator and number.
type begun struct{ byRank map[int]map[string]string }

func (k *begun) Begin(*event.Recorder)    { k.byRank = map[int]map[string]string{} }
func (k *begun) Flush(event.Moment) error { return nil }
func (k *begun) Idle() error              { return nil }
func (k *begun) Close() error             { return nil }

func (k *begun) Events(s *event.Source, recs []event.Record) {
	for i := range recs {
		if r := &recs[i]; r.Kind() == event.CollectiveBegun {
			mine := k.byRank[s.Location.Index]
			if mine == nil {
				mine = map[string]string{}
				k.byRank[s.Location.Index] = mine
			}
			key := fmt.Sprint(r.C)
			if mine[key] != "" {
				mine[key] = "twice: "
			}
			what := *r
			what.A = 0
			if k := what.B >> 32 & 0xff; k == uint64(coll.Scan) {
				what.B |= 1<<32 - 1 // differs by rank
			}
			mine[key] += event.Sentence(&what, nil)
		}
	}
}

// Each collective is recorded once at each rank, under the same number everywhere: on the heap, by
// messages, with requests, on several communicators.
func TestRecordedCollectives(t *testing.T) {
	for _, messages := range []bool{false, true} {
		onlyMessages.Store(messages)
		sink := &begun{}
		rec, err := event.New(event.Options{Ring: 1 << 17, Sinks: []event.Sink{sink, check.Sink(check.Options{})}})
		require.NoError(t, err)
		const rounds = 40
		err = Run(t.Context(), Config{Ranks: 3, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
			if err := errors.Join(checkCollectives(c, 3), checkCollectives(c, 2500)); err != nil {
				return err
			}
			half, err := c.Split(c.Rank()%2, 0)
			if err != nil {
				return err
			}
			var reqs []*Request
			for i := range rounds { // more than a segment has slots
				reqs = append(reqs, c.Ibarrier(), half.Ibarrier(), c.Ibcast(Of(inputs(0, 1)), i%3))
			}
			return errors.Join(WaitAll(t.Context(), reqs...), half.Barrier(), c.Barrier())
		})
		onlyMessages.Store(false)
		require.NoError(t, err)
		require.NoError(t, rec.Close())
		require.Zero(t, rec.Lost())
		require.Greater(t, len(sink.byRank[0]), 3*rounds)
		for k, what := range sink.byRank[0] {
			require.NotContains(t, what, "twice")
			require.Equal(t, what, sink.byRank[2][k])
			if strings.Contains(what, "of the 3 ranks") {
				require.Equal(t, what, sink.byRank[1][k])
			}
		}
	}
}

// Collectives in mapped memory, and those that some of their ranks make of messages, are recorded
// once at each rank, too.
func TestRecordedMappedColls(t *testing.T) {
	runOn := runners["apart, shm"]
	if runOn == nil {
		t.Skip("no shared memory here")
	}
	for _, n := range []int{2, 3} {
		sink := &begun{}
		rec, err := event.New(event.Options{Ring: 1 << 17, Sinks: []event.Sink{sink, check.Sink(check.Options{})}})
		require.NoError(t, err)
		const rounds = 300
		var parted atomic.Int64
		seed := uint64(time.Now().UnixNano())
		err = runOn(t.Context(), Config{Ranks: n, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
			if c.member == nil {
				return fmt.Errorf("rank %d of %d has no mapped memory", c.rank, c.size)
			}
			all, mine := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2+uint64(c.rank)))
			for i := range rounds {
				if err := round(c, all, mine, i); err != nil {
					return err
				}
			}
			for i := range 20 { // one rank by a request, the others in mapped memory
				if err := either(i%n == c.rank, c.Barrier, c.Ibarrier); err != nil {
					return err
				}
				parted.Add(1)
			}
			return nil
		})
		require.NoError(t, err, "seed %d", seed)
		require.NoError(t, rec.Close())
		require.Zero(t, rec.Lost())
		require.Equal(t, int64(20*n), parted.Load())
		require.GreaterOrEqual(t, len(sink.byRank[0]), rounds+20)
		for r := range n {
			require.Equal(t, sink.byRank[0], sink.byRank[r], "rank %d, seed %d", r, seed)
		}
		for _, what := range sink.byRank[0] {
			require.NotContains(t, what, "twice", "seed %d", seed)
		}
	}
}

// The arrows of a scan follow the order in the communicator, here the reverse of the run's: the end
// at each rank waits for the ranks before it there.
func TestTimelineOfScan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.weft")
	j, err := journal.Create(file, journal.Head{Rank: -1, Ranks: 1})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
	require.NoError(t, err)
	const scans = 10
	err = Run(t.Context(), Config{Ranks: 2, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
		turned, err := c.Split(0, -c.Rank())
		if err != nil {
			return err
		}
		buf, sum := Of([]int64{1}), Of([]int64{0})
		for range scans { // rank 1, the first in turned, comes last, and rank 0 waits for it
			if c.Rank() == 1 {
				if err := second(c.Recv(buf, 0, 0)); err != nil {
					return err
				}
				if err := turned.Scan(buf, sum, Sum); err != nil {
					return err
				}
			} else {
				r := turned.Iscan(buf, sum, Sum)
				if err := c.Send(buf, 1, 0); err != nil {
					return err
				}
				if _, err := r.Wait(c.Context()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, rec.Close())
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, file))
	require.GreaterOrEqual(t, strings.Count(out.String(), `"name":"collective","cat":"collective","ph":"f"`), scans, "to rank 0; Split may have some")
}

// A collective that fails, and a run that ends within one, still end their records.
func TestRecordedCollectiveFails(t *testing.T) {
	err := Run(t.Context(), Config{Ranks: 2, Trace: (*trace.Recorder)(oracle.New(t))}, func(c *Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			if err := d.Barrier(); !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("a barrier where the other rank is in a reduction: %v", err)
			}
		} else if err := d.Allreduce(Of([]int64{1}), Of([]int64{0}), Sum); !errors.Is(err, ErrMismatch) {
			return fmt.Errorf("a reduction where the other rank is in a barrier: %v", err)
		}
		if c.Rank() == 1 {
			return errors.New("boom")
		}
		return c.Barrier()
	})
	require.ErrorContains(t, err, "boom")
}

// On a timeline an arrow leads to each rank's end of a collective, from the rank that came last of
// those that it waits for.
func TestTimelineOfCollectives(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.weft")
	j, err := journal.Create(file, journal.Head{Rank: -1, Ranks: 1})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
	require.NoError(t, err)
	err = Run(t.Context(), Config{Ranks: 3, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
		buf := Of([]int64{1})
		for range 3 {
			// rank 1 comes last: it calls when the others are in the collective, as far as it can
			// know
			if c.Rank() == 1 {
				if err := errors.Join(second(c.Recv(buf, 0, 0)), second(c.Recv(buf, 2, 0))); err != nil {
					return err
				}
				if err := c.Barrier(); err != nil {
					return err
				}
				continue
			}
			r := c.Ibarrier()
			if err := c.Send(buf, 1, 0); err != nil {
				return err
			}
			if _, err := r.Wait(c.Context()); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, rec.Close())
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, file))
	require.NoError(t, timeline.Verify(bytes.NewReader(out.Bytes())))
	require.Equal(t, 3*2, strings.Count(out.String(), `"name":"collective","cat":"collective","ph":"f"`), "one to each of the others")
	require.Equal(t, 3*3, strings.Count(out.String(), `"name":"barrier over"`))
}

func second[T any](_ T, err error) error { return err }

// outcomes is a sink that counts, by rank, the collectives that have ended, and those of them that
// have failed.
type outcomes struct {
	begun         map[uint64]int // ranks
	ended, failed [3]int
}

func (k *outcomes) Begin(*event.Recorder)    { k.begun = map[uint64]int{} }
func (k *outcomes) Flush(event.Moment) error { return nil }
func (k *outcomes) Idle() error              { return nil }
func (k *outcomes) Close() error             { return nil }

func (k *outcomes) Events(s *event.Source, recs []event.Record) {
	for i := range recs {
		switch r := &recs[i]; r.Kind() {
		case event.CollectiveBegun:
			k.begun[r.A] = s.Location.Index
		case event.RequestDone:
			if rank, ok := k.begun[r.A]; ok {
				k.ended[rank]++
				if r.B&event.EndedFailed != 0 {
					k.failed[rank]++
				}
			}
		}
	}
}

// The record of a collective's end tells whether it has failed: on the heap, in mapped memory, by
// messages because a rank has no mapped memory, and by a request.
func TestRecordedFailures(t *testing.T) {
	for how, runOn := range runners {
		for _, request := range []bool{false, true} {
			sink := &outcomes{}
			rec, err := event.New(event.Options{Ring: 1 << 17, Sinks: []event.Sink{sink}})
			require.NoError(t, err)
			err = runOn(t.Context(), Config{Ranks: 3, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				if err := d.Barrier(); err != nil {
					return err
				}
				if c.Rank() == 2 {
					for range 2 { // the others are in their barrier by then
						_ = second(c.Recv(Of(make([]int, 1)), AnySource, 1))
					}
					time.Sleep(10 * time.Millisecond)
					d.Revoke()
					return c.Barrier()
				}
				if err := c.Send(Of([]int{1}), 2, 1); err != nil {
					return err
				}
				if request && c.Rank() == 0 {
					err = wait(d.Ibarrier())
				} else {
					err = d.Barrier()
				}
				if !errors.Is(err, ErrRevoked) {
					return fmt.Errorf("rank %d: %w", c.Rank(), err)
				}
				return c.Barrier()
			})
			require.NoError(t, err, how)
			require.NoError(t, rec.Close())
			require.Equal(t, [3]int{1, 1, 0}, sink.failed, "%s, by a request %v", how, request)
			require.Equal(t, sink.ended[2]+1, sink.ended[0], how)
		}
	}
}
