// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/journal"
	"weft/internal/event/timeline"
)

// write records a small program with two slots and two ranks, and returns the file.
func write(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "small.weft")
	j, err := journal.Create(file, journal.Head{Rank: -1, Ranks: 1})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
	require.NoError(t, err)
	group := rec.Group()
	a := rec.Ring(event.Location{Kind: event.SlotLocation, Group: group, Index: 0})
	b := rec.Ring(event.Location{Kind: event.SlotLocation, Group: group, Index: 1})
	other := rec.Shared(event.Location{Kind: event.OtherLocation, Group: group})
	r0 := rec.Shared(event.Location{Kind: event.RankLocation, Group: 1, Index: 0})
	r1 := rec.Shared(event.Location{Kind: event.RankLocation, Group: 1, Index: 1})
	spec := rec.Names().Spec(event.Origin{Label: "solve"})
	put := func(r *event.Ring, k event.Kind, words ...uint64) {
		w := append(words, 0, 0, 0)
		r.Put(event.Ticks(), k, w[0], w[1], w[2])
	}
	put(a, event.SlotTaken)
	put(b, event.SlotTaken)
	put(b, event.Parked)
	other.Put(event.Spawned, 1, 0, event.SpawnedC(spec, 0, event.SpawnedMain))
	other.Put(event.Ready, 1, 0, 0)
	put(a, event.Started, 1)
	other.Put(event.RunOfRank, 1, 1, 0)
	put(a, event.Spawned, 2, 1, event.SpawnedC(spec, 0, event.SpawnedReady))
	put(a, event.Spawned, 3, 1, event.SpawnedC(spec, 0, 0))
	put(b, event.Unparked)
	put(b, event.Stolen, 2, 0, 1)
	put(b, event.Started, 2)
	put(a, event.Blocked, 1, event.BlockedWait)
	put(a, event.SlotReleased)
	r0.Put(event.RecvPosted, 1, event.PeerB(-1, 7), 8)
	r1.Put(event.SendPosted, 0, event.PeerB(0, 7), 8)
	r0.Put(event.Matched, 1, event.PeerB(1, 7), 8)
	r0.Put(event.Bound, 1, 2, event.BoundTo)
	r0.Put(event.RequestDone, 1, 0, 0)
	r1.Put(event.CollectiveBegun, 2, event.CollectiveB(-1, 1, 2), 7)
	r0.Put(event.CollectiveBegun, 3, event.CollectiveB(-1, 1, 2), 7)
	r0.Put(event.RequestDone, 3, 0, 0)
	r1.Put(event.RequestDone, 2, 0, 0)
	window := rec.Names().Spec(event.Origin{Label: "plate"})
	r0.Put(event.WindowMade, 5, 64, 2)
	r0.Put(event.WindowNamed, 5, 0, event.WindowNamedC(window, event.Allocated))
	r0.Put(event.EpochClosing, 4, event.FenceB(5, event.FenceOpens), 1)
	r0.Put(event.EpochClosed, 4, 5, 1)
	r0.Put(event.RequestDone, 4, 0, 0)
	r0.Put(event.Put, event.TargetA(1, 2), event.OperationB(5, 1), 48)
	r0.Put(event.OperationDone, 0, event.OperationB(5, 1), 0)
	r0.Put(event.EpochClosing, 5, event.FenceB(5, 0), 2)
	r0.Put(event.Bound, 5, 2, event.BoundTo)
	r0.Put(event.Durable, 5, 2, 0)
	r0.Put(event.EpochClosed, 5, 5, 2)
	r0.Put(event.RequestDone, 5, 0, 0)
	r0.Put(event.Put, event.TargetA(1, 3), event.OperationB(5, 2), 48)
	put(b, event.Ended, 2, 0, event.EndedCompleted)
	put(b, event.Ready, 3, 2)
	put(b, event.Started, 3)
	put(b, event.Ended, 3, 0, event.EndedCompleted)
	put(b, event.Unblocked, 1)
	put(b, event.SlotReleased, 1)
	put(b, event.SlotTaken)
	put(b, event.Resumed, 1)
	put(b, event.Ended, 1, 0, 0)
	put(b, event.Completed, 1)
	put(b, event.Parked)
	require.NoError(t, rec.Close())
	return file
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, write(t)))
	text := out.String()
	require.NoError(t, timeline.Verify(strings.NewReader(text)), text)
	for _, want := range []string{
		`"name":"runtime 1"`, `"name":"slot 1"`, `"name":"other goroutines"`, `"name":"rank 0: messages"`,
		`"name":"solve","cat":"task","ph":"X"`, `"rank":1`, `"name":"steal"`, `"name":"parked"`, `"name":"blocked: wait","cat":"blocked","ph":"b"`,
		`"name":"dependency","cat":"dependency","ph":"s"`, `"name":"message","cat":"message","ph":"f"`, `"bound to task":2`,
		`"name":"receive from any","cat":"request","ph":"e"`,
		`"name":"barrier","cat":"request","ph":"b"`, `"name":"barrier over"`, `"name":"collective","cat":"collective","ph":"f"`,
		`"name":"window 5: plate"`, `"name":"epoch 2","cat":"window","ph":"X"`, `"bytes":48,"durable":true,"put":1,"window":5`, `"name":"epoch 2 is durable"`,
		`"name":"fence of window 5, epoch 2","cat":"request","ph":"n"`, `"name":"put, rank 1","cat":"operation","ph":"b"`, `"trace events lost":0`,
	} {
		require.Contains(t, text, want)
	}
}

