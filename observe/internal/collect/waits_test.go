// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
)

// slotEvent is an event of a slot.
type slotEvent struct {
	slot    int
	at      int64
	k       event.Kind
	a, b, c uint64
}

const isReady = event.SpawnedReady << 48

// A body whose own waits move it from slot to slot:
//
//	slot 0  starts at 10, spawns 2 and 3, runs 2 on top from 20 to 30, waits for 3 from 35
//	slot 1  continues at 50, spawns 4, runs it on top from 70 to 80, spawns 5, which it runs undeferred
//	        from 86 to 90, spawns 6, runs it on top from 92 to 95, is blocked from 96
//	slot 0  continues at 98, ends at 100
var movesItself = []slotEvent{
	{0, 5, event.Spawned, 1, 0, isReady | event.SpawnedMain<<48},
	{0, 10, event.Started, 1, 0, 0}, {0, 15, event.Spawned, 2, 1, isReady}, {0, 16, event.Spawned, 3, 1, isReady},
	{2, 17, event.Started, 3, 0, 0}, {2, 49, event.Ended, 3, 0, event.EndedCompleted},
	{0, 20, event.Started, 2, 1, 0}, {0, 30, event.Ended, 2, 0, event.EndedCompleted},
	{0, 35, event.Blocked, 1, event.BlockedWait, 0}, {2, 49, event.Unblocked, 1, 0, 0},
	{1, 50, event.Resumed, 1, 0, 0}, {1, 60, event.Spawned, 4, 1, isReady},
	{1, 70, event.Started, 4, 1, 0}, {1, 80, event.Ended, 4, 0, event.EndedCompleted},
	{1, 85, event.Spawned, 5, 1, isReady | event.SpawnedUndeferred<<48},
	{1, 86, event.Started, 5, 1, 0}, {1, 90, event.Ended, 5, 0, event.EndedCompleted},
	{1, 91, event.Spawned, 6, 1, isReady}, {1, 92, event.Started, 6, 1, 0}, {1, 95, event.Ended, 6, 0, event.EndedCompleted},
	{1, 96, event.Blocked, 1, event.BlockedBlock, 0}, {2, 97, event.Unblocked, 1, 0, 0},
	{0, 98, event.Resumed, 1, 0, 0}, {0, 100, event.Ended, 1, 0, event.EndedCompleted},
}

// A body that is moved by bodies on top of it: by 3, on top of 2, to slot 1, and by 4 back to slot
// 0.
var isMoved = []slotEvent{
	{0, 5, event.Spawned, 1, 0, isReady | event.SpawnedMain<<48},
	{0, 10, event.Started, 1, 0, 0}, {0, 12, event.Spawned, 2, 1, isReady}, {0, 13, event.Spawned, 4, 1, isReady},
	{0, 20, event.Started, 2, 1, 0}, {0, 21, event.Spawned, 3, 2, isReady}, {0, 25, event.Started, 3, 2, 0},
	{0, 30, event.Blocked, 3, event.BlockedBlock, 0}, {0, 31, event.Unblocked, 3, 0, 0},
	{1, 40, event.Resumed, 3, 0, 0}, {1, 45, event.Ended, 3, 0, event.EndedCompleted}, {1, 50, event.Ended, 2, 0, event.EndedCompleted},
	{1, 60, event.Started, 4, 1, 0}, {1, 65, event.Blocked, 4, event.BlockedBlock, 0}, {1, 66, event.Unblocked, 4, 0, 0},
	{0, 70, event.Resumed, 4, 0, 0}, {0, 80, event.Ended, 4, 0, event.EndedCompleted},
	{0, 90, event.Spawned, 5, 1, isReady}, {0, 91, event.Started, 5, 1, 0}, {0, 92, event.Ended, 5, 0, event.EndedCompleted},
	{0, 100, event.Ended, 1, 0, event.EndedCompleted},
}

