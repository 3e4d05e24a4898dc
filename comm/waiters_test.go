// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/friend"
	"weft/trace"
)

// A status counts whole elements.
func TestStatusCount(t *testing.T) {
	for _, row := range []struct{ bytes, size, want int }{
		{8, 4, 2}, {8, 8, 1}, {8, 1, 8}, {8, 3, Undefined}, {8, 7, Undefined}, {8, 9, Undefined}, {8, 16, Undefined}, {8, 0, Undefined}, {8, -1, Undefined}, {8, -8, Undefined}, {0, 4, 0}, {0, 0, Undefined},
	} {
		require.Equal(t, row.want, Status{Bytes: row.bytes}.Count(row.size), "%+v", row)
	}
}

// A request of another package is recorded from the call to friend.Record until it ends, with its
// error.
func TestRecordedRequests(t *testing.T) {
	sink := &recorded{}
	rec, err := event.New(event.Options{Ring: 1 << 12, Patient: true, Sinks: []event.Sink{sink}})
	require.NoError(t, err)
	require.NoError(t, Run(t.Context(), Config{Trace: (*trace.Recorder)(rec)}, func(c *Comm) error {
		for i, end := range []error{nil, errTest, nil} {
			r, complete := NewRequestFor(called("x"))
			if i < 2 {
				friend.Record(r, friend.EventsOfComm(c))
				if friend.EventsOfRequest(r) != friend.EventsOfComm(c) || r.TraceID() == 0 {
					return errTest
				}
			}
			complete(end)
			complete(errTest)
		}
		return nil
	}))
	require.NoError(t, rec.Close())
	var flags []uint64
	for _, recs := range sink.byLocation {
		for i := range recs {
			if recs[i].Kind() == event.RequestDone {
				flags = append(flags, recs[i].B)
			}
		}
	}
	require.Equal(t, []uint64{event.EndedCompleted, event.EndedCompleted | event.EndedFailed}, flags)
}
