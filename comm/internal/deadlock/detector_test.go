// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is a Host whose inspections a test sets. The test makes the ticks.
type script struct {
	w           *Detector
	now         time.Time
	activity    int64
	compares    bool
	inspection  *Inspection
	inspections int
	calls       []string // since the last call of take
}

func newScript(self, processes, warnings int) *script {
	x := &script{now: time.Now(), activity: 1}
	x.w = New(x, self, processes, warnings, time.Second)
	return x
}

func (x *script) Activity() int64      { return x.activity }
func (x *script) Compare() bool        { return x.compares }
func (x *script) Inspect() *Inspection { x.inspections++; return x.inspection }
func (x *script) Remains()             { x.record("remains") }
func (x *script) SendQuery(query uint64) {
	x.record("query %d", query)
}
func (x *script) SendReport(query uint64, inspection *Inspection) {
	switch {
	case inspection == nil:
		x.record("%d active", query)
	case inspection.Certain:
		x.record("%d blocked", query)
	default:
		x.record("%d suspects", query)
	}
}
func (x *script) Warn(n int, waits []string, lasts time.Duration) {
	x.record("warning %d for %v: %s", n, lasts, strings.Join(waits, ", "))
}
func (x *script) Suspect(waits []string, lasts time.Duration) {
	x.record("suspicion for %v: %s", lasts, strings.Join(waits, ", "))
}
func (x *script) End(waits []string, lasts time.Duration) {
	x.record("deadlock for %v: %s", lasts, strings.Join(waits, ", "))
}

func (x *script) record(format string, args ...any) {
	x.calls = append(x.calls, fmt.Sprintf(format, args...))
}

func (x *script) take() []string {
	calls := x.calls
	x.calls = nil
	return calls
}

// tick makes a tick so much later, and has queries answered at once.
func (x *script) tick(after time.Duration) []string {
	x.now = x.now.Add(after)
	x.w.tick(x.now)
	for len(x.w.queries) > 0 {
		x.w.answerQuery(<-x.w.queries)
	}
	return x.take()
}

var (
	sure   = &Inspection{Certain: true, Waits: []string{"rank 0 waits", "a task waits"}}
	unsure = &Inspection{Waits: []string{"rank 0 waits", "that may act: x"}}
)

