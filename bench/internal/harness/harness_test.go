// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scripted returns a peer whose samples are the given values, and which writes its name to log at
// every sample.
func scripted(name string, log *[]string, values ...float64) Peer {
	return Peer{Name: name, Open: func(context.Context, Params) (Probe, error) {
		next := 0
		return Probe{Sample: func(context.Context) (float64, error) {
			*log = append(*log, name)
			next++
			return values[(next-1)%len(values)], nil
		}}, nil
	}}
}

func one(peers ...Peer) []Workload {
	return []Workload{{Name: "a/b", Unit: "ns", Sizes: []int64{7}, Quick: []int64{1}, Peers: peers}}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		samples          []float64
		median, min, max float64
	}{
		{[]float64{3}, 3, 3, 3},
		{[]float64{3, 1}, 2, 1, 3},
		{[]float64{9, 1, 5}, 5, 1, 9},
		{[]float64{4, 9, 1, 2}, 3, 1, 9},
	} {
		var r Row
		r.Summarize(c.samples)
		require.Equal(t, Row{Median: c.median, Min: c.min, Max: c.max, Runs: len(c.samples)}, r)
	}
}

func TestPeersTakeTurns(t *testing.T) {
	var log []string
	plan := NewPlan(one(scripted("weft", &log, 100, 1, 2, 3), scripted("other", &log, 100, 4, 5, 6)),
		Config{Workers: []int{1}, Reps: 3})
	rep, err := plan.Run(t.Context(), Observer{})
	require.NoError(t, err)
	require.False(t, rep.Failed)
	require.Equal(t, strings.Fields("other weft other weft other weft other weft"), log)
	require.Equal(t, []Row{
		{Name: "a/b", Peer: "weft", Workers: 1, Ranks: 1, Size: 7, Unit: "ns", Median: 2, Min: 1, Max: 3, Runs: 3, OK: true},
		{Name: "a/b", Peer: "other", Workers: 1, Ranks: 1, Size: 7, Unit: "ns", Median: 5, Min: 4, Max: 6, Runs: 3, OK: true},
	}, rep.Rows)

	var out bytes.Buffer
	require.NoError(t, NewTable(&out, plan).Group(rep.Rows, Workload{}))
	require.Equal(t, strings.Join([]string{
		"name  size  ranks  workers  peer       median         min         max  runs  unit  weft/peer  ok",
		"a/b      7      1        1  weft        2.000       1.000       3.000     3  ns            -  ok",
		"a/b      7      1        1  other       5.000       4.000       6.000     3  ns        0.400  ok",
		"",
	}, "\n"), out.String())

	out.Reset()
	require.NoError(t, WriteMarkdown(&out, rep.Rows))
	require.Contains(t, out.String(), "\n| a/b | 7 | 1 | 1 | other | 5.000 | 4.000 to 6.000 | 3 | ns | 0.400 | ok |\n")
}

func TestProcsFollowWorkers(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var seen []int
	peer := Peer{Name: "weft", Open: func(_ context.Context, p Params) (Probe, error) {
		require.Equal(t, p.Workers, runtime.GOMAXPROCS(0))
		return Probe{Sample: func(context.Context) (float64, error) {
			seen = append(seen, runtime.GOMAXPROCS(0))
			return 1, nil
		}}, nil
	}}
	_, err := NewPlan(one(peer), Config{Workers: []int{1, 3}, Reps: 1}).Run(t.Context(), Observer{})
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 3, 3}, seen)
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}

