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

	"weft/comm/internal/stall"
	"weft/internal/fabric"
	"weft/internal/waits"
)

const stallPause = 20 * time.Millisecond // between two looks at all goroutines

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

// watchStalls begins to look for deadlocks, and returns what ends that.
func (w *world) watchStalls() (quiet func()) {
	if w.stalls == nil {
		return func() {}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go waits.Service(func() {
		defer close(over)
		w.stalls.Run(stop)
	})()
	return func() {
		close(stop)
		<-over
	}
}

// newStalls returns what looks for deadlocks; nil: nobody does. Among processes that is where each has one rank.
func (w *world) newStalls() *stall.Watch {
	switch one := w.only(); {
	case w.cfg.DeadlockWarnings < 0 || w.apart && one == nil:
		return nil
	case w.apart:
		return stall.New((*stallHost)(w), one.rank, w.size, w.cfg.DeadlockWarnings, stallPeriod)
	default:
		return stall.New((*stallHost)(w), 0, 1, w.cfg.DeadlockWarnings, stallPeriod)
	}
}

// stallHost is the ranks of this process, as what looks for deadlocks sees them.
type stallHost world

func (h *stallHost) Activity() int64 { return (*world)(h).activity() }
func (h *stallHost) Compare() bool   { return h.late.askAll() }

// Look says whether all ranks of this process wait for something that nothing else in this process can bring, or nothing but
// goroutines of the program. README.md, "Deadlocks", has the argument.
func (h *stallHost) Look() *stall.Found {
	w := (*world)(h)
	before := w.activity()
	census, ok := waits.Take()
	if !ok || census.Timed > 0 {
		return nil
	}
	found := &stall.Found{Certain: census.Closed() && (w.apart || !census.Outside)}
	for _, p := range w.procs {
		if p != nil {
			if p.underWay() {
				return nil
			}
			found.Sent += p.traffic.sent.Load()
			found.Here += p.traffic.here.Load()
		}
	}
	if found.Certain {
		time.Sleep(stallPause)
		again, ok := waits.Take()
		found.Certain = ok && again.Same(census)
	}
	if !found.Certain && (census.Foreign() == 0 || waits.Elsewhere(runRank) > 0) {
		return nil // ranks here are not in calls of ours, or there is no goroutine of the program that may act
	}
	found.Waits = append(w.describe(dump.Now()), waits.Describe(w.party)...)
	if !found.Certain {
		found.Waits = append(found.Waits, "that may act: "+strings.Join(waits.Acting(), "\n"))
	}
	if w.activity() != before {
		return nil
	}
	return found
}

// The frames of Tell and Ask are not counted, so that to ask changes nothing. Errors are those of the run.

func (h *stallHost) Tell(question uint64, found *stall.Found) {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, stalling.word()}}
	if found != nil {
		text := strings.Join(found.Waits, "\n")
		f.Head[1], f.Head[2], f.Head[4] = uint64(found.Sent), uint64(found.Here), 1
		if !found.Certain {
			f.Head[4] = 2
		}
		f.Data = []byte(text[:min(len(text), maxReason)])
	}
	_ = (*world)(h).only().ep.Send(0, f)
}

func (h *stallHost) Ask(question uint64) {
	if !h.apart {
		return
	}
	for r := 1; r < h.size; r++ {
		_ = h.procs[0].ep.Send(r, fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, asking.word()}})
	}
}

// hearStall takes a frame of Tell or Ask. It does not block.
func (w *world) hearStall(src int, f *fabric.Frame) {
	switch {
	case w.stalls == nil: // this rank waits for ever
	case protocol(f.Head[3]>>8) == stalling:
		var found *stall.Found
		if f.Head[4] != 0 {
			found = &stall.Found{Certain: f.Head[4] == 1, Waits: []string{string(f.Data[:min(len(f.Data), maxReason)])}, Sent: int64(f.Head[1]), Here: int64(f.Head[2])}
		}
		w.stalls.Hear(src, f.Head[0], found)
	case src == 0:
		w.stalls.Asked(f.Head[0])
	}
}

func (h *stallHost) Warn(n int, ranks []string, lasts time.Duration) {
	d := &DeadlockError{Ranks: ranks, For: lasts}
	h.cfg.Logger.Warn("all ranks wait, and nothing is under way", "warning", n, "of", h.cfg.DeadlockWarnings, "ranks", d.Error())
}

// Suspect tells a person that there may be a deadlock.
func (h *stallHost) Suspect(ranks []string, lasts time.Duration) {
	const what = "all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts"
	if who := strings.Join(ranks, "\n"); h.cfg.logs {
		h.cfg.Logger.Warn(what, "for", lasts, "ranks", who)
	} else {
		_, _ = fmt.Fprintf(stderr, "weft: for %v %s:\n%s\n", lasts, what, who)
	}
}

// End ends the run. A launcher ends it at all ranks: so all end for the same reason, and with its exit status.
func (h *stallHost) End(ranks []string, lasts time.Duration) {
	d := &DeadlockError{Ranks: ranks, For: lasts}
	if h.stuck == nil || h.stuck(d.Error()) != nil {
		(*world)(h).end(d)
	}
}

func (h *stallHost) Remains() {
	if e := h.aborted.Load(); e != nil && !h.cfg.logs {
		_, _ = fmt.Fprintf(stderr, "weft: %v\nThe run is ended, but some ranks do not return.\n", e.cause)
	}
}

// stderr is where what a person must hear goes if there is no Logger; tests have it elsewhere.
var stderr io.Writer = os.Stderr

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

// frame sends a frame to another process, and counts it, so that all ranks together know whether any is under way.
func (p *proc) frame(dst int, f fabric.Frame) error {
	p.traffic.sent.Add(1) // before: it may be taken, counted there and answered at once
	err := p.ep.Send(dst, f)
	if err != nil {
		p.traffic.sent.Add(-1)
	}
	return err
}

// push is likewise for payloads, which are under way until done is called.
func (p *proc) push(dst int, key uint64, data []byte, done func(error)) {
	p.traffic.pushes.Add(1)
	p.ep.Push(dst, key, data, func(err error) {
		p.traffic.pushes.Add(-1)
		done(err)
	})
}
