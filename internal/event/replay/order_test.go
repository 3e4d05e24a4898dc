// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
)

// Records of one source keep their order, although the clock of one of its writers is behind, or a
// writer was preempted. Records of different sources are in the order of their times.
func TestOrderWithinASource(t *testing.T) {
	var got []uint64
	var times []int64
	s := &Sink{Out: func(e *Event) { got, times = append(got, e.A), append(times, e.Time) }}
	put := func(source int, number uint64, k event.Kind, ticks int64) {
		s.Events(&event.Source{ID: source}, []event.Record{event.Make(ticks, k, number, 0, 0)})
	}
	put(1, 1, event.Matched, 100)
	put(1, 2, event.Matched, 300)
	put(1, 3, event.Matched, 299) // 2 has happened before
	put(1, 4, event.Lost, 900)
	put(1, 5, event.Matched, 250)
	put(1, 6, event.Matched, 310)
	put(2, 7, event.Matched, 299)
	put(2, 8, event.Matched, 305)
	require.NoError(t, s.Close())
	require.Equal(t, []uint64{1, 7, 2, 3, 5, 8, 6, 4}, got)
	require.Equal(t, []int64{100, 299, 300, 300, 300, 305, 310, 900}, times)
}

// The same, if some records have been returned before others are added.
func TestOrderWithinASourceOverMoments(t *testing.T) {
	var got []uint64
	s := &Sink{Out: func(e *Event) { got = append(got, e.A) }}
	s.start = event.Moment{Ticks: 1}
	one := func(number uint64, ticks int64) {
		s.Events(&event.Source{}, []event.Record{event.Make(ticks, event.Matched, number, 0, 0)})
	}
	one(1, 100)
	one(2, 5e9)
	require.NoError(t, s.Flush(event.Moment{Ticks: 1e9, Wall: 1e9}))
	require.Equal(t, []uint64{1}, got)
	one(3, 200)
	require.NoError(t, s.Flush(event.Moment{Ticks: 2e9, Wall: 2e9}))
	require.Equal(t, []uint64{1}, got, "3 comes after 2")
	require.NoError(t, s.Close())
	require.Equal(t, []uint64{1, 2, 3}, got)
	require.Empty(t, s.latest, "sources without recent records are forgotten")
}
