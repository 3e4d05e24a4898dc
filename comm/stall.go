// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"weft/internal/launch"
	"weft/internal/waits"
)

const (
	doubtsUntil = 3 // looks that are not certain before it is said what they have found
	stallPause  = 20 * time.Millisecond
)

// dump is shared by runs that end together (its time is a guess). Tests have another.
var dump = waits.NewDump(10*time.Millisecond, waits.Goroutines)

// stallPeriod is how long nothing must have happened before anybody looks closer, and the time
// between warnings.
var stallPeriod = time.Second // constant, but in tests

// DeadlockError says who waits for what. It matches ErrDeadlock.
type DeadlockError struct {
	Ranks []string // by rank, one or more lines each; behind them, what tasks wait for
	For   time.Duration
}

// Error has all of it.
func (e *DeadlockError) Error() string {
	return fmt.Sprintf("%v for %v:\n%s", ErrDeadlock, e.For, strings.Join(e.Ranks, "\n"))
}

// Is makes it match ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// EndsRun makes it an error that says why a run has ended.
func (e *DeadlockError) EndsRun() bool { return true }

// remoteDeadlock is a deadlock that the launcher has found.
type remoteDeadlock struct{ text string }

func (e *remoteDeadlock) Error() string        { return e.text }
func (e *remoteDeadlock) Is(target error) bool { return target == ErrDeadlock }
func (e *remoteDeadlock) EndsRun() bool        { return true }

// body is the goroutine that runs a rank's function.
type body struct {
	id   atomic.Uint64 // of the goroutine; 0: not running yet
	over atomic.Bool
}

// begin is called by the goroutine itself.
func (b *body) begin() { b.id.Store(waits.ID()) }

// traffic are the frames of a rank whose peers are other processes.
type traffic struct {
	sent, here atomic.Int64
	pushes     atomic.Int64 // under way
}

// stall is what one look at this process has found: all ranks wait, and nothing is under way.
type stall struct {
	census     waits.Census
	certain    bool     // nothing in this process will ever act by itself
	waits      []string // by rank here, and what tasks wait for
	sent, here int64
}

// text is what goes to the launcher.
func (s *stall) text() string {
	text := strings.Join(s.waits, "\n")
	if !s.certain {
		text += "\nthat may act: " + strings.Join(waits.Acting(), "\n")
	}
	return text[:min(len(text), maxReason)]
}

// stalls looks for deadlocks. One goroutine owns it.
type stalls struct {
	w        *world
	last     int64 // activity
	since    time.Time
	warnings int
	doubtful int            // looks that have found nothing for sure, since then
	said     bool           // what they have found, once in a run
	over     *DeadlockError // has ended the run; nil: none has
	told     bool           // over, since the run does not come to its end
	next     time.Time
	// report takes a stall of this process to who knows of all processes, and nil when it is over; nil: all ranks are here.
	report   func(*stall)
	reported bool
	asks     chan uint64 // of the launcher, whether what was reported still holds
	answer   func(wave uint64, found *stall)
	find     func() *stall        // look, in scripts of tests; nil: look itself
	agreed   atomic.Pointer[pact] // nil: a launcher knows of all processes, or this process
}

// lasts is for how long nothing has happened.
func (s *stalls) lasts() time.Duration { return time.Since(s.since).Round(100 * time.Millisecond) }

// tell has stalls of this process, which has one rank, go to the launcher. Calls that fail do because the job ends.
func (s *stalls) tell(client *launch.Client) {
	s.asks = make(chan uint64, 1)
	client.OnAsk(s.asked)
	s.answer = func(question uint64, found *stall) {
		if found == nil {
			_ = client.Moves(question)
			return
		}
		_ = client.Stalls(question, found.sent, found.here, found.text(), !found.certain)
	}
	s.report = func(found *stall) { s.answer(0, found) }
}

// asked has a question answered.
func (s *stalls) asked(question uint64) {
	select {
	case <-s.asks: // nobody waits for the answer to an earlier one
	default:
	}
	s.asks <- question
}

// watchStalls begins to look for deadlocks, and returns what ends that.
func (w *world) watchStalls() (quiet func()) {
	s := w.stalls
	if s == nil {
		return func() {}
	}
	if w.apart && s.report == nil {
		p := w.only()
		if p == nil {
			return func() {}
		}
		s.agree(p)
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go waits.Service(func() {
		defer close(over)
		s.watch(stop)
	})()
	return func() {
		close(stop)
		<-over
	}
}

// watch looks for deadlocks until stop is closed. Every second it looks whether anything has happened, which costs a lock per
// rank; only if nothing has does it count goroutines.
func (s *stalls) watch(stop <-chan struct{}) {
	var news chan struct{}
	if a := s.agreed.Load(); a != nil {
		news = a.some
	}
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			s.tick(now)
		case <-news:
			s.gatherAll()
		case wave := <-s.asks:
			found := s.seen()
			if found == nil || !found.certain && !s.suspicious(found) || s.w.activity() != s.last {
				found, s.reported = nil, false
			}
			s.answer(wave, found)
		}
	}
}

