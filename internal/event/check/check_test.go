// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// line is a record of a script: its source's location, its kind and its words.
type line struct {
	at    event.Location
	kind  event.Kind
	words [3]uint64
}

var (
	slot0 = event.Location{Kind: event.SlotLocation, Group: 1}
	slot1 = event.Location{Kind: event.SlotLocation, Group: 1, Index: 1}
	out   = event.Location{Kind: event.OtherLocation, Group: 1}
	rank0 = event.Location{Kind: event.RankLocation, Group: 1}
	rank1 = event.Location{Kind: event.RankLocation, Group: 1, Index: 1}
)

func on(p event.Location, k event.Kind, words ...uint64) line {
	l := line{at: p, kind: k}
	copy(l.words[:], words)
	return l
}

// play passes the lines to a checker, at times that far apart, and returns the findings.
func play(lines []line, apart time.Duration) string {
	c := New(Options{})
	// the message that request 9 of the good program matches
	lines = append([]line{on(rank1, event.SendPosted, 0, event.PeerB(0, 7))}, lines...)
	ids := map[event.Location]int{}
	for i, l := range lines {
		if _, ok := ids[l.at]; !ok {
			ids[l.at] = len(ids)
		}
		c.Event(&replay.Event{Record: event.Make(int64(i), l.kind, l.words[0], l.words[1], l.words[2]),
			Source: event.Source{ID: ids[l.at], Location: l.at}, Time: int64(i) * int64(apart)})
	}
	c.End()
	if err := c.Err(); err != nil {
		return err.Error()
	}
	return ""
}

const mainTask = event.SpawnedMain << 48

// good is a legal program: a main task that blocks, with a child that binds an event, another one
// that runs on top of it, a request and a window.
func good() []line {
	return []line{
		on(slot0, event.SlotTaken), on(slot1, event.SlotTaken), on(slot1, event.Parked),
		on(out, event.Spawned, 1, 0, mainTask), on(out, event.Ready, 1),
		on(slot0, event.Started, 1),
		on(slot0, event.Spawned, 2, 1, event.SpawnedReady<<48), on(slot0, event.Spawned, 3, 1), on(slot0, event.Access, 3),
		on(slot1, event.Unparked), on(slot1, event.Stolen, 2, 0, 1), on(slot1, event.Started, 2), on(slot1, event.HoldUp, 2),
		on(rank0, event.RecvPosted, 9), on(rank0, event.Bound, 9, 2), on(slot1, event.Ended, 2, 1),
		on(slot0, event.Spawned, 4, 1, event.SpawnedReady<<48), on(slot0, event.Started, 4, 1), on(slot0, event.Ended, 4, 0, event.EndedCompleted),
		on(slot0, event.Blocked, 1), on(slot0, event.SlotReleased), on(slot0, event.SlotTaken),
		on(rank0, event.Matched, 9, event.PeerB(1, 7)), on(rank0, event.RequestDone, 9), on(out, event.HoldDown, 2), on(out, event.Released, 2),
		on(out, event.Completed, 2), on(out, event.Ready, 3, 2),
		on(slot1, event.Started, 3), on(slot1, event.Ended, 3, 0, event.EndedCompleted), on(slot1, event.Unblocked, 1), on(slot1, event.Parked),
		on(slot0, event.Resumed, 1), on(slot0, event.Ended, 1), on(slot0, event.Completed, 1),
	}
}

// One window: two epochs, an operation that is queued after a fence, and Free.
const (
	opens = event.FenceOpens << 32
	last  = event.FenceLast << 32
	op1   = 1 << 32
	op2   = 2 << 32
	in2   = 2 << 32
	in3   = 3 << 32
)

