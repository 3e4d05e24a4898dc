// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event/timeline"
)

func init() {
	programs["talk"] = func() error { return talkProgram(false) }
	programs["talk, then one is killed"] = func() error { return talkProgram(true) }
}

// talkProgram passes a number around ten times. With kill, rank 1 then kills itself.
func talkProgram(kill bool) error {
	return comm.Main(context.Background(), comm.Config{}, func(c *comm.Comm) error {
		n := make([]int, 1)
		for range 10 {
			if _, err := c.Sendrecv(comm.Of([]int{c.Rank()}), (c.Rank()+1)%c.Size(), 3, comm.Of(n), (c.Rank()+c.Size()-1)%c.Size(), 3); err != nil {
				return err
			}
		}
		if kill {
			time.Sleep(400 * time.Millisecond) // so that every rank has written something
			if err := c.Barrier(); err != nil {
				return err
			}
			if c.Rank() == 1 {
				me, err := os.FindProcess(os.Getpid())
				if err != nil {
					return err
				}
				return me.Kill()
			}
			return c.Barrier()
		}
		return nil
	})
}

// view is a timeline as a viewer decodes it.
type view struct {
	Events []struct {
		Name, Cat, Ph, ID string
		Pid               int
		Ts                float64
		Args              map[string]any
	} `json:"traceEvents"`
	Other map[string]any `json:"otherData"`
}

func readView(t *testing.T, file string) (v view) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, timeline.Verify(strings.NewReader(string(text))))
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}

// arrows counts the messages between processes of a timeline, by the processes' names.
func (v view) arrows() map[string]int {
	names, from, n := map[int]string{}, map[string]int{}, map[string]int{}
	for _, e := range v.Events {
		switch {
		case e.Name == "process_name":
			names[e.Pid] = e.Args["name"].(string)
		case e.Cat == "message" && e.Ph == "s":
			from[e.ID] = e.Pid
		case e.Cat == "message" && e.Ph == "f":
			n[names[from[e.ID]]+" > "+names[e.Pid]]++
		}
	}
	return n
}

// One timeline for all ranks, with messages between processes as arrows.
func TestRunMakesOneTimeline(t *testing.T) {
	me, dir := os.Args[0], t.TempDir()
	file := filepath.Join(dir, "run.json")
	stale := filepath.Join(dir, "run.rank2.json.weft") // of an earlier run
	require.NoError(t, os.WriteFile(stale, []byte("stale"), 0o600))
	r := self(t, "", "run", "-n", "3", "-trace", file, "-env", "WEFT_FABRIC=tcp", me, "--role", "talk")
	require.Zero(t, r.status, r.errOut)
	require.Empty(t, r.errOut)
	want := map[string]int{"rank 0: messages > rank 1: messages": 10, "rank 1: messages > rank 2: messages": 10, "rank 2: messages > rank 0: messages": 10}
	require.Equal(t, want, readView(t, file).arrows())

	// The recordings are next to the timeline, for other commands.
	r = weft("trace", "check", dir)
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `^\d+ trace events, all legal\n$`, r.out)
	again := filepath.Join(dir, "again.json")
	r = weft("trace", "timeline", "-o", again, filepath.Join(dir, "run.rank[0-9].json.weft"))
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, want, readView(t, again).arrows())
	svg := filepath.Join(t.TempDir(), "run.svg")
	r = weft("trace", "picture", "-o", svg, dir)
	require.Zero(t, r.status, r.errOut)
	drawn, err := os.ReadFile(svg)
	require.NoError(t, err)
	require.Contains(t, string(drawn), "rank 1")
	r = weft("trace", "picture", "--from", "1h", dir)
	require.NotZero(t, r.status)
	require.Contains(t, r.errOut, "timeline: nothing to show")
	require.NoError(t, os.Remove(filepath.Join(dir, "run.rank1.json.weft")))
	r = weft("trace", "timeline", "-o", again, dir)
	require.Zero(t, r.status, r.errOut)
	require.Equal(t, "weft trace: there is no recording of rank 1 of 3\n", r.errOut)
	require.Equal(t, r.errOut, weft("trace", "check", dir).errOut)
	require.Equal(t, map[string]int{"rank 2: messages > rank 0: messages": 10}, readView(t, again).arrows())
	require.Equal(t, []any{1.0}, readView(t, again).Other["ranks without a recording"])

	// Recordings only.
	r = self(t, "", "run", "-n", "2", "-trace", filepath.Join(dir, "only.weft"), me, "--role", "talk")
	require.Zero(t, r.status, r.errOut)
	require.FileExists(t, filepath.Join(dir, "only.rank1.weft"))
	require.NoFileExists(t, filepath.Join(dir, "only.weft"))
}

