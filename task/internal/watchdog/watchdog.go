// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package watchdog keeps a list of the live tasks of a runtime, and reports stuck tasks. README.md
// of package task, "The watchdog", has the rules.
package watchdog

import (
	"io"
	"slices"
	"strings"
	"time"

	"weft/internal/chain"
	"weft/internal/waits"
	"weft/task/internal/say"
)

// Config configures a watchdog.
type Config struct {
	Limit time.Duration // a task that waits so long for something that no task provides is stuck
	Out   io.Writer     // of the reports
	Slots int           // of the runtime
	// orders the caller after the bodies, whose values it prints, in lint mode
	Acquire func()
}

// A Watchdog periodically checks the tasks of a runtime, and reports stuck tasks.
type Watchdog struct {
	cfg    Config
	shards []watchShard  // one for each slot, and one for goroutines without a slot
	stop   chan struct{} // closed by Close
	done   chan struct{} // closed when the goroutine has ended

	// Owned by the goroutine.
	reported map[report]bool
}

// New makes a watchdog. It does not check before Open.
func New(cfg Config) *Watchdog { return &Watchdog{cfg: cfg, shards: make([]watchShard, cfg.Slots+1)} }

// report identifies a finding, which is reported once: a task has waited too long for one thing, or
// is in a cycle.
type report struct {
	task  *Record
	since time.Time
	cycle bool
}

// ChecksPerLimit is how many checks there are within the limit: a stuck task is reported at most a
// quarter of the limit late.
const ChecksPerLimit = 4

// Enter makes the record of a task. parent is the record of its parent; nil for the main task of a
// run. The caller is the body of the parent, on the slot with number at, or has no slot if at is
// negative. loop: the task belongs to the recorded loop that the parent is.
func (w *Watchdog) Enter(at int, parent *Record, label string, pc uintptr, accs []chain.Access, loop bool) *Record {
	now := time.Now()
	r := &Record{label: label, pc: pc, born: now, status: status{since: now}, accs: slices.Clone(accs)}
	if p := parent; p != nil {
		r.parent, r.depth = p, p.depth+1
		r.seq, p.children = p.children, p.children+1
		for _, a := range accs {
			lo, hi, slice := a.Memory()
			p.byBytes = p.byBytes || slice && lo < hi
		}
		r.ranges = p.byBytes
		if loop {
			r.loop, r.state = true, stateResting
			for i, a := range r.accs {
				r.accs[i] = a.Strong()
			}
			p.parts = append(p.parts, r)
		}
	}
	n := len(w.shards) - 1
	if at >= 0 {
		n = at
	}
	sh := &w.shards[n]
	r.home = sh
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r.id = sh.made*uint64(len(w.shards)) + uint64(n) + 1
	sh.made++
	if r.next = sh.first; r.next != nil {
		r.next.prev = r
	}
	sh.first = r
	return r
}

// Open starts the periodic checks, and Close ends them.
func (w *Watchdog) Open() {
	w.reported = map[report]bool{}
	w.stop, w.done = make(chan struct{}), make(chan struct{})
	go waits.Service(w.loop)()
}

// Close ends the checks.
func (w *Watchdog) Close() {
	close(w.stop)
	<-w.done
}

func (w *Watchdog) loop() {
	defer close(w.done)
	tick := time.NewTicker(max(w.cfg.Limit/ChecksPerLimit, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.check()
		}
	}
}

// check reports the stuck tasks that have not been reported. It forgets reported tasks that have
// continued, so a task that is stuck again later is reported again.
func (w *Watchdog) check() {
	snap := w.snapshot()
	fresh := false
	now := map[report]bool{}
	for _, i := range snap.stuck {
		x := snap.seen[i]
		key := report{task: x.rec, since: x.stuckSince, cycle: x.inCycle}
		fresh = fresh || !w.reported[key]
		now[key] = true
	}
	w.reported = now
	if fresh {
		var b strings.Builder
		b.WriteString("weft: watchdog: ")
		snap.describeStuck(&b)
		_, _ = w.cfg.Out.Write([]byte(b.String()))
	}
}

// A State is the state of a task, as a user sees it.
type State string

// The states of a task.
const (
	Waiting State = "waiting"
	Ready   State = "ready"
	Held    State = "held"
	Resting State = "resting"
	Running State = "running"
	Blocked State = "blocked"
	Bound   State = "bound"
	Parent  State = "parent"
)

// Info is what the watchdog knows of one live task. Package task says what the fields mean.
type Info struct {
	ID, Parent   uint64
	Label        string
	Site         string
	Age          time.Duration
	State        State
	For          time.Duration
	Accesses     []chain.Access
	Behind       []uint64
	Text         string
	Stuck, Cycle bool
}

// Tasks returns the live tasks, parents before their children.
func (w *Watchdog) Tasks() []Info {
	p := w.snapshot()
	list := make([]Info, len(p.seen))
	for i := range p.seen {
		x := &p.seen[i]
		var b strings.Builder
		p.task(&b, "", i)
		list[i] = Info{ID: x.rec.id, Label: x.rec.label, Site: say.Position(x.rec.pc), Age: p.at.Sub(x.rec.born), State: x.public(),
			For: p.at.Sub(x.since), Accesses: x.rec.accs, Text: b.String(), Stuck: !x.stuckSince.IsZero(), Cycle: x.inCycle}
		if x.parent >= 0 {
			list[i].Parent = x.rec.parent.id
		}
		for _, b := range x.blockers {
			list[i].Behind = append(list[i].Behind, p.seen[b.on].rec.id)
		}
	}
	return list
}

// public returns the state of x as a user sees it.
func (x *seen) public() State {
	switch {
	case x.state == stateReturned && len(x.events) > 0:
		return Bound
	case x.state == stateSpawned && len(x.events) > 0:
		return Held
	case x.state == stateSpawned && len(x.blockers) > 0:
		return Waiting
	}
	return [stateOver]State{stateSpawned: Ready, stateResting: Resting, stateRunning: Running,
		stateWaiting: Blocked, stateReturned: Parent, stateReleased: Parent}[x.state]
}

// Describe writes what the tasks do, and which are stuck.
func (w *Watchdog) Describe(b *strings.Builder) { w.snapshot().describe(b) }

// snapshot takes a snapshot of all live tasks.
func (w *Watchdog) snapshot() *snapshot {
	w.cfg.Acquire() // the snapshot's values are printed
	return take(w.shards, w.cfg.Limit)
}
