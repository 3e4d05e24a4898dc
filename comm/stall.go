// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"weft/comm/internal/coll"
	"weft/comm/internal/consensus"
	"weft/comm/internal/deadlock"
	"weft/comm/internal/match"
	"weft/comm/internal/smcoll"
	"weft/comm/internal/wire"
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

// newStalls returns what looks for deadlocks; nil: nobody does. Among processes that is where each
// has one rank.
func (w *world) newStalls() *deadlock.Detector {
	switch {
	case w.cfg.DeadlockWarnings < 0 || w.apart && len(w.own) > 1:
		return nil
	case w.apart:
		return deadlock.New((*stallHost)(w), w.own[0].rank, w.size, w.cfg.DeadlockWarnings, stallPeriod)
	default:
		return deadlock.New((*stallHost)(w), 0, 1, w.cfg.DeadlockWarnings, stallPeriod)
	}
}

// stallHost is the ranks of this process, as what looks for deadlocks sees them.
type stallHost world

func (h *stallHost) Activity() int64 { return (*world)(h).activity() }
func (h *stallHost) Compare() bool   { return h.late.askAll() }

// Look says whether all ranks of this process wait for something that nothing else in this process
// can bring, or nothing but goroutines of the program. README.md, "Deadlocks", has the argument.
func (h *stallHost) Inspect() *deadlock.Inspection {
	w := (*world)(h)
	before := w.activity()
	census, ok := waits.Take()
	if !ok || census.Timed > 0 {
		return nil
	}
	found := &deadlock.Inspection{Certain: census.Closed() && (w.apart || !census.Outside)}
	for _, p := range w.own {
		if p.underWay() {
			return nil
		}
		found.Sent += p.traffic.sent.Load()
		found.Here += p.traffic.here.Load()
	}
	if found.Certain {
		time.Sleep(stallPause)
		again, ok := waits.Take()
		found.Certain = ok && again.Same(census)
	}
	if !found.Certain && (census.Foreign() == 0 || waits.Elsewhere(runRank) > 0) {
		// ranks here are not in calls of ours, or there is no goroutine of the program that may act
		return nil
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

// The frames of Tell and Ask are not counted, so that to ask changes nothing. Errors are those of
// the run.

func (h *stallHost) SendReport(question uint64, found *deadlock.Inspection) {
	f := fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, wire.BlockedReport.Word()}}
	if found != nil {
		text := strings.Join(found.Waits, "\n")
		f.Head[1], f.Head[2], f.Head[4] = uint64(found.Sent), uint64(found.Here), 1
		if !found.Certain {
			f.Head[4] = 2
		}
		f.Data = []byte(text[:min(len(text), maxReason)])
	}
	_ = h.own[0].ep.Send(0, f)
}

func (h *stallHost) SendQuery(question uint64) {
	if !h.apart {
		return
	}
	for r := 1; r < h.size; r++ {
		_ = h.own[0].ep.Send(r, fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, wire.BlockedQuery.Word()}})
	}
}

