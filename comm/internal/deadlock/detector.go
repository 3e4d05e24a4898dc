// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"sync"
	"time"
)

// Host is a process of a run, as its [Detector] sees it. The goroutine of Run calls its methods.
type Host interface {
	// Activity returns a number that changes with each operation that is begun and each frame.
	Activity() int64
	// Compare asks other ranks to compare their collectives with this process's. It returns false
	// if there is nothing to ask.
	Compare() bool
	// Inspect returns why all ranks of the process wait; nil if something may go on.
	Inspect() *Inspection
	// SendReport sends a report to the first process. It is called in the others.
	SendReport(query uint64, found *Inspection)
	// SendQuery sends a query to all other processes. It is called in the first one.
	SendQuery(query uint64)
	// Warn logs warning number n of a deadlock.
	Warn(n int, waits []string, quietFor time.Duration)
	// Suspect logs that there is a deadlock unless a goroutine of the program acts.
	Suspect(waits []string, quietFor time.Duration)
	// End ends the run because of a deadlock.
	End(waits []string, quietFor time.Duration)
	// Remains reports that the run has been ended and that some function does not return.
	Remains()
}

// suspicionsUntil is how many uncertain inspections in a row it takes to report a suspicion.
const suspicionsUntil = 3

// Detector finds deadlocks from one process of a run.
type Detector struct {
	Host     Host
	Warnings int           // how many warnings there are before a deadlock ends the run
	Period   time.Duration // how long a process must be quiet before it is inspected

	// Owned by the goroutine of Run:

	lastActivity    int64
	quietSince      time.Time // when lastActivity was read first
	now             time.Time // of the last tick without activity
	next            time.Time // no inspection before this; zero: one at each tick
	warnings        int       // since quietSince
	suspicions      int       // uncertain inspections in a row, since quietSince
	reported        bool      // the last report to the first process was: blocked
	suspected       bool      // Suspect was called: once in a run
	ended           bool      // End was called
	remainsReported bool      // Remains was called
	quorum          *quorum   // of the first process, else nil

	queries chan uint64   // the newest query; capacity 1
	arrived chan struct{} // a token: there are reports; capacity 1

	mu      sync.Mutex
	reports []report // guarded by mu
}

// report is the report of a process; inspection is nil if something may go on in the process.
type report struct {
	process    int
	query      uint64 // the query that this report answers; 0: none
	inspection *Inspection
}

// New returns the detector of process number self of a run.
func New(h Host, self, processes, warnings int, period time.Duration) *Detector {
	w := &Detector{Host: h, Warnings: warnings, Period: period, queries: make(chan uint64, 1), arrived: make(chan struct{}, 1)}
	if self == 0 {
		w.quorum = newQuorum(processes)
	}
	return w
}

// Run works until stop is closed. In each period it compares Activity, which costs a lock per rank.
// Only if that has not changed does it call Inspect.
func (w *Detector) Run(stop <-chan struct{}) {
	tick := time.NewTicker(w.Period)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			w.tick(now)
		case <-w.arrived:
			w.gatherReports()
		case query := <-w.queries:
			w.answerQuery(query)
		}
	}
}

// HandleQuery has Run answer a query of the first process. It does not block.
func (w *Detector) HandleQuery(query uint64) {
	select {
	case <-w.queries: // the first process does not wait for an answer to an earlier query
	default:
	}
	w.queries <- query
}

// HandleReport takes a report of another process, in the first one. It does not block.
func (w *Detector) HandleReport(process int, query uint64, found *Inspection) {
	if w.quorum == nil {
		return
	}
	w.mu.Lock()
	w.reports = append(w.reports, report{process, query, found})
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

func (w *Detector) gatherReports() {
	w.mu.Lock()
	news := w.reports
	w.reports = nil
	w.mu.Unlock()
	for _, x := range news {
		w.gather(x)
	}
}

// quietFor returns for how long there has been no activity.
func (w *Detector) quietFor() time.Duration {
	return w.now.Sub(w.quietSince).Round(100 * time.Millisecond)
}

func (w *Detector) tick(now time.Time) {
	if w.ended { // some function does not return: for example, it waits for tasks
		if !w.remainsReported {
			w.remainsReported = true
			w.Host.Remains()
		}
		return
	}
	if a := w.Host.Activity(); a != w.lastActivity || w.quietSince.IsZero() {
		w.lastActivity, w.quietSince, w.warnings, w.suspicions, w.next = a, now, 0, 0, time.Time{}
		w.retract()
		return
	}
	if w.now = now; now.Before(w.next) || w.Host.Compare() {
		// If ranks are in different collectives, the error says so instead of naming a deadlock.
		return
	}
	found := w.Host.Inspect()
	switch {
	case found == nil:
		w.suspicions = 0
		w.retract()
	case !found.Certain: // mostly that stays so: inspect less often
		if w.suspicions++; w.suspicions > suspicionsUntil {
			w.next = now.Add(w.Period << min(w.suspicions-suspicionsUntil, 6))
		}
		if w.suspicions >= suspicionsUntil {
			w.report(0, found)
		}
	case w.warnings < w.Warnings:
		w.warnings++
		w.Host.Warn(w.warnings, found.Waits, w.quietFor())
	default:
		w.suspicions = 0
		w.report(0, found) // at each tick, as the first process may have begun later than this one
	}
}

// retract reports that something may go on, if the last report was: blocked.
func (w *Detector) retract() {
	if w.reported {
		w.report(0, nil)
	}
}

// answerQuery reports whether the last report still holds.
func (w *Detector) answerQuery(query uint64) {
	found := w.Host.Inspect()
	if w.Host.Activity() != w.lastActivity {
		found = nil
	}
	w.report(query, found)
}

// report sends a report to the first process, or adds it to the quorum there.
func (w *Detector) report(query uint64, found *Inspection) {
	if w.reported = found != nil; w.quorum == nil {
		w.Host.SendReport(query, found)
		return
	}
	w.gather(report{0, query, found})
}

// gather adds a report to the quorum of the first process, and acts on the result.
func (w *Detector) gather(x report) {
	ask, all := w.quorum.add(x.process, x.query, x.inspection)
	if ask {
		w.Host.SendQuery(w.quorum.query)
		w.HandleQuery(w.quorum.query)
	}
	if all == nil || w.ended {
		return
	}
	var waits []string
	certain := true
	for _, f := range all {
		waits = append(waits, f.Waits...)
		certain = certain && f.Certain
	}
	switch quietFor := w.quietFor(); {
	case certain:
		w.ended = true
		w.Host.End(waits, quietFor)
	case !w.suspected:
		w.suspected = true
		w.Host.Suspect(waits, quietFor)
	}
}