// An output never replaces one of its recordings, nor a file that is not regular.
func TestTraceOutput(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		r := self(t, "", "run", "-n", "2", "-trace", filepath.Join(dir, name+".weft"), os.Args[0], "--role", "talk")
		require.Zero(t, r.status, r.errOut)
	}
	a0, b1 := filepath.Join(dir, "a.rank0.weft"), filepath.Join(dir, "b.rank1.weft")
	before, err := os.ReadFile(a0)
	require.NoError(t, err)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(a0, link))
	for _, file := range []string{a0, link} {
		for _, what := range []string{"timeline", "picture"} {
			r := weft("trace", what, "-o", file, a0)
			require.Equal(t, exitUsage, r.status)
			require.Contains(t, r.errOut, "the output "+file+" is one of the recordings; use another name")
		}
	}
	after, err := os.ReadFile(a0)
	require.NoError(t, err)
	require.Equal(t, before, after)

	device := filepath.Join(dir, "device") // a link, so that a mistake here removes the link only
	require.NoError(t, os.Symlink(os.DevNull, device))
	r := weft("trace", "timeline", "-o", device, a0)
	require.Zero(t, r.status, r.errOut)
	st, err := os.Stat(device)
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&os.ModeDevice)

	r = weft("trace", "check", a0, a0)
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, "it is the same file as "+a0)

	r = weft("trace", "timeline", "-o", filepath.Join(dir, "mixed.json"), a0, b1)
	require.Zero(t, r.status, r.errOut)
	require.Regexp(t, `^weft trace: \S+a.rank0.weft and \S+b.rank1.weft were started by different launchers \(jobs weft-job-\w+ and weft-job-\w+\): if these did not make one job`, r.errOut)
}

// The recording of a killed rank has its records up to then, and the others' are whole. The exit
// status is that of the job.
func TestRunMakesATimelineOfAFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	r := self(t, "", "run", "-n", "3", "-trace", file, "-grace", "1m", os.Args[0], "--role", "talk, then one is killed")
	require.Equal(t, 137, r.status, r.errOut)
	require.Regexp(t, `(?m)^weft run: the timeline has only a part of .*run\.rank1\.json\.weft: at byte \d+ of the trace: cut short`, r.errOut)
	require.Equal(t, map[string]int{"rank 0: messages > rank 1: messages": 10, "rank 1: messages > rank 2: messages": 10, "rank 2: messages > rank 0: messages": 10},
		readView(t, file).arrows())
}

func TestRunTracesWhatCanBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.json")
	script := `[ $WEFT_RANK = 1 ] || : >"${WEFT_TRACE%.json.weft}.rank$WEFT_RANK.json.weft"`
	r := self(t, "", "run", "-n", "2", "-trace", file, "sh", "-c", script)
	require.Equal(t, exitFailure, r.status)
	require.Contains(t, r.errOut, "weft run: rank 0 is not in the timeline: "+filepath.Join(dir, "run.rank0.json.weft")+" is empty: the process ended before")
	require.Contains(t, r.errOut, "weft run: rank 1 is not in the timeline: "+filepath.Join(dir, "run.rank1.json.weft")+" does not exist")
	require.Contains(t, r.errOut, "no rank has recorded anything, so there is no timeline "+file)
	require.NoFileExists(t, file)
	r = self(t, "", "run", "-trace", file, "sh", "-c", "exit 5")
	require.Equal(t, 5, r.status)
	r = self(t, "", "run", "-trace", filepath.Join(dir, "none", "run.json"), "true")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.errOut, "there is no directory "+filepath.Join(dir, "none"))
	r = self(t, "", "run", "-trace", dir, "true")
	require.Equal(t, exitUsage, r.status)
	require.Contains(t, r.errOut, "-trace "+dir+": it is a directory; legal is the name of a file, such as "+filepath.Join(dir, "run.json"))

	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"check", filepath.Join(dir, "nothing.weft")}, "nothing.weft: no such file"},
		{[]string{"check", filepath.Join(dir, "x*.weft")}, "x*.weft: no file matches"},
		{[]string{"timeline", t.TempDir()}, "has no recordings (files *.weft)"},
	} {
		r := weft(append([]string{"trace"}, row.args...)...)
		require.Equal(t, exitFailure, r.status)
		require.Contains(t, r.errOut, row.want)
	}
}