func goodWindow() []line {
	return []line{
		on(rank0, event.WindowMade, 5, 800, 2), on(rank0, event.WindowNamed, 5),
		on(rank0, event.EpochClosing, 21, 5|opens, 1), on(rank0, event.EpochClosed, 21, 5, 1), on(rank0, event.RequestDone, 21),
		on(rank0, event.Put, in2, 5|op1, 8), on(rank0, event.EpochClosing, 22, 5|opens, 2), on(rank0, event.Get, in3, 5|op2, 8), on(rank0, event.OperationDone, 0, 5|op1),
		on(rank0, event.Durable, 5, 2), on(rank0, event.EpochClosed, 22, 5, 2), on(rank0, event.RequestDone, 22), on(rank0, event.OperationDone, 0, 5|op2),
		on(rank0, event.EpochClosing, 23, 5|last, 3), on(rank0, event.EpochClosed, 23, 5, 3), on(rank0, event.RequestDone, 23),
		on(rank0, event.WindowFreed, 5), on(rank0, event.WindowRemoved, 5),
	}
}

// Each damage to the script of a window gives its finding.
func TestWindows(t *testing.T) {
	require.Empty(t, play(goodWindow(), time.Millisecond))
	insert := func(at int, more ...line) func([]line) []line {
		return func(l []line) []line { return append(l[:at:at], append(more, l[at:]...)...) }
	}
	without := func(at int) func([]line) []line {
		return func(l []line) []line { return append(l[:at:at], l[at+1:]...) }
	}
	change := func(at, word int, v uint64) func([]line) []line {
		return func(l []line) []line { l[at].words[word] = v; return l }
	}
	for _, c := range []struct {
		name   string
		damage func([]line) []line
		want   string
	}{
		{"a window that was not made", without(0), "not recorded before: window 5"},
		{"made twice", insert(4, on(rank0, event.WindowMade, 5)), "window 5 exists: the number is in use"},
		{"an epoch left out", change(6, 2, 3), "window 5: a fence is to close epoch 3, and the fence before it epoch 1"},
		{"a fence's number given twice", insert(3, on(rank0, event.RecvPosted, 22)), "request 22 is pending: the number is in use"},
		{"an epoch closed without a fence", without(2), "window 5: epoch 1 is closed after 0 epochs, and 0 fences were called"},
		{"an epoch closed twice", insert(4, on(rank0, event.EpochClosed, 21, 5, 1)), "window 5: epoch 1 is closed after 1 epochs, and 1 fences were called"},
		{"a fence complete before its epoch is closed", without(10), "request 22 is a fence, and epoch 2 is not closed"},
		{"a fence that is never complete", without(15), "at the end: request 23 is never complete"},
		{"an operation before any fence", insert(2, on(rank0, event.Put, in2, 5|op1)), "window 5: operation 1 is in epoch 2, which is not open: 0 are closed, and 0 fences were called"},
		{"an operation in the epoch before", change(7, 0, 1<<32), "window 5: operation 2 is in epoch 1, which is not open: 1 are closed, and 2 fences were called"},
		{"an operation in an epoch to come", change(5, 0, in3), "operation 1 is in epoch 3, which is not open"},
		{"an operation after a fence that nothing follows", change(6, 1, 5), "operation 2 is in epoch 3, which is not open"},
		{"an operation after Free", insert(14, on(rank0, event.Put, 4<<32, 5|op1)), "operation 1 is in epoch 4, which is not open"},
		{"an operation of two epochs", change(7, 1, 5|op1), "window 5: operation 1 is pending in epoch 2: the number is in use"},
		{"done and not posted", without(5), "window 5: operation 1 is not pending"},
		{"done twice", insert(9, on(rank0, event.OperationDone, 0, 5|op1)), "window 5: operation 1 is not pending"},
		{"done after its epoch", func(l []line) []line { l[8], l[10] = l[10], l[8]; return l }, "window 5: epoch 2 is closed, and operation 1 in it is not done"},
		{"never done", func(l []line) []line { return l[:12] }, "at the end: window 5 at rank 0: operation 2 in epoch 3 is never done"},
		{"durable before its fence", insert(5, on(rank0, event.Durable, 5, 2)), "window 5: epoch 2 is durable after 1 epochs were closed, 1 fences were called and epoch 0 was durable"},
		{"durable twice", insert(10, on(rank0, event.Durable, 5, 2)), "2 fences were called and epoch 2 was durable"},
		{"durable after its end", insert(11, on(rank0, event.Durable, 5, 1)), "window 5: epoch 1 is durable after 2 epochs were closed"},
		{"a fence after Free", insert(14, on(rank0, event.EpochClosing, 24, 5, 4)), "window 5: a fence is called after the fence of Free"},
		{"freed with a fence outstanding", insert(14, on(rank0, event.WindowFreed, 5)), "window 5: it is freed after 2 epochs were closed and 3 fences were called"},
		{"freed without Free", change(13, 1, 5), "window 5: it is freed after 3 epochs were closed and 3 fences were called"},
		{"an operation of a freed window", insert(17, on(rank0, event.Put, 4<<32, 5|op1)), "window 5 is freed"},
		{"released before Free", insert(16, on(rank0, event.WindowRemoved, 5)), "window 5: its memory is released once, after Free"},
		{"released twice", insert(18, on(rank0, event.WindowRemoved, 5)), "window 5: its memory is released once, after Free"},
	} {
		assert.Contains(t, play(c.damage(goodWindow()), time.Millisecond), c.want, c.name)
	}
}

