// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"sync"
	"time"
)

// Host is a process of a run. The goroutine of Watch calls its methods.
type Host interface {
	// a number that changes with everything that happens
	Activity() int64
	// has others compare what they do; false: there is nothing to ask
	Compare() bool
	Inspect() *Found // nil: something may go on
	// the first process, of a process that is not the first
	Tell(question uint64, found *Found)
	Ask(question uint64)                             // all others, of the first process
	Warn(n int, waits []string, lasts time.Duration) // of a deadlock, before it ends the run
	Suspect(waits []string, lasts time.Duration)     // a deadlock, unless something acts
	End(waits []string, lasts time.Duration)         // a deadlock, which ends the run
	// the run is ended, and some function does not return
	Remains()
}

const doubtsUntil = 3 // looks that are not certain before others hear of them

// Watch looks for deadlocks from one process of a run.
type Detector struct {
	Host     Host
	Warnings int           // before a deadlock ends the run
	Period   time.Duration // how long nothing must have happened before anybody looks closer

	// Of the goroutine of Run:

	last     int64 // activity
	since    time.Time
	now      time.Time // of the last look
	next     time.Time // of the next one; zero: it is to come as always
	warnings int
	doubtful int     // looks that were not certain, since then
	reported bool    // the first process has heard of a stall
	said     bool    // a suspicion, once in a run
	over     bool    // there was a deadlock
	told     bool    // and that the run does not come to its end
	quorum   *quorum // of the first process, else nil

	asks chan uint64   // the newest question
	some chan struct{} // there is news

	mu   sync.Mutex
	news []saying // guarded by mu
}

// saying is what a process has said; found is nil if it moves.
type saying struct {
	process  int
	question uint64 // that this answers; 0: none
	found    *Found
}

// New returns a watch of process number self of so many.
func New(h Host, self, processes, warnings int, period time.Duration) *Detector {
	w := &Detector{Host: h, Warnings: warnings, Period: period, asks: make(chan uint64, 1), some: make(chan struct{}, 1)}
	if self == 0 {
		w.quorum = newQuorum(processes)
	}
	return w
}

// Run looks until stop is closed. In each period it looks whether anything has happened, which
// costs a lock per rank; only if nothing has does it look closer.
func (w *Detector) Run(stop <-chan struct{}) {
	tick := time.NewTicker(w.Period)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			w.tick(now)
		case <-w.some:
			w.gatherAll()
		case question := <-w.asks:
			w.answer(question)
		}
	}
}

// Asked has a question of the first process answered. It does not block.
func (w *Detector) Asked(question uint64) {
	select {
	case <-w.asks: // nobody waits for the answer to an earlier one
	default:
	}
	w.asks <- question
}

// Hear is what another process has said, at the first one. It does not block.
func (w *Detector) Hear(process int, question uint64, found *Found) {
	if w.quorum == nil {
		return
	}
	w.mu.Lock()
	w.news = append(w.news, saying{process, question, found})
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

func (w *Detector) gatherAll() {
	w.mu.Lock()
	news := w.news
	w.news = nil
	w.mu.Unlock()
	for _, x := range news {
		w.gather(x)
	}
}

// lasts is for how long nothing has happened.
func (w *Detector) lasts() time.Duration { return w.now.Sub(w.since).Round(100 * time.Millisecond) }

func (w *Detector) tick(now time.Time) {
	if w.over { // some function does not return: it waits for tasks of its own, say
		if !w.told {
			w.told = true
			w.Host.Remains()
		}
		return
	}
	if a := w.Host.Activity(); a != w.last || w.since.IsZero() {
		w.last, w.since, w.warnings, w.doubtful, w.next = a, now, 0, 0, time.Time{}
		w.retract()
		return
	}
	if w.now = now; now.Before(w.next) || w.Host.Compare() {
		// ranks in different collectives hear of that, and not of a deadlock
		return
	}
	found := w.Host.Inspect()
	switch {
	case found == nil:
		w.doubtful = 0
		w.retract()
	case !found.Certain: // what is in the way mostly stays: look less often
		if w.doubtful++; w.doubtful > doubtsUntil {
			w.next = now.Add(w.Period << min(w.doubtful-doubtsUntil, 6))
		}
		if w.doubtful >= doubtsUntil {
			w.say(0, found)
		}
	case w.warnings < w.Warnings:
		w.warnings++
		w.Host.Warn(w.warnings, found.Waits, w.lasts())
	default:
		w.doubtful = 0
		w.say(0, found) // again each time: the first process may have begun later than this one
	}
}

func (w *Detector) retract() {
	if w.reported {
		w.say(0, nil)
	}
}

// answer says whether what was reported still holds.
func (w *Detector) answer(question uint64) {
	found := w.Host.Inspect()
	if w.Host.Activity() != w.last {
		found = nil
	}
	w.say(question, found)
}

func (w *Detector) say(question uint64, found *Found) {
	if w.reported = found != nil; w.quorum == nil {
		w.Host.Tell(question, found)
		return
	}
	w.gather(saying{0, question, found})
}

// gather takes what a process says, at the first one.
func (w *Detector) gather(x saying) {
	ask, over := w.quorum.take(x.process, x.question, x.found)
	if ask {
		w.Host.Ask(w.quorum.question)
		w.Asked(w.quorum.question)
	}
	if over == nil || w.over {
		return
	}
	var waits []string
	certain := true
	for _, f := range over {
		waits = append(waits, f.Waits...)
		certain = certain && f.Certain
	}
	switch lasts := w.lasts(); {
	case certain:
		w.over = true
		w.Host.End(waits, lasts)
	case !w.said:
		w.said = true
		w.Host.Suspect(waits, lasts)
	}
}
