// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"weft/task/internal/say"
)

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
	idle := rt.sched.Parked()
	fmt.Fprintf(b, "weft: a task runtime with %s, of which %s\n", say.Plural(rt.Workers(), "slot"), areIdle(idle))
	if rt.cfg.Watchdog == 0 {
		fmt.Fprintf(b, "  its tasks are not listed: set Config.Watchdog, or %s=10s in the environment\n", EnvWatchdog)
		return
	}
	rt.probe.watch.Describe(b)
}

func areIdle(n int) string {
	if n == 1 {
		return "1 is idle"
	}
	return fmt.Sprintf("%d are idle", n)
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