func TestLegal(t *testing.T) { require.Empty(t, play(good(), time.Millisecond)) }

// Each damage to the good program gives its finding.
func TestDamages(t *testing.T) {
	// drop removes the n-th record of a kind; end appends records.
	drop := func(k event.Kind, n int) func([]line) []line {
		return func(l []line) []line {
			for i := range l {
				if l[i].kind == k {
					if n--; n == 0 {
						return append(l[:i:i], l[i+1:]...)
					}
				}
			}
			panic("no such record")
		}
	}
	end := func(more ...line) func([]line) []line { return func(l []line) []line { return append(l, more...) } }
	for _, c := range []struct {
		name   string
		damage func([]line) []line
		want   string
	}{
		{"a task that was not spawned", drop(event.Spawned, 1), "not recorded before: task 1"},
		{"a child without a parent", end(on(slot0, event.Spawned, 8, 7)), "not recorded before: its parent, task 7"},
		{"a child of a task that is over", end(on(slot0, event.Spawned, 8, 3)), "task 3 is over: it cannot spawn"},
		{"a number given twice", end(on(slot0, event.Spawned, 3, 1)), "task 3 is over: the number is in use or was used before"},
		{"never ready", drop(event.Ready, 2), "task 3 is waiting: only a ready task begins"},
		{"ready twice", func(l []line) []line { return append(l[:5:5], append([]line{on(out, event.Ready, 1)}, l[5:]...)...) }, "task 1 is ready: it becomes ready once"},
		{"ready when over", end(on(slot0, event.Ready, 3)), "task 3 is over: nothing may follow"},
		{"never started", drop(event.Started, 2), "task 2 is ready: the slot is held and runs nothing"},
		{"started twice", end(on(slot0, event.Started, 4)), "task 4 is over: nothing may follow"},
		{"skipped for no reason", func(l []line) []line { l[5].kind = event.Skipped; return l }, "task 1 is ready: its run has not failed"},
		{"never ended", drop(event.Ended, 2), "task 1 is running: the slot runs task 4"},
		{"on top of another one", func(l []line) []line { l[17].words[1] = 3; return l }, "task 4 is ready: the slot runs task 1"},
		{"complete too early", func(l []line) []line { l[15].words[2] = event.EndedCompleted; return l }, "task 2 is running: it cannot be complete: 1 events are pending"},
		{"an event that never ends", drop(event.HoldDown, 1), "task 2 is ended: 1 events are pending"},
		{"an event that ends twice", func(l []line) []line {
			return append(l[:25:25], append([]line{on(out, event.HoldDown, 2)}, l[25:]...)...)
		}, "task 2 is ended: no event is pending"},
		{"children alive", func(l []line) []line { l[33].words[2] = event.EndedCompleted; return append(l[:28:28], l[30:]...) }, "task 1 is running: it cannot be complete: 1 children are not complete"},
		{"never complete", drop(event.Completed, 2), "at the end: task 1 is ended: it is never complete"},
		{"resumed without a reason", drop(event.Unblocked, 1), "task 1 is blocked: nothing has unblocked it"},
		{"resumed from nothing", drop(event.Blocked, 1), "the slot runs task 1: it cannot be given up"},
		{"unblocked twice", func(l []line) []line {
			return append(l[:31:31], append([]line{on(slot1, event.Unblocked, 1)}, l[31:]...)...)
		}, "task 1 is blocked: nothing blocks it"},
		{"a slot taken twice", end(on(slot0, event.SlotTaken)), "the slot is held: another goroutine has it"},
		{"given without being held", end(on(slot0, event.SlotReleased), on(slot0, event.SlotReleased)), "the slot is free and runs nothing: it cannot be given up"},
		{"parked while it runs", func(l []line) []line { return append(l[:6:6], append([]line{on(slot0, event.Parked)}, l[6:]...)...) }, "the slot runs task 1: it cannot park"},
		{"woken and not asleep", end(on(slot0, event.Unparked)), "the slot is held, not parked"},
		{"a parked thief", end(on(slot1, event.Stolen, 2, 0, 1)), "the slot is parked and runs nothing: it cannot steal"},
		{"a request that was not posted", drop(event.RecvPosted, 1), "not recorded before: request 9 is not pending"},
		{"posted twice", func(l []line) []line {
			return append(l[:15:15], append([]line{on(rank0, event.RecvPosted, 9)}, l[15:]...)...)
		}, "request 9 is pending: the number is in use"},
		{"done and not matched", drop(event.Matched, 1), "request 9 has not matched a message"},
		{"not sent", func(l []line) []line { l[22].words[1] = event.PeerB(1, 8); return l }, "rank 1 has not sent rank 0 this message: all messages with tag 8 of communicator 0 are matched"},
		{"sent once, matched twice", end(on(rank0, event.Matched, 0, event.PeerB(1, 7))), "rank 1 has not sent rank 0 this message"},
		{"never done", drop(event.RequestDone, 1), "at the end: request 9 is never complete"},
		{"bound to a task that is over", end(on(rank0, event.Bound, 9, 3)), "task 3 is over: only a body, or OnReady, binds a request"},
	} {
		got := play(c.damage(good()), time.Millisecond)
		assert.Contains(t, got, c.want, c.name)
	}
}

// Records in the wrong order are no finding if their times differ by less than Slack.
func TestSlack(t *testing.T) {
	lines := good()
	lines[27], lines[28] = lines[28], lines[27] // started before it is ready
	require.Empty(t, play(lines, time.Microsecond))
	require.Contains(t, play(lines, time.Millisecond), "only a ready task begins")
}

// If records are missing, only a contradiction among the others is a finding.
func TestPartial(t *testing.T) {
	lines := append([]line{on(slot0, event.Lost, 3)}, good()[10:]...)
	require.Empty(t, play(lines, time.Millisecond))
	require.Contains(t, play(append(lines, on(slot0, event.Started, 3)), time.Millisecond), "task 3 is over: nothing may follow")
}

// Findings are counted without limit, but only Most are kept.
func TestMost(t *testing.T) {
	var lines []line
	for i := range 30 {
		lines = append(lines, on(slot0, event.Ended, uint64(i+1)))
	}
	got := play(lines, time.Millisecond)
	require.Equal(t, 20, strings.Count(got, "not recorded before"))
	require.Contains(t, got, "and 10 more")
}
