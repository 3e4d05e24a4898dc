// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is a sink that keeps everything.
type kept struct {
	recs   map[int][]Record
	closed int
}

func (k *kept) Begin(*Recorder) { k.recs = map[int][]Record{} }
func (k *kept) Events(s *Source, recs []Record) {
	k.recs[s.ID] = append(k.recs[s.ID], recs...)
}
func (k *kept) Flush(Moment) error { return nil }
func (k *kept) Idle() error        { return nil }
func (k *kept) Close() error       { k.closed++; return nil }

func newKept(t *testing.T, ring int) (*Recorder, *kept) {
	k := &kept{}
	rec, err := New(Options{Ring: ring, Sinks: []Sink{k}, Every: 1 << 40})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, rec.Close())
		require.NoError(t, rec.Close())
		require.Equal(t, 1, k.closed)
	})
	return rec, k
}

// A full ring keeps its records, and counts new ones as lost. The count is a record of its own.
func TestFullRing(t *testing.T) {
	rec, k := newKept(t, minRing)
	rec.drain.Lock() // no reader
	r := rec.Ring(Location{Kind: SlotLocation})
	s := rec.Shared(Location{Kind: RankLocation})
	for i := range uint64(100) {
		r.Put(int64(i), Started, i, 0, 0)
		s.Put(Matched, i, 0, 0)
	}
	rec.drain.Unlock()
	require.NoError(t, rec.Flush())
	require.Equal(t, uint64(72), rec.Lost())
	for id := range 2 {
		l := k.recs[id]
		require.Len(t, l, minRing+1)
		for i := range uint64(minRing) {
			require.Equal(t, i, l[i].A)
		}
		require.Equal(t, Lost, l[minRing].Kind())
		require.Equal(t, uint64(36), l[minRing].A)
	}
	r.Put(200, Ended, 7, 0, 0) // there is room again
	require.NoError(t, rec.Flush())
	require.Equal(t, uint64(7), k.recs[0][minRing+1].A)
}

// Retired rings are read and dropped; their losses are still counted.
func TestRetire(t *testing.T) {
	rec, k := newKept(t, minRing)
	for i := range 100 {
		r := rec.Ring(Location{Kind: SlotLocation, Index: i})
		for range minRing + i%2 {
			r.Put(1, Started, 0, 0, 0)
		}
		r.Retire()
		require.NoError(t, rec.Flush())
	}
	require.Empty(t, rec.rings)
	require.Len(t, k.recs, 100)
	require.LessOrEqual(t, rec.Lost(), uint64(50)) // the reader may come in between
}

// Each record arrives once, in order and whole, or is counted as lost, whenever the reader runs.
func TestRingHammer(t *testing.T) {
	rec, k := newKept(t, minRing)
	const n = 20_000
	var wg sync.WaitGroup
	for range 3 {
		r := rec.Ring(Location{Kind: SlotLocation})
		wg.Go(func() {
			for i := range uint64(n) {
				r.Put(int64(i), Started, i, ^i, i*3)
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = rec.Flush()
			}
		}
	})
	wg.Wait()
	close(stop)
	reader.Wait()
	require.NoError(t, rec.Flush())
	lost := uint64(0)
	for _, l := range k.recs {
		next, here := uint64(0), uint64(0)
		for _, x := range l {
			if x.Kind() == Lost {
				here += x.A
				continue
			}
			require.GreaterOrEqual(t, x.A, next)
			require.Equal(t, Record{x.A<<8 | uint64(Started), x.A, ^x.A, x.A * 3}, x)
			next = x.A + 1
			here++
		}
		require.Equal(t, uint64(n), here)
	}
	for _, l := range k.recs {
		for _, x := range l {
			if x.Kind() == Lost {
				lost += x.A
			}
		}
	}
	require.Equal(t, rec.Lost(), lost)
}

// The same for a ring with many writers: each writer's records keep their order.
func TestSharedHammer(t *testing.T) {
	for _, ring := range []int{minRing, 1 << 15} {
		sharedHammer(t, ring)
	}
}