// hearStall takes a frame of Tell or Ask. It does not block.
func (w *world) hearStall(src int, f *fabric.Frame) {
	switch {
	case w.stalls == nil: // this rank waits for ever
	case wire.Protocol(f.Head[3]>>8) == wire.BlockedReport:
		var found *deadlock.Inspection
		if f.Head[4] != 0 {
			found = &deadlock.Inspection{Certain: f.Head[4] == 1, Waits: []string{string(f.Data[:min(len(f.Data), maxReason)])}, Sent: int64(f.Head[1]), Here: int64(f.Head[2])}
		}
		w.stalls.HandleReport(src, f.Head[0], found)
	case src == 0:
		w.stalls.HandleQuery(f.Head[0])
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

// End ends the run. A launcher ends it at all ranks: so all end for the same reason, and with its
// exit status.
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

// underWay reports whether payloads are on their way to the rank or from it.
func (p *proc) underWay() bool {
	p.far.mu.Lock()
	defer p.far.mu.Unlock()
	return len(p.far.pulls) > 0 || p.traffic.pushes.Load() != 0
}

// maxStallLines bounds the pending operations that a report has of a rank.
const maxStallLines = 8

// newParty returns what the ranks of this process are for package waits. Blocking calls are counted
// where they wait anyway, in the matchers and where ranks meet; so to sleep in one costs nothing
// more.
func (w *world) newParty() *waits.Party {
	p := &waits.Party{
		Asleep:   func() (int, int, uint64) { n, version := w.asleep(); return n, 0, version },
		Describe: func() []string { return w.describe(dump.Shared()) },
	}
	if w.apart {
		p.Outside = func() bool { return true }
	}
	return p
}

// activity is a number that changes with everything that happens to the ranks of this process,
// mostly.
func (w *world) activity() (n int64) {
	for _, p := range w.own {
		p.mu.Lock()
		n += int64(p.m.Seq)
		p.mu.Unlock()
		n += p.traffic.sent.Load() + p.traffic.here.Load() + p.traffic.pushes.Load()
	}
	return n
}

// queued calls recv with each receive that waits at the rank, and send with each send that waits:
// those of this process to the rank, and the rank's own to other processes.
func (p *proc) queued(recv func(*recvOp), send func(*sendOp)) {
	p.mu.Lock()
	p.m.Each(func(e *match.Posted) { recv(opOf(e)) }, func(a *match.Arrival) {
		if from := messageOf(a).from; from != nil {
			send(from)
		}
	})
	p.mu.Unlock()
	p.far.mu.Lock()
	for _, op := range p.far.sends {
		send(op)
	}
	p.far.mu.Unlock()
}

// asleep counts the goroutines that sleep in blocking calls: those whose operation is queued, and
// callers where ranks meet that have said that they sleep. Whoever wakes one takes that away
// before.
func (w *world) asleep() (n int, version uint64) {
	version = uint64(w.activity())
	for _, p := range w.own {
		p.queued(func(op *recvOp) {
			if op.waiter == blockedCall && !op.away.Load() {
				n++
			}
		}, func(op *sendOp) {
			if op.waiter == blockedCall {
				n++
			}
		})
	}
	for _, st := range w.stages.All() {
		k, v := st.Asleep()
		n, version = n+k, version+v
	}
	return n, version
}

// describe says for each rank here what it waits for, in which call and where, or where else it is.
func (w *world) describe(goroutines map[uint64]*waits.Goroutine) []string {
	pending := w.pending()
	var lines []string
	for _, p := range w.own {
		line := fmt.Sprintf("rank %d", p.rank)
		if p.returned.Load() {
			lines = append(lines, line+" has returned")
			continue
		}
		if g := goroutines[p.goroutine.Load()]; g != nil {
			if f, waits := g.Call(); !waits {
				line += " is in " + g.String()
			} else if line += " waits in " + f.Func; f.At != "" {
				line += " at " + f.At
			}
		}
		if waits := pending[p]; len(waits) > 0 {
			line += ", for: " + strings.Join(waits, "; ")
		}
		lines = append(lines, line)
	}
	return lines
}

// pending are the operations of each rank that wait for another rank.
func (w *world) pending() map[*proc][]string {
	all := map[*proc][]string{}
	add := func(p *proc, text string) {
		switch n := len(all[p]); {
		case text == "":
		case n < maxStallLines:
			all[p] = append(all[p], text)
		case n == maxStallLines:
			all[p] = append(all[p], "and more")
		}
	}
	for _, p := range w.own {
		p.queued(func(op *recvOp) { add(p, op.describe()) }, func(op *sendOp) { add(op.c.proc, op.describe()) })
		p.ballots.Each(func(_ uint64, _ uint32, a *consensus.Agreement) {
			switch {
			case !a.Waits():
			case a.Instance.Mine.Kind == consensus.Leave:
				add(p, "the end of all ranks")
			default:
				add(p, "an agreement with "+(*Comm)(a.Group.(*voters)).place())
			}
		})
	}
	for _, st := range w.stages.All() {
		st.Waiting(func(h smcoll.Host, text string) {
			c := (*Comm)(h.(*host))
			add(c.proc, text+", at "+c.place())
		})
	}
	return all
}

func (op *recvOp) describe() string {
	switch {
	case op.c.ctx == leaving:
		return "the end of all ranks"
	case op.entry.Key.Ctx&1 == 0 && op.c.told != nil:
		if what := op.c.told(int(op.entry.Key.Src), int(op.entry.Key.Tag)); what != "" {
			return what + ", at " + op.c.place()
		}
		return ""
	case op.entry.Key.Ctx&1 == 0:
		return op.String()
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", op.entry.Key.Src, coll.Collective(op.expect), op.entry.Key.Tag, op.c.place())
}

func (op *sendOp) describe() string {
	if op.waiter == aSchedule {
		return fmt.Sprintf("rank %d to take %d bytes in collective number %d, from %s", op.dst, op.buf.Bytes(), op.tag, op.c.place())
	}
	return op.String()
}
