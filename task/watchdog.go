// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"weft/internal/waits"
)

// watchdog looks at the tasks of a runtime from time to time, and reports those that are stuck.
type watchdog struct {
	rt    *Runtime
	limit time.Duration
	out   io.Writer
	stop  chan struct{} // closed by close
	done  chan struct{} // closed when the goroutine has ended

	// Owned by the goroutine.
	said map[report]bool
}

// report is what is said once: that a task has waited for one thing for too long, or that a task is in a cycle.
type report struct {
	task  *watched
	since time.Time
	cycle bool
}

// watchLooks is how many looks there are within the limit: a task that is stuck is reported at most so much later.
const watchLooks = 4

const (
	watchLeast = time.Millisecond
	watchMost  = 24 * time.Hour
)

// open starts the watchdog, and close ends it.
func (w *watchList) open(rt *Runtime) {
	d := &w.dog
	d.rt, d.limit, d.out = rt, rt.cfg.Watchdog, rt.cfg.Reports
	d.said = map[report]bool{}
	d.stop, d.done = make(chan struct{}), make(chan struct{})
	go waits.Service(d.loop)()
}

func (w *watchList) close() {
	d := &w.dog
	close(d.stop)
	<-d.done
}

func (d *watchdog) loop() {
	defer close(d.done)
	tick := time.NewTicker(max(d.limit/watchLooks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-tick.C:
			d.look()
		}
	}
}

// look reports what is stuck and has not been reported. What was reported and goes on is forgotten, so a task that is stuck in
// something else later is reported again.
func (d *watchdog) look() {
	snap := d.rt.snapshot(d.limit)
	fresh := false
	now := map[report]bool{}
	for _, i := range snap.stuck {
		x := snap.seen[i]
		key := report{task: x.rec, since: x.stuckSince, cycle: x.inCycle}
		fresh = fresh || !d.said[key]
		now[key] = true
	}
	d.said = now
	if fresh {
		var b strings.Builder
		b.WriteString("weft: watchdog: ")
		snap.describeStuck(&b)
		_, _ = d.out.Write([]byte(b.String()))
	}
}

// Dump writes what the tasks of the runtime are doing: each task that is not over, with its label, where it was spawned, its age, its state and
// what it waits for, and what is stuck. Any goroutine may call it at any time; tasks go on meanwhile. Without a watchdog
// ([Config.Watchdog]) the runtime keeps no list of its tasks, and Dump only says how many slots are at work.
func (rt *Runtime) Dump(w io.Writer) error {
	var b strings.Builder
	rt.dump(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (rt *Runtime) dump(b *strings.Builder) {
	idle := int(rt.idle.parked.Load())
	fmt.Fprintf(b, "weft: a task runtime with %s, of which %s\n", plural(rt.Workers(), "slot"), areIdle(idle))
	if rt.cfg.Watchdog == 0 {
		fmt.Fprintf(b, "  its tasks are not listed: set Config.Watchdog, or %s=10s in the environment\n", EnvWatchdog)
		return
	}
	rt.snapshot(rt.cfg.Watchdog).describe(b)
}

func areIdle(n int) string {
	if n == 1 {
		return "1 is idle"
	}
	return fmt.Sprintf("%d are idle", n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// runtimes are those that are open, for DumpAll.
var runtimes struct {
	mu   sync.Mutex
	open map[*Runtime]struct{} // +checklocks:mu
}

func (rt *Runtime) enlist() {
	runtimes.mu.Lock()
	defer runtimes.mu.Unlock()
	if runtimes.open == nil {
		runtimes.open = map[*Runtime]struct{}{}
	}
	runtimes.open[rt] = struct{}{}
}

func (rt *Runtime) delist() {
	runtimes.mu.Lock()
	defer runtimes.mu.Unlock()
	delete(runtimes.open, rt)
}

// DumpAll is [Runtime.Dump] for all runtimes of the process that are open. A program that wants to be asked by a signal calls it from a
// goroutine that receives from [os/signal.Notify].
func DumpAll(w io.Writer) error {
	runtimes.mu.Lock()
	list := make([]*Runtime, 0, len(runtimes.open))
	for rt := range runtimes.open {
		list = append(list, rt)
	}
	runtimes.mu.Unlock()
	for _, rt := range list {
		if err := rt.Dump(w); err != nil {
			return err
		}
	}
	return nil
}

// isOurs reports whether a function is of the packages that stand between the user and the runtime.
func isOurs(function string) bool {
	for _, p := range ours {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return strings.HasPrefix(function, "runtime.")
}