func (s *stalls) tick(now time.Time) {
	if s.over != nil { // the run is ended, and some function does not return: it waits for tasks of its own, say
		if d := s.over; !s.w.cfg.logs && !s.told {
			_, _ = fmt.Fprintf(stderr, "weft: %v\nThe run is ended, but some ranks do not return.\n", d)
		}
		s.told = true
		return
	}
	if a := s.w.activity(); a != s.last || s.since.IsZero() {
		s.last, s.since, s.warnings, s.doubtful, s.next = a, now, 0, 0, time.Time{}
		s.retract()
		return
	}
	if now.Before(s.next) {
		return
	}
	if s.w.late.askAll() {
		return // ranks that are in different collectives hear of that, and not of a deadlock
	}
	found := s.seen()
	if found == nil || !found.certain {
		s.doubt(found, now)
		return
	}
	d := &DeadlockError{Ranks: found.waits, For: now.Sub(s.since).Round(100 * time.Millisecond)}
	if s.warnings < s.w.cfg.DeadlockWarnings {
		s.warnings++
		s.w.cfg.Logger.Warn("all ranks wait, and nothing is under way", "warning", s.warnings, "of", s.w.cfg.DeadlockWarnings, "ranks", d.Error())
		return
	}
	if s.report == nil {
		s.over = d
		s.w.end(d)
		return
	}
	again := s.agreed.Load() != nil             // rank 0 may have begun later than this one
	if !s.reported || s.doubtful > 0 || again { // doubtful: what was reported is in doubt no more
		s.reported, s.doubtful = true, 0
		s.report(found)
	}
}

func (s *stalls) retract() {
	if s.reported {
		s.reported = false
		s.report(nil)
	}
}

// suspicious reports whether all ranks here wait in calls of ours, but goroutines of the program may act.
func (s *stalls) suspicious(found *stall) bool {
	return found.census.Foreign() > 0 && waits.Elsewhere(runRank) == 0
}

// doubt is a look that is not certain. If it stays so it is said, once, or goes to who knows of all processes.
func (s *stalls) doubt(found *stall, now time.Time) {
	if found == nil || !s.suspicious(found) {
		s.doubtful = 0
		s.retract()
		return
	}
	if s.doubtful++; s.doubtful > doubtsUntil { // what is in the way mostly stays: look less often
		s.next = now.Add(stallPeriod << min(s.doubtful-doubtsUntil, 6))
	}
	switch {
	case s.doubtful < doubtsUntil:
	case s.report != nil:
		s.reported = true
		s.report(found)
	case !s.said:
		s.said = true
		s.say(found.waits, waits.Acting(), now.Sub(s.since).Round(100*time.Millisecond))
	}
}

// say tells a person that there may be a deadlock.
func (s *stalls) say(ranks, goroutines []string, lasts time.Duration) {
	const what = "all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts"
	who, may := strings.Join(ranks, "\n"), strings.Join(goroutines, "\n")
	if s.w.cfg.logs {
		s.w.cfg.Logger.Warn(what, "for", lasts, "ranks", who, "goroutines", may)
		return
	}
	if may != "" {
		may = "\nthat may act: " + may
	}
	_, _ = fmt.Fprintf(stderr, "weft: for %v %s:\n%s%s\n", lasts, what, who, may)
}

// stderr is where what a person must hear goes if there is no Logger; tests have it elsewhere.
var stderr io.Writer = os.Stderr

func (s *stalls) seen() *stall {
	if s.find != nil {
		return s.find()
	}
	return s.look()
}

// look says whether all ranks of this process wait for something that nothing else in this process can bring, or nothing but
// goroutines of the program; nil if it is not so. README.md, "Deadlocks", has the argument.
func (s *stalls) look() *stall {
	w := s.w
	before := w.activity()
	census, ok := waits.Take()
	if !ok || census.Timed > 0 {
		return nil
	}
	found := &stall{certain: census.Closed() && (w.apart || !census.Outside), census: census}
	for _, p := range w.procs {
		if p != nil {
			if p.underWay() {
				return nil
			}
			found.sent += p.traffic.sent.Load()
			found.here += p.traffic.here.Load()
		}
	}
	if found.certain {
		time.Sleep(stallPause)
		again, ok := waits.Take()
		found.certain = ok && again.Same(census)
	}
	found.waits = append(w.describe(dump.Now()), waits.Describe(w.party)...)
	if w.activity() != before {
		return nil
	}
	return found
}

// only returns the rank of this process, nil if it has several.
func (w *world) only() (one *proc) {
	for _, p := range w.procs {
		switch {
		case p == nil:
		case one != nil:
			return nil
		default:
			one = p
		}
	}
	return one
}

// underWay reports whether payloads are on their way to the rank or from it.
func (p *proc) underWay() bool {
	p.far.mu.Lock()
	defer p.far.mu.Unlock()
	return len(p.far.pulls) > 0 || p.traffic.pushes.Load() != 0
}