// A deadlock ends the run after the configured number of warnings. Each call has the time without
// activity. Activity starts the sequence again. While ranks compare their collectives there is no
// inspection. Remains is called once.
func TestDeadlock(t *testing.T) {
	for warnings := range 3 {
		x := newScript(0, 1, warnings)
		x.inspection = sure
		for turn := range 2 {
			require.Empty(t, x.tick(time.Second), "something has happened")
			for i := range warnings {
				require.Equal(t, []string{fmt.Sprintf("warning %d for %ds: rank 0 waits, a task waits", i+1, i+1)}, x.tick(time.Second))
			}
			require.Equal(t, (turn+1)*warnings, x.inspections)
			if turn == 0 {
				x.compares = true
				require.Empty(t, x.tick(time.Second))
				require.Equal(t, warnings, x.inspections)
				x.compares = false
				x.activity++
			}
		}
		require.Equal(t, []string{"query 1", fmt.Sprintf("deadlock for %ds: rank 0 waits, a task waits", warnings+1)}, x.tick(time.Second))
		inspections := x.inspections
		require.Equal(t, 2*warnings+2, inspections, "the query was one more inspection")
		x.activity++
		require.Equal(t, []string{"remains"}, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Equal(t, inspections, x.inspections, "it has ended")
	}
}

// Activity, or a change, between the report and the answer refutes the deadlock.
func TestActivityMeanwhile(t *testing.T) {
	for name, event := range map[string]func(x *script){
		"something has happened": func(x *script) { x.activity++ },
		"something may go on":    func(x *script) { x.inspection = nil },
	} {
		x := newScript(0, 1, 0)
		x.inspection = sure
		x.w.tick(x.now)
		x.w.tick(x.now.Add(time.Second))
		require.Equal(t, []string{"query 1"}, x.take())
		event(x)
		x.w.answerQuery(<-x.w.queries)
		require.Empty(t, x.take(), name)
		require.False(t, x.w.reported)
	}
}

// A suspicion is reported after three uncertain inspections in a row, once in a run. Later
// inspections come at growing intervals, up to a minute. Activity and other results start the count
// again.
func TestSuspicion(t *testing.T) {
	x := newScript(0, 1, 0)
	require.Empty(t, x.tick(time.Second))
	for range 2 { // two in a row are not enough
		x.inspection = unsure
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Equal(t, 2, x.w.suspicions)
		x.inspection = nil
		require.Empty(t, x.tick(time.Second))
		require.Zero(t, x.w.suspicions)
	}
	x.inspection = unsure
	x.tick(time.Second)
	x.tick(time.Second)
	x.activity++
	require.Empty(t, x.tick(time.Second))
	require.Zero(t, x.w.suspicions)
	for i := 1; i < suspicionsUntil; i++ {
		require.Empty(t, x.tick(time.Second))
	}
	require.Equal(t, []string{"query 1", "suspicion for 3s: rank 0 waits, that may act: x"}, x.tick(time.Second))
	require.True(t, x.w.next.IsZero(), "the next inspection comes at the next tick")
	for i := 1; i <= 8; i++ {
		inspections := x.inspections
		if i > 1 {
			x.tick(x.w.next.Sub(x.now) - 1)
			require.Equal(t, inspections, x.inspections, "it is too soon by a moment")
		}
		require.Equal(t, []string{fmt.Sprint("query ", i+1)}, x.tick(1), "once in a run")
		require.Equal(t, inspections+2, x.inspections)
		require.Equal(t, time.Second<<min(i, 6), x.w.next.Sub(x.now))
	}
	x.activity++
	x.tick(time.Millisecond)
	require.True(t, x.w.next.IsZero())
	x.inspection = sure
	require.Contains(t, x.tick(time.Second), "deadlock for 1s: rank 0 waits, a task waits", "the suspicion has become certain")
}

// Another process reports to the first one at each inspection that finds it blocked, after three
// for a suspicion, and that it is active if its last report said otherwise.
func TestOtherProcess(t *testing.T) {
	x := newScript(1, 3, 0)
	step := func(inspection *Inspection, active bool, want ...string) {
		t.Helper()
		if x.inspection = inspection; active {
			x.activity++
		}
		require.Equal(t, want, x.tick(10*time.Minute))
	}
	step(nil, false)
	step(nil, false)
	step(sure, false, "0 blocked")
	step(sure, false, "0 blocked")
	step(sure, true, "0 active")
	step(sure, false, "0 blocked")
	step(nil, false, "0 active")
	step(nil, false)
	step(unsure, false)
	step(unsure, false)
	step(unsure, false, "0 suspects")
	step(unsure, false, "0 suspects")
	step(sure, false, "0 blocked")
	step(nil, false, "0 active")
	x.w.HandleQuery(1)
	x.w.HandleQuery(2) // only the newest query is answered
	step(sure, false, "0 blocked", "2 blocked")
	x.w.HandleQuery(3)
	step(sure, true, "0 active", "3 blocked")
	x.w.HandleReport(2, 3, sure)
	require.Empty(t, x.w.reports, "only the first process takes reports")
	require.Empty(t, x.w.arrived)
}

// The first process sends a query when all processes are blocked and no frame is under way. When
// all answer the same, the run ends, or a suspicion is logged once.
func TestFirstProcess(t *testing.T) {
	for _, certain := range []bool{true, false} {
		x := newScript(0, 3, 0)
		x.inspection = &Inspection{Certain: true, Waits: []string{"0 waits"}, Sent: 5, Here: 3}
		report := func(process int, query uint64, f *Inspection) []string {
			t.Helper()
			x.w.HandleReport(process, query, f)
			require.Len(t, x.w.arrived, 1)
			<-x.w.arrived
			x.w.gatherReports()
			return x.take()
		}
		one, two := &Inspection{Certain: true, Waits: []string{"1 waits"}, Sent: 4, Here: 4}, &Inspection{Certain: certain, Waits: []string{"2 waits"}, Sent: 2, Here: 4}
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, x.tick(time.Second))
		require.Empty(t, report(1, 0, one))
		require.Empty(t, report(2, 0, &Inspection{Certain: certain, Waits: []string{"2 waits"}, Sent: 2, Here: 3}), "11 sent, 10 taken")
		require.Empty(t, x.w.queries)
		require.Equal(t, []string{"query 1"}, report(2, 0, two))
		require.Empty(t, report(1, 1, one))
		x.w.answerQuery(<-x.w.queries)
		require.Empty(t, x.take())
		if certain {
			require.Equal(t, []string{"deadlock for 1s: 0 waits, 1 waits, 2 waits"}, report(2, 1, two))
			require.Equal(t, []string{"remains"}, x.tick(time.Second))
			require.Equal(t, []string{"query 2"}, report(2, 0, two))
			report(1, 2, one)
			report(2, 2, two)
			x.w.answerQuery(<-x.w.queries)
			require.Empty(t, x.take(), "it has ended")
			continue
		}
		require.Equal(t, []string{"suspicion for 1s: 0 waits, 1 waits, 2 waits"}, report(2, 1, two))
		require.Equal(t, []string{"query 2"}, report(2, 0, two), "and all once more")
		x.w.answerQuery(<-x.w.queries)
		require.Empty(t, report(1, 2, one))
		require.Empty(t, report(2, 2, two), "once in a run")
		require.Empty(t, report(1, 0, nil))
		require.Nil(t, x.w.quorum.all[1])
	}
}