func TestBadPeers(t *testing.T) {
	failing := func(name string, err error) Peer {
		return Peer{Name: name, Open: func(context.Context, Params) (Probe, error) {
			return Probe{Sample: func(context.Context) (float64, error) { return 5, err }}, nil
		}}
	}
	var log []string
	good := scripted("weft", &log, 1)
	skip := Peer{Name: "skip", Open: func(context.Context, Params) (Probe, error) { return Probe{}, Skip("no such tool") }}
	panics := Peer{Name: "panics", Open: func(context.Context, Params) (Probe, error) {
		return Probe{Sample: func(context.Context) (float64, error) { panic("oops") }}, nil
	}}
	badClose := Peer{Name: "close", Open: func(context.Context, Params) (Probe, error) {
		return Probe{
			Sample: func(context.Context) (float64, error) { return 1, nil },
			Close:  func() error { return errors.New("still busy") },
		}, nil
	}}
	var failed, skipped []string
	rep, err := NewPlan(one(good, failing("wrong", Wrong("2+2 is %d", 5)), failing("broken", errors.New("no")), skip, panics, badClose),
		Config{Workers: []int{1}, Reps: 2}).Run(t.Context(), Observer{
		Failed:  func(r Row, why error) { failed = append(failed, r.Peer+": "+why.Error()) },
		Skipped: func(r Row, why error) { skipped = append(skipped, r.Peer+": "+why.Error()) },
	})
	require.NoError(t, err)
	require.True(t, rep.Failed)
	require.Equal(t, []string{"skip: skipped: no such tool"}, skipped)
	require.ElementsMatch(t, []string{"panics: panic: oops", "broken: no", "wrong: wrong answer: 2+2 is 5", "close: close: still busy"}, failed)
	ok := map[string]bool{}
	for _, r := range rep.Rows {
		ok[r.Peer] = r.OK
	}
	require.Equal(t, map[string]bool{"weft": true, "wrong": false, "broken": false, "panics": false, "close": false}, ok)
}

func TestBudgetEndsSampling(t *testing.T) {
	var log []string
	slow := scripted("slow", &log, 1)
	rep, err := NewPlan(one(slow), Config{Workers: []int{1}, Reps: 50, Budget: 1}).Run(t.Context(), Observer{})
	require.NoError(t, err)
	require.Equal(t, 1, rep.Rows[0].Runs, "the first sample used the budget up, and counts")
	require.True(t, rep.Rows[0].OK)
}

func TestSelection(t *testing.T) {
	var log []string
	extra := scripted("extra", &log, 1)
	extra.Extra = true
	loads := append(one(scripted("weft", &log, 1), scripted("other", &log, 1), extra), Workload{
		Name: "c/d", Sizes: []int64{1, 2}, Quick: []int64{3}, Ranks: []int{1, 2}, Peers: []Peer{scripted("weft", &log, 1)}})
	count := func(c Config) int {
		c.Workers, c.Reps = []int{1, 2}, 1
		return NewPlan(loads, c).Rows()
	}
	require.Equal(t, 2*2+2*4, count(Config{}))
	require.Equal(t, 2*3+2*4, count(Config{Extra: true}))
	require.Equal(t, 2+2*4, count(Config{Only: []string{"weft"}}))
	require.Equal(t, 2*2, count(Config{Only: []string{"other", "extra"}}))
	require.Equal(t, 2*2, count(Config{Run: regexp.MustCompile("a/")}))
	require.Equal(t, 2*2+2*2, count(Config{Quick: true}))
}

func TestCancelledPlanKeepsCompleteGroups(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	peer := Peer{Name: "weft", Open: func(context.Context, Params) (Probe, error) {
		return Probe{Sample: func(context.Context) (float64, error) {
			if calls++; calls == 3 { // in the second group
				cancel()
			}
			return 1, nil
		}}, nil
	}}
	rep, err := NewPlan(one(peer), Config{Workers: []int{1, 2}, Reps: 1}).Run(ctx, Observer{})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rep.Rows, 1)
}

func TestRepeatFillsTheTime(t *testing.T) {
	n := 0
	total, runs, err := Repeat(t.Context(), 10*time.Millisecond, func() (time.Duration, error) { n++; return 3 * time.Millisecond, nil })
	require.NoError(t, err)
	require.Equal(t, []any{12 * time.Millisecond, 4, 4}, []any{total, runs, n})
}

func TestEmptyJSONIsAnArray(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, nil))
	require.Equal(t, "[]\n", out.String())
}