// A task is counted once, with all its times, whichever slot's events arrive first.
func TestTasksOnManySlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []slotEvent
		runs  []int64 // of tasks 1, 2, …
		stops []stop  // of task 1
	}{
		{"itself", movesItself, []int64{46, 10, 32, 10, 4, 3}, []stop{{50, 15}, {80, 35}, {95, 43}}},
		{"on top", isMoved, []int64{10 + 10 + 19, 5 + 5, 5 + 5, 5 + 10, 1}, []stop{{80, 20}, {92, 31}}},
	} {
		for seed := range uint64(300) {
			list := shuffled(c.lines, seed)
			tasks := runAll(t, list, len(c.runs))
			var runs []int64
			for id := range tasks {
				require.NotNil(t, tasks[id], "%s, order %d: task %d", c.name, seed, id+1)
				runs = append(runs, int64(tasks[id].times().Run))
			}
			require.Equal(t, c.runs, runs, "%s, order %d", c.name, seed)
			var spawns []int64
			for _, l := range c.lines {
				if l.k == event.Spawned && l.b == 1 {
					spawns = append(spawns, l.at)
				}
			}
			require.Equal(t, c.stops, tasks[0].waitsOver(spawns), "%s, order %d", c.name, seed)
		}
	}
}

// shuffled interleaves the lines of the slots at random, and keeps the order of each slot.
func shuffled(lines []slotEvent, seed uint64) (list []slotEvent) {
	r := rand.New(rand.NewPCG(seed, 1))
	var slots [3][]slotEvent
	for _, l := range lines {
		slots[l.slot] = append(slots[l.slot], l)
	}
	for len(list) < len(lines) {
		q := &slots[r.IntN(3)]
		n := min(1+r.IntN(len(lines)), len(*q))
		list = append(list, (*q)[:n]...)
		*q = (*q)[n:]
	}
	return list
}

// runAll passes the events to a collector, and returns the tasks.
func runAll(t *testing.T, lines []slotEvent, tasks int) (list []*live) {
	c := New(tasks)
	rec, err := event.New(event.Options{Sinks: []event.Sink{c}, Every: time.Hour})
	require.NoError(t, err)
	for _, l := range lines {
		s := &event.Source{ID: l.slot, Location: event.Location{Kind: event.SlotLocation, Group: 1, Index: l.slot}}
		c.Events(s, []event.Record{event.Make(l.at, l.k, l.a, l.b, l.c)})
	}
	require.NoError(t, rec.Flush())
	require.NoError(t, rec.Flush())
	require.Empty(t, c.live, "%v", lines)
	for id := range uint64(tasks) {
		list = append(list, c.graph.byID[id+1])
	}
	for _, n := range c.Graph().Nodes {
		for _, s := range n.Stops {
			require.Less(t, s.Run, n.Run)
		}
	}
	require.NoError(t, rec.Close())
	return list
}

// A long body keeps no marks once the graph has no room for its task.
func TestMarksEndWithTheGraph(t *testing.T) {
	c := New(1)
	rec, err := event.New(event.Options{Sinks: []event.Sink{c}, Every: time.Hour})
	require.NoError(t, err)
	s := &event.Source{Location: event.Location{Kind: event.SlotLocation, Group: 1}}
	put := func(at int64, k event.Kind, a, b, c64 uint64) {
		c.Events(s, []event.Record{event.Make(at, k, a, b, c64)})
	}
	put(1, event.Spawned, 1, 0, (event.SpawnedReady|event.SpawnedMain)<<48)
	put(2, event.Started, 1, 0, 0)
	for i := range uint64(1000) {
		at := int64(10 + 10*i)
		put(at, event.Spawned, 2+i, 1, event.SpawnedReady<<48)
		put(at+1, event.Started, 2+i, 1, 0)
		put(at+2, event.Ended, 2+i, 0, event.EndedCompleted)
	}
	require.LessOrEqual(t, len(c.live[1].marks), 2)
	require.NoError(t, rec.Close())
}
