// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
)

// kept is a sink that keeps all trace events, by source.
type kept map[event.Location][]event.Record

func (k kept) Events(s *event.Source, recs []event.Record) {
	k[s.Location] = append(k[s.Location], recs...)
}
func (k kept) Begin(*event.Recorder)    {}
func (k kept) Flush(event.Moment) error { return nil }
func (k kept) Idle() error              { return nil }
func (k kept) Close() error             { return nil }

// After the end of a body, the slot runs a task that another slot has spawned since then. The
// recorded begin of this task is later than its spawn.
func TestSuccessorSpawnedElsewhere(t *testing.T) {
	k := kept{}
	rec, err := event.New(event.Options{Sinks: []event.Sink{k}})
	require.NoError(t, err)
	slotOf := func(i int) *Slot {
		return &Slot{rec: rec, ring: rec.Ring(event.Location{Kind: event.SlotLocation, Index: i}), specs: event.NewSpecCache(rec.Names())}
	}
	one, other := slotOf(0), slotOf(1)
	before, _ := one.Spawned(&Spawn{}, nil)
	one.Begins(before, 0, event.Started)
	one.Ended(before, 0, 0)
	after, _ := other.Spawned(&Spawn{}, nil)
	one.Begins(after, 0, event.Started)
	require.NoError(t, rec.Close())
	mine := k[event.Location{Kind: event.SlotLocation, Index: 0}]
	began, spawned := mine[len(mine)-1], k[event.Location{Kind: event.SlotLocation, Index: 1}][0]
	require.Equal(t, []event.Kind{event.Started, event.Spawned}, []event.Kind{began.Kind(), spawned.Kind()})
	require.GreaterOrEqual(t, began.Ticks(), spawned.Ticks())
}

// A slot takes numbers for tasks in batches, and knows the numbers of its last batch.
func TestNumbersOfASlot(t *testing.T) {
	rec, err := event.New(event.Options{})
	require.NoError(t, err)
	e := &Slot{rec: rec}
	first := e.NewID()
	for id, want := range map[uint64]bool{first - 1: false, first: true, first + idBatch - 1: true, first + idBatch: false} {
		require.Equal(t, want, e.numbered(id), id-first)
	}
	for i := range uint64(idBatch - 1) {
		require.Equal(t, first+1+i, e.NewID())
	}
	rec.TaskIDs(5) // another's
	next := e.NewID()
	require.Equal(t, first+idBatch+5, next)
	require.False(t, e.numbered(next-1))
	require.True(t, e.numbered(next))
	require.NoError(t, rec.Close())
}
