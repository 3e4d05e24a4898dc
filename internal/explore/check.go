//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"flag"
	"testing"
	"time"
)

var (
	replayFlag = flag.String("explore.replay", "", "run only this script, as a failure prints it; name the test with -run")
	bigFlag    = flag.Bool("explore.big", false, "explore the larger bounds too; takes minutes")
)

// Big reports whether -explore.big is set.
func Big() bool { return *bigFlag }

// Test explores the program. It fails with the schedule of the first failure, or if there are more
// orders than cfg.MaxRuns. With -explore.replay it runs one order only.
func Test(t testing.TB, cfg Config, setup func(*Run)) Result {
	t.Helper()
	if *replayFlag != "" {
		f, err := Replay(*replayFlag, setup)
		must(t, err)
		if f != nil {
			t.Fatal(f)
		}
		return Result{Runs: 1}
	}
	began := time.Now()
	res := Explore(cfg, setup)
	if res.Failure != nil {
		t.Fatalf("order %d: %v", res.Runs, res.Failure)
	}
	t.Logf("%v; %v", res, time.Since(began).Round(time.Millisecond))
	if !res.Complete {
		t.Fatal("the limit of orders is too small")
	}
	return res
}

// TestSome is Test if some is zero or -explore.big is set. Otherwise it runs that many random
// orders, since all would be too many, and none with -short.
func TestSome(t testing.TB, some int, setup func(*Run)) {
	t.Helper()
	if some == 0 || Big() {
		Test(t, Config{}, setup)
		return
	}
	if testing.Short() {
		t.Skip("by chance")
	}
	res := Random(Config{}, 1, some, setup)
	if res.Failure != nil {
		t.Fatalf("order %d: %v", res.Runs, res.Failure)
	}
	t.Log(res)
}

// runsMax is a limit for programs that turn out larger than expected.
const runsMax = 5_000_000

// TestWithin is Test with a bound: if bound is not zero, it runs only the orders with fewer
// preemptions than bound, and none with -short. With big, it runs only with -explore.big.
func TestWithin(t testing.TB, bound int, big bool, setup func(*Run)) {
	t.Helper()
	if big && !Big() || bound > 0 && testing.Short() {
		t.Skip("large")
	}
	Test(t, Config{Bound: bound, MaxRuns: runsMax}, setup)
}
