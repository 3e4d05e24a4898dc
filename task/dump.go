// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/deps"
	"weft/task/internal/say"
	"weft/task/internal/watchdog"
)

// Dump writes what the tasks of the runtime are doing: each task that is not over, with its label,
// where it was spawned, its age, its state and what it waits for, and what is stuck. Any goroutine
// may call it at any time; tasks go on meanwhile. Without a watchdog ([Config.Watchdog]) the
// runtime keeps no list of its tasks, and Dump only says how many slots are at work.
func (rt *Runtime) Dump(w io.Writer) error {
	_, err := io.WriteString(w, rt.dump())
	return err
}

func (rt *Runtime) dump() string {
	var b strings.Builder
	idle := rt.sched.Parked()
	fmt.Fprintf(&b, "weft: a task runtime with %s, of which %s\n", say.Plural(rt.Workers(), "slot"), say.Count(idle, "is idle", "are idle"))
	if rt.cfg.Watchdog == 0 {
		fmt.Fprintf(&b, "  its tasks are not listed: set Config.Watchdog, or %s=10s in the environment\n", EnvWatchdog)
	} else {
		rt.probe.Watch.Describe(&b)
	}
	return b.String()
}

// runtimes are the open runtimes, for DumpAll.
var runtimes = struct {
	mu   sync.Mutex
	open map[*Runtime]struct{} // +checklocks:mu
	// no sync.Map: in lint mode the program would share this package's instance of its code
}{open: map[*Runtime]struct{}{}}

func (rt *Runtime) enlist() {
	runtimes.mu.Lock()
	defer runtimes.mu.Unlock()
	runtimes.open[rt] = struct{}{}
}

func (rt *Runtime) delist() {
	runtimes.mu.Lock()
	defer runtimes.mu.Unlock()
	delete(runtimes.open, rt)
}

// DumpAll is [Runtime.Dump] for all open runtimes of the process. To dump on a signal, a program
// calls it from a goroutine that receives from [os/signal.Notify].
func DumpAll(w io.Writer) error {
	runtimes.mu.Lock()
	list := slices.Collect(maps.Keys(runtimes.open))
	runtimes.mu.Unlock()
	for _, rt := range list {
		if err := rt.Dump(w); err != nil {
			return err
		}
	}
	return nil
}

// TaskInfo is what the watchdog knows about one live task.
type TaskInfo struct {
	ID       uint64 // of the task; another task never gets it
	Parent   uint64 // zero for the main task of a run
	Label    string
	Site     string // where it was spawned
	Age      time.Duration
	State    TaskState
	For      time.Duration // how long it is in this state
	Accesses []deps.Access
	Behind   []uint64 // tasks that it waits for
	Text     string   // the lines of Dump about it
	Stuck    bool     // it has waited for longer than Config.Watchdog, or is in a cycle
	Cycle    bool     // it is in a cycle of tasks that wait for each other
}

// TaskState is how far a task is.
type TaskState string

// The states of a task.
const (
	TaskWaiting TaskState = TaskState(watchdog.Waiting) // for accesses
	TaskReady   TaskState = TaskState(watchdog.Ready)   // waits for a slot
	TaskHeld    TaskState = TaskState(watchdog.Held)    // OnReady has bound events
	TaskResting TaskState = TaskState(watchdog.Resting) // of a recorded loop, between two rounds
	TaskRunning TaskState = TaskState(watchdog.Running)
	TaskBlocked TaskState = TaskState(watchdog.Blocked) // the body waits
	TaskBound   TaskState = TaskState(watchdog.Bound)   // the body is over, but its events are not
	TaskParent  TaskState = TaskState(watchdog.Parent)  // only its descendants are left
)

// Tasks returns what the tasks of the runtime are doing, parents before their children. It returns
// false if no list is kept ([Config.Watchdog]). Each task is described as it was at some moment of
// the call; tasks go on meanwhile. Any goroutine may call it.
func (rt *Runtime) Tasks() ([]TaskInfo, bool) {
	if rt.cfg.Watchdog == 0 {
		return nil, false
	}
	tasks := rt.probe.Watch.Tasks()
	list := make([]TaskInfo, len(tasks))
	for i, x := range tasks {
		list[i] = TaskInfo{x.ID, x.Parent, x.Label, x.Site, x.Age, TaskState(x.State), x.For, declared(x.Accesses), x.Behind, x.Text, x.Stuck, x.Cycle}
	}
	return list, true
}
