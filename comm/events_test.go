// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/trace"
)

// recorded is a sink that keeps all records of ranks, by location.
type recorded struct {
	byLocation map[event.Location][]event.Record
}

func (k *recorded) Begin(*event.Recorder)    { k.byLocation = map[event.Location][]event.Record{} }
func (k *recorded) Flush(event.Moment) error { return nil }
func (k *recorded) Idle() error              { return nil }
func (k *recorded) Close() error             { return nil }

func (k *recorded) Events(s *event.Source, recs []event.Record) {
	if s.Location.Kind == event.RankLocation {
		k.byLocation[s.Location] = append(k.byLocation[s.Location], recs...)
	}
}

// The root of a collective is recorded by its rank in the run.
func TestRecordedRoots(t *testing.T) {
	sink := &recorded{}
	rec, err := event.New(event.Options{Ring: 1 << 12, Patient: true, Sinks: []event.Sink{sink}})
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), Config{Ranks: 3, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
		d, err := c.Split(0, -c.Rank()) // in reverse
		if err != nil {
			return err
		}
		for root := range 3 {
			if err := d.Bcast(Of([]int{1}), root); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, rec.Close())
	for loc, records := range sink.byLocation {
		var roots []int32
		for i := range records {
			if r := &records[i]; r.Kind() == event.CollectiveBegun {
				roots = append(roots, int32(r.B))
			}
		}
		require.Equal(t, []int32{2, 1, 0}, roots[len(roots)-3:], "%+v", loc)
	}
	require.Len(t, sink.byLocation, 3)
}

// Each message is recorded with its sender, receiver, tag, bytes and communicator, the receive that
// it has matched, and how the request has ended. Runs of one process are told apart; the run that
// several processes make is number 0 in each.
func TestRecordedMessages(t *testing.T) {
	for how, run := range map[string]func(context.Context, Config, func(*Comm) error) error{"together": Run, "apart": runApart} {
		sink := &recorded{}
		rec, err := event.New(event.Options{Ring: 1 << 12, Patient: true, Sinks: []event.Sink{sink}})
		require.NoError(t, err)
		var ctx [2]uint64
		for i := range ctx {
			if how == "apart" && i > 0 {
				break // both would be number 0
			}
			require.NoError(t, run(t.Context(), Config{Ranks: 2, Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
				d, err := c.Split(0, -c.Rank()) // in reverse
				if err != nil {
					return err
				}
				b, big := Of(make([]byte, 10)), Of(make([]byte, 1<<20))
				if c.Rank() == 1 {
					ctx[i] = d.ctx
					return cmp.Or(second(c.Recv(b, 0, 3)), second(c.Recv(b, AnySource, AnyTag)), second(d.Recv(big, 1, 4)),
						wait(d.Irecv(b, 1, 5)), d.Send(b, 1, 8), expect("too long", true, errors.Is(second(c.Recv(Of([]byte{1}), 0, 6)), ErrTruncated)))
				}
				return cmp.Or(c.Send(b, 1, 3), wait(c.Isend(b, 1, 7)), wait(d.Isend(big, 0, 4)), d.Ssend(b, 0, 5), second(d.Recv(b, 0, 8)), c.Send(b, 1, 6))
			}))
		}
		require.NoError(t, rec.Close())
		require.Zero(t, rec.Lost())
		type fact struct {
			kind    event.Kind
			request bool
			b, c    uint64
		}
		sub := sizeAndComm(10, ctx[0])
		large := sizeAndComm(1<<20, ctx[0])
		want := map[int][]fact{
			0: {
				{event.SendPosted, false, event.PeerB(1, 3), 10}, {event.SendPosted, false, event.PeerB(1, 7), 10}, {event.SendPosted, true, event.PeerB(1, 4), large},
				{event.RequestDone, true, event.EndedCompleted, 0}, {event.SendPosted, false, event.PeerB(1, 5), sub}, {event.SendPosted, false, event.PeerB(1, 6), 10},
				{event.RecvPosted, false, event.PeerB(1, 8), sub}, {event.Matched, false, event.PeerB(1, 8), sub},
			},
			1: {
				{event.RecvPosted, false, event.PeerB(0, 3), 10}, {event.Matched, false, event.PeerB(0, 3), 10},
				{event.RecvPosted, false, event.PeerB(AnySource, AnyTag), 10}, {event.Matched, false, event.PeerB(0, 7), 10},
				{event.RecvPosted, false, event.PeerB(0, 4), large}, {event.Matched, false, event.PeerB(0, 4), large},
				{event.RecvPosted, true, event.PeerB(0, 5), sub}, {event.Matched, true, event.PeerB(0, 5), sub}, {event.RequestDone, true, event.EndedCompleted, 0},
				{event.SendPosted, false, event.PeerB(0, 8), sub},
				{event.RecvPosted, false, event.PeerB(0, 6), 1}, {event.Matched, false, event.PeerB(0, 6), 10},
			},
		}
		groups := map[int]int{}
		for loc, recs := range sink.byLocation {
			groups[loc.Group]++
			got := map[event.Kind][]fact{}
			expected := map[event.Kind][]fact{}
			for i := range recs {
				if k := recs[i].Kind(); k != event.CollectiveBegun {
					got[k] = append(got[k], fact{k, recs[i].A != 0, recs[i].B, recs[i].C})
				}
			}
			delete(got, event.RequestDone) // those of collectives are among them
			for _, f := range want[loc.Index] {
				if f.kind != event.RequestDone {
					expected[f.kind] = append(expected[f.kind], f)
				}
			}
			require.Equal(t, expected, got, "%s, %+v", how, loc)
			begun := map[uint64]event.Kind{}
			for i := range recs {
				switch r := &recs[i]; r.Kind() {
				case event.RequestDone:
					require.NotZero(t, r.A)
					require.Contains(t, begun, r.A)
					require.Equal(t, uint64(event.EndedCompleted), r.B)
					delete(begun, r.A)
				case event.SendPosted, event.RecvPosted, event.CollectiveBegun:
					if r.A != 0 {
						begun[r.A] = r.Kind()
					}
				}
			}
			require.Empty(t, begun, "each request ends")
		}
		if how == "apart" {
			require.Equal(t, map[int]int{0: 2}, groups)
		} else {
			require.Len(t, groups, 2)
			require.NotContains(t, slices.Collect(maps.Keys(groups)), 0)
		}
	}
}

// The fields of records saturate or wrap: 40 bits of bytes, 24 of the communicator.
func TestRecordedFields(t *testing.T) {
	require.Equal(t, uint64(1<<40-1), sizeAndComm(1<<40-1, 0))
	require.Equal(t, uint64(1<<40-1), sizeAndComm(1<<40, 0))
	require.Equal(t, uint64(1<<40-2), sizeAndComm(1<<40-2, 0))
	require.Equal(t, uint64(0x001003)<<40|5, sizeAndComm(5, 1<<32|6))
	require.Equal(t, uint64(0xffffff)<<40, sizeAndComm(0, 0xfff<<32|0xfff<<1))
	require.Equal(t, uint64(0), sizeAndComm(0, 0x1000<<32|0x1000<<1))
	for ctx, plain := range map[uint64]bool{0: true, 1: false, leaveCtx: false, leaveCtx + 1: false, countersCtx: true, 1<<32 | 2: true, 1<<32 | 3: false} {
		require.Equal(t, plain, isPlain(ctx), "%d", ctx)
	}
}
