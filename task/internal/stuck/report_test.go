// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stuck

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/leaktest"
	"weft/task/internal/sched"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }

// fakeHost is a runtime whose bodies the test starts.
type fakeHost struct {
	mu      sync.Mutex
	tasks   []*fakeTask // by slot
	idle    bool
	waiting bool
	inVain  bool
	failed  []error
	reports []string
}

type fakeTask struct{ name string }

func (h *fakeHost) Task(slot int) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tasks[slot] == nil {
		return nil
	}
	return h.tasks[slot]
}

func (h *fakeHost) Describe(task any) Body {
	x := task.(*fakeTask)
	return Body{Name: x.name, Func: "no such function", Addr: fmt.Sprintf("%p", x)}
}
func (h *fakeHost) Seen(int, any) {}
func (h *fakeHost) Idle() bool    { return h.idle }
func (h *fakeHost) Waiting() bool { return h.waiting }
func (h *fakeHost) InVain() bool  { return h.inVain }
func (h *fakeHost) Waits() []string {
	return []string{"a task waits"}
}

func (h *fakeHost) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = append(h.failed, err)
}

func (h *fakeHost) Report(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, text)
}

// silent ignores the calls of the fake runtime's scheduler.
type silent struct{}

func (silent) Poll(*sched.Slot) bool                        { return false }
func (silent) Stole(_, _ *sched.Slot, _ *chain.Node, _ int) {}
func (silent) Parks(*sched.Slot, bool)                      {}
func (silent) Unparks(*sched.Slot)                          {}
func (silent) Wakes()                                       {}

// callBody calls bodies here.
//
//go:noinline
func callBody(t *fakeTask, body func()) {
	body()
	runtime.KeepAlive(t)
}

// watchSlots returns a watch of a fake runtime whose timer does not run.
func watchSlots(t *testing.T, slots int) (*Watch, *fakeHost, *sched.Scheduler) {
	list := make([]*sched.Slot, slots)
	for i := range list {
		list[i] = new(sched.Slot)
	}
	q := new(sched.Scheduler)
	q.Init(silent{}, list, 0, 0)
	t.Cleanup(q.Free)
	h := &fakeHost{tasks: make([]*fakeTask, slots)}
	w := &Watch{host: h, sched: q, cfg: Config{Slots: slots, Calls: CodeAt(reflect.ValueOf(callBody).Pointer())}}
	w.dead.open(w, 0)
	return w, h, q
}

// Reports of blocked bodies list at most maxBlockedSlots slots, each with its task and its stack,
// also among many other goroutines.
func TestSlotsAreDescribed(t *testing.T) {
	others := make(chan int)
	var gone sync.WaitGroup
	for range 400 {
		gone.Go(func() { <-others })
	}
	for _, slots := range []int{1, maxBlockedSlots - 1, maxBlockedSlots, maxBlockedSlots + 1, maxBlockedSlots + 2} {
		w, h, _ := watchSlots(t, slots)
		require.Empty(t, w.Slots(), "no body runs")
		gate := make(chan int)
		var in, out sync.WaitGroup
		for i := range slots {
			h.tasks[i] = &fakeTask{fmt.Sprint("body ", i)}
			in.Add(1)
			out.Go(func() { callBody(h.tasks[i], func() { in.Done(); <-gate }) })
		}
		in.Wait()
		for !w.BodiesBlocked() {
			runtime.Gosched()
		}
		lines := w.Slots()
		shown := min(slots, maxBlockedSlots)
		require.Len(t, lines, shown+min(slots-shown, 1))
		for i, l := range lines[:shown] {
			for _, part := range []string{fmt.Sprintf("the body on slot %d, of body %d, [chan receive", i, i), "TestSlotsAreDescribed", "report_test.go:"} {
				require.Contains(t, l, part)
			}
		}
		require.Equal(t, slots > shown, lines[len(lines)-1] == "and more")
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
		out.Wait()
		w.mu.Lock()
		h.tasks[slots-1] = &fakeTask{"another"}
		require.Empty(t, w.describe(time.Now(), false), "another body runs on one of the slots")
		w.mu.Unlock()
	}
	close(others)
	gone.Wait()
	require.Equal(t, "the only slot", eachOf(1))
	require.Equal(t, "each of the 2 slots", eachOf(2))
}

// A body that computes is not blocked.
func TestBodiesBlocked(t *testing.T) {
	w, _, _ := watchSlots(t, 1)
	require.True(t, w.BodiesBlocked(), "there is none")
	var stop atomic.Bool
	over := make(chan int)
	go callBody(nil, func() {
		defer close(over)
		for !stop.Load() {
		}
	})
	for w.BodiesBlocked() {
		runtime.Gosched()
	}
	stop.Store(true)
	<-over
}

// A watch with a limit makes several checks within it. Each watch also checks as often as the
// detection of deadlocks needs.
func TestTimes(t *testing.T) {
	for _, row := range []struct{ watchdog, deadlock, period, limit time.Duration }{
		{0, 0, standPeriod, standLimit},
		{0, time.Second, 50 * time.Millisecond, standLimit},
		{time.Millisecond, 0, time.Millisecond, time.Millisecond},
		{time.Second, 0, 250 * time.Millisecond, time.Second},
		{time.Second, 2 * time.Second, 100 * time.Millisecond, time.Second},
		{time.Hour, 0, standPeriod, time.Hour},
	} {
		made, h, q := watchSlots(t, 1)
		w := new(Watch)
		w.Wakes() // does nothing before Open
		require.False(t, w.Armed())
		w.Open(h, q, Config{Slots: 1, Watchdog: row.watchdog, Deadlock: row.deadlock, Calls: made.cfg.Calls})
		require.Equal(t, row.period, w.period, "%+v", row)
		require.Equal(t, row.limit, w.limit, "%+v", row)
		require.True(t, w.Armed())
		w.Close()
	}
}

// A report of a stack has its state, and the functions from where it blocks down to the body,
// without functions of Go's runtime.
func TestWriteStack(t *testing.T) {
	frames := func(names ...string) (l []string) {
		for i, n := range names {
			l = append(l, n+"(0x1)", fmt.Sprintf("\t/src/f.go:%d +0x2f", i))
		}
		// the function that calls the body
		return append(l, "weft/task.(*Task).callHere(0x2)", "\t/src/task.go:1 +0x1")
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

	// A stack is found by the task, or by the body's function, and only once.
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
