// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/replay"
)

// record writes the recording of one of two ranks that are processes.
func record(t *testing.T, rank int, put func(r *event.Shared)) string {
	file := filepath.Join(t.TempDir(), fmt.Sprintf("run.rank%d.weft", rank))
	j, err := journal.Create(file, journal.Head{Rank: rank, Ranks: 2})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
	require.NoError(t, err)
	put(rec.Shared(event.Location{Kind: event.RankLocation, Group: replay.JobGroup, Index: rank}))
	require.NoError(t, rec.Close())
	return file
}

// A message that one process has matched must have been sent by another. That is not checked if the
// other's file, or some of its records, are missing.
func TestMessagesOfSeveralProcesses(t *testing.T) {
	sends := func(n int) func(*event.Shared) {
		return func(r *event.Shared) {
			for range n {
				r.Put(event.SendPosted, 0, event.PeerB(1, 5), 8)
			}
		}
	}
	receives := func(n int) func(*event.Shared) {
		return func(r *event.Shared) {
			for i := range n {
				id := uint64(i + 1)
				r.Put(event.RecvPosted, id, event.PeerB(-1, 5), 8)
				r.Put(event.Matched, id, event.PeerB(0, 5), 8)
				r.Put(event.RequestDone, id, 0, 0)
			}
		}
	}
	lossy := record(t, 0, func(r *event.Shared) { sends(2)(r); r.Put(event.Lost, 1, 0, 0) })
	enough, two := record(t, 0, sends(3)), record(t, 0, sends(2))
	three := record(t, 1, receives(3)) // later
	_, _, err := Files(Options{}, enough, three)
	require.NoError(t, err)
	_, partial, err := Files(Options{}, two, three)
	require.False(t, partial)
	require.ErrorContains(t, err, "of process 1: request 3 has matched a message of 8 bytes from rank 0 of communicator 0 with tag 5: rank 0 has not sent rank 1 this message")
	_, _, err = Files(Options{}, three)
	require.NoError(t, err, "the other one may have sent it")
	late := record(t, 0, sends(3))
	_, _, err = Files(Options{}, late, three)
	require.ErrorContains(t, err, "has not sent rank 1 this message", "not before it was matched")
	_, partial, err = Files(Options{}, lossy, three)
	require.NoError(t, err)
	require.True(t, partial)
}
