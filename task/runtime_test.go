// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/internal/race"

	"github.com/stretchr/testify/require"
)

// hangLimit is how long a test may take before it counts as hung. It is far more than the
// slowest test needs on a loaded machine under the race detector.
const hangLimit = 90 * time.Second

// watch ends the process with the stacks of all goroutines when the test hangs: a lost
// wake-up shows here.
func watch(t testing.TB) {
	t.Helper()
	name := t.Name()
	w := time.AfterFunc(hangLimit, func() {
		fmt.Fprintf(os.Stderr, "%s hangs; all goroutines:\n%s\n", name, stacks())
		os.Exit(2)
	})
	t.Cleanup(func() { w.Stop() })
}

func stacks() []byte {
	buf := make([]byte, 1<<22)
	return buf[:runtime.Stack(buf, true)]
}

// openTest opens a runtime. The caller closes it with closeTest.
func openTest(t testing.TB, cfg Config) *Runtime {
	t.Helper()
	rt, err := Open(cfg)
	require.NoError(t, err)
	return rt
}

// closeTest closes rt and waits until no more goroutines exist than base.
func closeTest(t testing.TB, rt *Runtime, base int) {
	t.Helper()
	require.NoError(t, rt.Close())
	settled(t, base)
}

// settled waits until no more than base goroutines exist. Goroutines take a moment to end.
func settled(t testing.TB, base int) {
	t.Helper()
	start := time.Now()
	for runtime.NumGoroutine() > base {
		runtime.Gosched()
		if time.Since(start) > hangLimit/3 {
			t.Fatalf("%d goroutines, but there were %d before:\n%s", runtime.NumGoroutine(), base, stacks())
		}
	}
}

// newTestRuntime opens a runtime that is closed at the end of the test, which also checks that no
// goroutine is left, and starts the watchdog.
func newTestRuntime(t testing.TB, cfg Config) *Runtime {
	t.Helper()
	watch(t)
	if *recordAll && cfg.Trace == nil {
		cfg = recorded(t, cfg)
	}
	base := runtime.NumGoroutine()
	// closed last: runtimes opened later may have started spare goroutines
	outermost := openRuntimes == 0
	openRuntimes++
	rt := openTest(t, cfg)
	t.Cleanup(func() {
		openRuntimes--
		if !t.Failed() && !rt.closing() {
			clean(t, rt)
		}
		require.NoError(t, rt.Close())
		if outermost {
			settled(t, base)
		}
	})
	return rt
}

// closing reports whether Close has been called.
func (rt *Runtime) closing() bool {
	rt.life.mu.Lock()
	defer rt.life.mu.Unlock()
	return rt.life.closed
}

// openRuntimes counts what newTestRuntime opened in the test that runs.
var openRuntimes int

// bg is the context of tests that cancel nothing.
var bg = context.Background()

// until waits for cond. It is for goroutines that hold no slot; in a body it goes
// into Blocking.
func until(cond func() bool) {
	for n := 0; !cond(); n++ {
		if n < 2000 || runtime.GOMAXPROCS(0) == 1 {
			// longer than a slot takes to wake; a sleep would take a millisecond
			runtime.Gosched()
		} else {
			// on a processor that is never idle, Go rarely polls timers and the network
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// notes collects the failed checks of bodies, which run on goroutines that must not call FailNow.
type notes struct {
	mu  sync.Mutex
	bad []string
}

func (n *notes) check(ok bool, format string, args ...any) {
	if ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bad) < 10 {
		n.bad = append(n.bad, fmt.Sprintf(format, args...))
	}
}

func (n *notes) require(t testing.TB) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	require.Empty(t, n.bad)
}

// panicOf returns what f panics with, as text; "" if it does not.
func panicOf(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

// contains reports whether s has all parts.
func contains(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// skipInLintMode skips a test that does not work in lint mode, and says why.
func skipInLintMode(t testing.TB, why string) {
	t.Helper()
	if inLintMode() {
		t.Skip("not in lint mode: " + why)
	}
}

// inLintMode is also true if lint mode is off in a build for it: there, too, the runtime shows the
// race detector the order of bodies explicitly.
func inLintMode() bool { return race.Lint }