// A collective that fails at a rank has a mark there, and no arrow leads to the mark.
func TestFailedCollective(t *testing.T) {
	file := filepath.Join(t.TempDir(), "failed.weft")
	j, err := journal.Create(file, journal.Head{Rank: -1, Ranks: 1})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{j}})
	require.NoError(t, err)
	var ranks [2]*event.Shared
	for r := range ranks {
		ranks[r] = rec.Shared(event.Location{Kind: event.RankLocation, Group: 1, Index: r})
		ranks[r].Put(event.CollectiveBegun, uint64(r+1), event.CollectiveB(-1, 1, 2), 7)
	}
	ranks[1].Put(event.RequestDone, 2, event.EndedFailed, 0)
	ranks[0].Put(event.RequestDone, 1, 0, 0)
	require.NoError(t, rec.Close())
	var out bytes.Buffer
	require.NoError(t, timeline.Write(&out, file))
	require.NoError(t, timeline.Verify(bytes.NewReader(out.Bytes())))
	require.Equal(t, 1, strings.Count(out.String(), `"name":"barrier failed"`))
	require.Equal(t, 1, strings.Count(out.String(), `"name":"barrier over"`))
	require.Equal(t, 1, strings.Count(out.String(), `"cat":"collective","ph":"f"`))
}

// A cut recording gives a timeline and a picture of its records, and an error.
func TestWriteOfACutTrace(t *testing.T) {
	file := write(t)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, b[:len(b)-20], 0o600)) // the end mark
	var out bytes.Buffer
	require.ErrorIs(t, timeline.Write(&out, file), journal.ErrCut)
	require.NoError(t, timeline.Verify(&out))
	out.Reset()
	require.ErrorIs(t, timeline.Picture(&out, timeline.View{}, file), journal.ErrCut)
	require.Contains(t, out.String(), "</svg>")
}

// Verify finds and names each damage to a timeline.
func TestVerify(t *testing.T) {
	const names = `{"name":"process_name","ph":"M","pid":1,"tid":0},{"name":"thread_name","ph":"M","pid":1,"tid":1},`
	for _, c := range []struct{ doc, want string }{
		{`[]`, "not a JSON object"},
		{`{"traceEvents":[`, "not a JSON object"},
		{`{}`, "there is no array traceEvents"},
		{`{"ph":"X","pid":1,"tid":1}`, "element 0: it lacks name, pid or tid"},
		{`{"name":"a","ph":"X","ts":1,"dur":1,"pid":1,"tid":1}`, "on thread 1 of process 1, which has no name"},
		{names + `{"name":"a","ph":"X","dur":1,"pid":1,"tid":1}`, `element 2: "a" has no time`},
		{names + `{"name":"a","ph":"X","ts":1,"pid":1,"tid":1}`, `slice "a" has no duration`},
		{names + `{"name":"a","ph":"B","ts":1,"pid":1,"tid":1}`, `phase "B"`},
		{names + `{"name":"a","ph":"i","ts":1,"pid":1,"tid":1}`, `mark "a" has the scope ""`},
		{names + `{"name":"a","ph":"X","ts":1,"dur":2,"pid":1,"tid":1},{"name":"b","ph":"X","ts":2,"dur":2,"pid":1,"tid":1}`, `slice "b" from 2000 to 4000 ns ends after "a"`},
		{names + `{"name":"a","cat":"c","id":"1","ph":"b","ts":1,"pid":1,"tid":1}`, "c 1 begins and does not end"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"e","ts":1,"pid":1,"tid":1}`, `"a" of c 1 has not begun`},
		{names + `{"name":"a","cat":"c","id":"1","ph":"b","ts":2,"pid":1,"tid":1},{"name":"a","cat":"c","id":"1","ph":"e","ts":1,"pid":1,"tid":1}`, "is before its beginning"},
		{names + `{"name":"a","cat":"c","ph":"b","ts":2,"pid":1,"tid":1}`, "lacks an id or a category"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"s","ts":2,"pid":1,"tid":1}`, "arrow c 1 has one end"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"f","ts":2,"pid":1,"tid":1}`, "is not bound to the slice around it"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"s","ts":2,"pid":1,"tid":1},{"name":"a","cat":"c","id":"1","ph":"s","ts":2,"pid":1,"tid":1}`, "two ends of one kind"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"s","ts":2,"pid":1,"tid":1},{"name":"a","cat":"c","id":"1","ph":"f","bp":"e","ts":1,"pid":1,"tid":1}`, "ends before it begins"},
		{names + `{"name":"a","cat":"c","id":"1","ph":"s","ts":2,"pid":1,"tid":1},{"name":"a","cat":"c","id":"1","ph":"f","bp":"e","ts":3,"pid":1,"tid":1}`, "where there is no slice"},
	} {
		doc := c.doc
		if strings.HasPrefix(doc, `{"name"`) || strings.HasPrefix(doc, `{"ph"`) {
			doc = `{"traceEvents":[` + doc + "]}"
		}
		err := timeline.Verify(strings.NewReader(doc))
		require.ErrorContains(t, err, c.want, doc)
	}
}
