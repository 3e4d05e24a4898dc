// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What bodies on slots block in is told of so many slots, each with its task and its stack, also
// among many other goroutines.
func TestSlotsAreDescribed(t *testing.T) {
	skipInLintMode(t, "bodies have goroutines of their own")
	others := make(chan int)
	var gone sync.WaitGroup
	for range 400 {
		gone.Go(func() { <-others })
	}
	for _, slots := range []int{1, maxBlockedSlots - 1, maxBlockedSlots, maxBlockedSlots + 1, maxBlockedSlots + 2} {
		rt := newTestRuntime(t, Config{Workers: slots})
		gate := make(chan int)
		var in sync.WaitGroup
		in.Add(slots)
		over := make(chan error)
		go func() {
			over <- rt.Run(bg, func(t *Task) error {
				for i := range slots - 1 {
					t.SpawnWith(Attrs{Label: fmt.Sprint("body ", i)}, func(*Task) error { in.Done(); <-gate; return nil })
				}
				in.Done()
				<-gate
				return nil
			})
		}()
		in.Wait()
		until(rt.still.bodiesBlocked)

		lines := rt.describeSlots()
		shown := min(slots, maxBlockedSlots)
		require.Len(t, lines, shown+min(slots-shown, 1))
		all, labels := strings.Join(lines, "\n"), 0
		for i, l := range lines[:shown] {
			require.True(t, contains(l, fmt.Sprintf("the body on slot %d, of task ", i), ", [chan receive", "TestSlotsAreDescribed", "standstill_report_test.go:"), l)
			labels += strings.Count(l, `, of task "body `)
		}
		require.GreaterOrEqual(t, labels, shown-1)
		require.Equal(t, slots > shown, strings.HasSuffix(all, "\nand more"), all)

		w := &rt.still
		for _, ready := range []bool{false, true} {
			w.mu.Lock()
			w.view()
			w.since = time.Now()
			text := w.describe(w.since.Add(2*time.Second), ready)
			w.mu.Unlock()
			require.Equal(t, ready, strings.HasPrefix(text, "weft: tasks are ready, and no slot takes them: for 2s the body on "+eachOf(slots)+" has been blocked:\n"), text)
			require.Equal(t, !ready, strings.HasPrefix(text, "weft: no slot is free: for 2s the body on "), text)
			require.Equal(t, shown, strings.Count(text, "\n  slot "), text)
			require.Equal(t, shown, strings.Count(text, ", [chan receive"), text)
			require.Equal(t, slots > shown, strings.Contains(text, fmt.Sprintf("\n  and %d more\n", slots-shown)), text)
		}
		close(gate)
		require.NoError(t, <-over)
		w.mu.Lock()
		require.Empty(t, w.describeStill(), "of bodies that are over")
		w.mu.Unlock()
	}
	close(others)
	gone.Wait()
	require.Equal(t, "the only slot", eachOf(1))
	require.Equal(t, "each of the 2 slots", eachOf(2))
}

// A runtime with a watchdog looks several times within the watchdog's limit. With or without one, it
// looks as often as the search for deadlocks needs.
func TestTimesOfStandstills(t *testing.T) {
	for _, row := range []struct{ watchdog, deadlock, period, limit time.Duration }{
		{-1, 0, standPeriod, standLimit},
		{-1, time.Second, 50 * time.Millisecond, standLimit},
		{time.Millisecond, 0, time.Millisecond, time.Millisecond},
		{time.Second, 0, 250 * time.Millisecond, time.Second},
		{time.Second, 2 * time.Second, 100 * time.Millisecond, time.Second},
		{time.Hour, 0, standPeriod, time.Hour},
	} {
		rt, err := open(Config{Workers: 1, Watchdog: row.watchdog, Reports: io.Discard}, tuning{deadlock: row.deadlock})
		require.NoError(t, err)
		rt.still.mu.Lock()
		require.Equal(t, row.period, rt.still.period, "%+v", row)
		require.Equal(t, row.limit, rt.still.limit, "%+v", row)
		rt.still.mu.Unlock()
		require.NoError(t, rt.Close())
	}
}

// describeStill is describe of a view whose slots have no task any more.
func (w *standstill) describeStill() string {
	last := make([]slotView, len(w.rt.slots.all))
	for i := range last {
		last[i].cur = &Task{label: "gone"}
	}
	w.last = last
	return w.describe(time.Now(), false)
}

// A stack is told by its state and the functions from where it blocks, without those of Go's, down
// to the body.
func TestWriteStack(t *testing.T) {
	frames := func(names ...string) (l []string) {
		for i, n := range names {
			l = append(l, n+"(0x1)", fmt.Sprintf("\t/src/f.go:%d +0x2f", i))
		}
		return append(l, "weft/task.(*Task).callHere(0x2)", "\t/src/task.go:1 +0x1") // what calls the body
	}
	text := func(lines []string) string {
		var b strings.Builder
		writeStack(&b, lines)
		return b.String()
	}
	at := func(i int, n string) string { return fmt.Sprintf("    %s(0x1)\n        /src/f.go:%d\n", n, i) }
	require.Equal(t, "\n", text(nil))
	require.Equal(t, ", [select, 3 minutes]\n"+at(2, "p.wait")+at(3, "p.body"), text(append([]string{"goroutine 5 gp=0x1 [select, 3 minutes]:"},
		frames("runtime.gopark", "internal/poll.wait", "p.wait", "p.body")[:8]...)))
	many := frames("p.a", "p.b", "p.c", "p.d", "p.e", "p.body")[:12]
	require.Equal(t, ", x\n"+at(0, "p.a")+at(1, "p.b")+at(2, "p.c")+at(3, "p.d")+at(5, "p.body"), text(append([]string{"x"}, many...)))
	require.Equal(t, ", ]x[\n"+at(0, "p.a"), text(append([]string{"]x["}, frames("p.a")[:2]...)))

	// The stack is found by the task, or by the body's function; once.
	var l bodies
	for _, task := range []string{"0x10", "0x20", "0x30"} {
		l = append(l, []string{"goroutine", "p.wait(0x1)", "\t/f", "p.body" + task + "(0x1)", "\t/f", "calls(" + task + ")", "\t/f", "below(1)", "\t/f"})
	}
	want := func(i int) []string { return append([]string(nil), l[i][:5]...) }
	w := want(1)
	require.Equal(t, w, l.take("calls(0x20", "p.none", "calls("))
	require.Nil(t, l.take("calls(0x20", "p.none", "calls("))
	w = want(2)
	require.Equal(t, w, l.take("calls(0x99", "p.body0x30", "calls("))
	require.Nil(t, l.take("calls(0x99", "p.wait", "calls("))
	require.NotNil(t, l.take("calls(0x10", "", "calls("))
}
