// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/event"
	"weft/trace"
)

// kept is a sink that stores all trace records, by source.
type kept struct {
	recs map[event.Location][]event.Record
}

func (k *kept) Events(s *event.Source, recs []event.Record) {
	if k.recs == nil {
		k.recs = map[event.Location][]event.Record{}
	}
	k.recs[s.Location] = append(k.recs[s.Location], recs...)
}
func (k *kept) Begin(*event.Recorder)    {}
func (k *kept) Flush(event.Moment) error { return nil }
func (k *kept) Idle() error              { return nil }
func (k *kept) Close() error             { return nil }

// of returns the trace records of p, without those about slots, as "kind task".
func (k *kept) of(p event.Location) (l []string) {
	for _, r := range k.recs[p] {
		switch r.Kind() {
		case event.Parked, event.Unparked, event.SlotTaken, event.SlotReleased:
			continue
		}
		l = append(l, r.Kind().String())
	}
	return l
}

func TestEventsOfASmallRun(t *testing.T) {
	k := &kept{}
	rec, err := event.New(event.Options{Sinks: []event.Sink{k}})
	require.NoError(t, err)
	rt := New(Config{Workers: 1, Trace: (*trace.Recorder)(rec)})
	var x int
	require.NoError(t, rt.Run(context.Background(), func(t *Task) error {
		t.SpawnWith(Attrs{Label: "first"}, func(*Task) error { x++; return nil }, deps.InOut(&x))
		t.Spawn(func(t *Task) error { t.Hold()(nil); x++; return nil }, deps.InOut(&x))
		t.Spawn(func(t *Task) error { return nil })
		return t.Wait()
	}))
	require.NoError(t, rt.Close())
	require.NoError(t, rec.Close())
	require.Zero(t, rec.Lost())
	for p := range k.recs {
		t.Log(p, k.of(p))
	}
	require.Equal(t, []string{"spawned", "ready"}, k.of(event.Location{Kind: event.OtherLocation, Group: 1}))
	require.Equal(t, []string{"started",
		"spawned", "access", "ready", "spawned", "access", "spawned",
		"started", "ended", "started", "ended", "ready", "started", "hold-up", "hold-down", "ended",
		"ended"}, k.of(event.Location{Kind: event.SlotLocation, Group: 1}))
}

func BenchmarkTraced(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[on], func(b *testing.B) {
			cfg := Config{Workers: 2}
			if on {
				rec, err := event.New(event.Options{})
				require.NoError(b, err)
				defer rec.Close()
				cfg.Trace = (*trace.Recorder)(rec)
			}
			rt := New(cfg)
			defer rt.Close()
			require.NoError(b, rt.Run(context.Background(), func(t *Task) error {
				for range b.N {
					t.Spawn(func(*Task) error { return nil })
				}
				return nil
			}))
			if on {
				b.ReportMetric(float64(cfg.Trace.Lost()), "lost")
			}
		})
	}
}

// A recording has the requested kinds of trace events, and no others. If tasks are sampled, it has
// no trace event of a task that is not recorded.
func TestEventsThatAreWanted(t *testing.T) {
	ofSlots := event.Of(event.Parked, event.Unparked, event.SlotTaken, event.SlotReleased)
	record := func(opt event.Options) (seen map[event.Kind]int) {
		k := &kept{}
		opt.Sinks = []event.Sink{k}
		rec, err := event.New(opt)
		require.NoError(t, err)
		rt := New(Config{Workers: 1, Trace: (*trace.Recorder)(rec)})
		var x int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { t.Unblock(); return nil })
				return t.Block()
			}, deps.InOut(&x))
			t.Spawn(func(t *Task) error {
				end := t.Hold()
				t.Spawn(func(*Task) error { end(nil); return nil })
				return nil
			}, deps.InOut(&x))
			return t.Wait()
		}))
		require.NoError(t, rt.Close())
		require.NoError(t, rec.Close())
		seen = map[event.Kind]int{}
		for _, recs := range k.recs {
			for _, r := range recs {
				seen[r.Kind()]++
				require.False(t, opt.Sample > 1 && !ofSlots.Has(r.Kind()) && r.A == 0, "%v of no task", r.Kind())
			}
		}
		return seen
	}
	all := record(event.Options{})
	for _, k := range []event.Kind{event.Started, event.Blocked, event.Resumed, event.Released, event.SlotReleased, event.HoldDown} {
		require.NotZero(t, all[k], k)
		require.Equal(t, map[event.Kind]int{k: all[k]}, record(event.Options{Wants: event.Of(k)}))
	}
	require.NotEmpty(t, record(event.Options{Sample: event.MaxSample}))
}

// In a recording, a body begins after the end of what its slot has done before: the previous body,
// its own OnReady, and the work of the body beneath it, whatever else is recorded.
func TestBodiesBeginAfterWhatIsBefore(t *testing.T) {
	for _, wants := range []event.Set{event.All, event.Of(event.Started), event.Of(event.Started, event.Ended), event.Of(event.Started, event.Ended, event.Prepared)} {
		k := &kept{}
		rec, err := event.New(event.Options{Sinks: []event.Sink{k}, Wants: wants})
		require.NoError(t, err)
		rt := New(Config{Workers: 1, Trace: (*trace.Recorder)(rec)})
		var x int
		var last int64
		before := func(*Task) error {
			time.Sleep(time.Millisecond)
			last = event.Ticks()
			return nil
		}
		over := map[uint64]int64{} // by task: the end of what its slot has done before
		begins := func(t *Task) error { over[t.id] = last; return nil }
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 2 {
				t.SpawnWith(Attrs{OnReady: before}, begins, deps.InOut(&x))
				t.Spawn(before, deps.InOut(&x))
				t.Spawn(begins, deps.InOut(&x))
			}
			if err := t.Wait(); err != nil {
				return err
			}
			for range 2 { // on top of this body, which goes on between
				if err := before(t); err != nil {
					return err
				}
				t.SpawnWith(Attrs{Undeferred: true}, begins)
			}
			return nil
		}))
		require.NoError(t, rt.Close())
		require.NoError(t, rec.Close())
		require.Len(t, over, 6)
		for _, r := range k.recs[event.Location{Kind: event.SlotLocation, Group: 1}] {
			if r.Kind() == event.Started && over[r.A] != 0 {
				require.GreaterOrEqual(t, r.Ticks(), over[r.A])
			}
		}
	}
}