func sharedHammer(t *testing.T, ring int) {
	rec, k := newKept(t, ring)
	const writers, n = 4, 5_000
	s := rec.Shared(Location{Kind: RankLocation})
	var wg sync.WaitGroup
	for w := range uint64(writers) {
		wg.Go(func() {
			for i := range uint64(n) {
				s.Put(Matched, w, i, w^i)
				if i%16 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, rec.Flush())
	var next [writers]uint64
	total := uint64(0)
	for _, x := range k.recs[0] {
		if x.Kind() == Lost {
			total += x.A
			continue
		}
		require.Equal(t, x.A^x.B, x.C)
		require.GreaterOrEqual(t, x.B, next[x.A])
		next[x.A] = x.B + 1
		total++
	}
	require.Equal(t, uint64(writers*n), total)
}

// A nil ring ignores records.
func TestNilShared(*testing.T) {
	var s *Shared
	s.Put(Matched, 1, 2, 3)
}

func TestIllegalOptions(t *testing.T) {
	_, err := New(Options{Ring: 100})
	require.EqualError(t, err, "event: a ring of 100 records; legal are powers of two from 64 to 67108864, and 0 for 65536")
	for ring, legal := range map[int]bool{-64: false, minRing / 2: false, minRing - 1: false, minRing: true, minRing + 1: false, maxRing: true, maxRing + 1: false, 2 * maxRing: false} {
		require.Equal(t, legal, Options{Ring: ring}.Check() == nil, "%d events", ring)
	}
	for sample, legal := range map[int]bool{Adaptive - 1: false, Adaptive: true, MaxSample: true, MaxSample + 1: false} {
		require.Equal(t, legal, Options{Sample: sample}.Check() == nil, "one of %d", sample)
	}
	_, err = New(Options{Every: -1})
	require.EqualError(t, err, "event: sinks are to receive records every -1ns; legal are positive times, and 0 for 100ms")
}

// A shared ring ignores kinds outside Wants; slots check Wants themselves.
func TestWants(t *testing.T) {
	k := &kept{}
	rec, err := New(Options{Sinks: []Sink{k}, Wants: Of(Matched)})
	require.NoError(t, err)
	s := rec.Shared(Location{Kind: RankLocation})
	s.Put(SendPosted, 1, 0, 0)
	s.Put(Matched, 2, 0, 0)
	require.NoError(t, rec.Close())
	require.Len(t, k.recs[0], 1)
}

// slowSink is a sink that yields in each call.
type slowSink struct{ n int }

func (c *slowSink) Begin(*Recorder)              {}
func (c *slowSink) Events(_ *Source, r []Record) { c.n += len(r); runtime.Gosched() }
func (c *slowSink) Flush(Moment) error           { return nil }
func (c *slowSink) Idle() error                  { return nil }
func (c *slowSink) Close() error                 { return nil }

// A patient recording loses nothing, however small its rings are. After its end, writers do not
// wait for room.
func TestPatient(t *testing.T) {
	sink := &slowSink{}
	rec, err := New(Options{Ring: 64, Patient: true, Sinks: []Sink{sink}})
	require.NoError(t, err)
	own, shared := rec.Ring(Location{Kind: SlotLocation}), rec.Shared(Location{Kind: RankLocation})
	const each, writers = 20_000, 3
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range each {
			own.Put(int64(i), Parked, 0, 0, 0)
		}
	})
	for range writers {
		wg.Go(func() {
			for range each {
				shared.Put(Put, 0, 0, 0)
			}
		})
	}
	wg.Wait()
	require.NoError(t, rec.Close())
	require.Zero(t, rec.Lost())
	require.Equal(t, (writers+1)*each, sink.n)
	for range 100 {
		own.Put(0, Parked, 0, 0, 0)
		shared.Put(Put, 0, 0, 0)
	}
	require.EqualValues(t, 2*(100-64), rec.Lost())
}
