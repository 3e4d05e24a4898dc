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

const deadlockPause = 20 * time.Millisecond // between two counts of all goroutines

// dump is shared by runs that end together (the 10 ms are a guess). Tests have another.
var dump = waits.NewDump(10*time.Millisecond, waits.Goroutines)

// deadlockPeriod is how long nothing must have happened before the detector inspects goroutines,
// and the time between warnings.
var deadlockPeriod = time.Second // a variable for tests

// DeadlockError lists what each rank waits for. It matches ErrDeadlock.
type DeadlockError struct {
	Ranks []string // by rank, one or more lines each; then what tasks wait for
	For   time.Duration
}

// Error returns the full list.
func (e *DeadlockError) Error() string {
	return fmt.Sprintf("%v for %v:\n%s", ErrDeadlock, e.For, strings.Join(e.Ranks, "\n"))
}

// Is matches ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// EndsRun marks it as an error that tells why a run has ended.
func (e *DeadlockError) EndsRun() bool { return true }

// remoteDeadlock is a deadlock that the launcher has found.
type remoteDeadlock struct{ text string }

func (e *remoteDeadlock) Error() string        { return e.text }
func (e *remoteDeadlock) Is(target error) bool { return target == ErrDeadlock }
func (e *remoteDeadlock) EndsRun() bool        { return true }

// startDetector starts deadlock detection, and returns the function that stops it.
func (w *world) startDetector() (stop func()) {
	if w.detector == nil {
		return func() {}
	}
	quit, over := make(chan struct{}), make(chan struct{})
	go waits.Service(func() {
		defer close(over)
		w.detector.Run(quit)
	})()
	return func() {
		close(quit)
		<-over
	}
}

// newDetector returns the deadlock detector, nil if there is none. Processes have one only if each
// has exactly one rank.
func (w *world) newDetector() *deadlock.Detector {
	switch {
	case w.cfg.DeadlockWarnings < 0 || w.multiProcess && len(w.own) > 1:
		return nil
	case w.multiProcess:
		return deadlock.New((*deadlockHost)(w), w.own[0].rank, w.size, w.cfg.DeadlockWarnings, deadlockPeriod)
	default:
		return deadlock.New((*deadlockHost)(w), 0, 1, w.cfg.DeadlockWarnings, deadlockPeriod)
	}
}

// deadlockHost is the ranks of this process as the deadlock detector sees them.
type deadlockHost world

func (h *deadlockHost) Activity() int64 { return (*world)(h).activity() }
func (h *deadlockHost) Compare() bool   { return h.stale.askAll() }

// Inspect reports whether all ranks of this process wait, and nothing else in this process can act,
// or only goroutines of the program can. README.md, "Deadlocks", has the argument.
func (h *deadlockHost) Inspect() *deadlock.Inspection {
	w := (*world)(h)
	before := w.activity()
	census, ok := waits.Take()
	if !ok || census.Timed > 0 {
		return nil
	}
	found := &deadlock.Inspection{Certain: census.Closed() && (w.multiProcess || !census.Outside)}
	for _, p := range w.own {
		if p.underWay() {
			return nil
		}
		found.Sent += p.traffic.sent.Load()
		found.Here += p.traffic.received.Load()
	}
	if found.Certain {
		time.Sleep(deadlockPause)
		again, ok := waits.Take()
		found.Certain = ok && again.Same(census)
	}
	if !found.Certain && (census.Foreign() == 0 || waits.Elsewhere(runRank) > 0) {
		// ranks here are not in calls of this package, or no goroutine of the program exists that
		// may act
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

// The frames of Tell and Ask are not counted, so that asking changes nothing. If one cannot be
// sent, the run has failed, and reports that.

func (h *deadlockHost) SendReport(question uint64, found *deadlock.Inspection) {
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

func (h *deadlockHost) SendQuery(question uint64) {
	if !h.multiProcess {
		return
	}
	for r := 1; r < h.size; r++ {
		_ = h.own[0].ep.Send(r, fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, wire.BlockedQuery.Word()}})
	}
}

// receiveDeadlockFrame takes a frame of Tell or Ask. It does not block.
func (w *world) receiveDeadlockFrame(src int, f *fabric.Frame) {
	switch {
	case w.detector == nil: // no detection at this rank
	case wire.Protocol(f.Head[3]>>8) == wire.BlockedReport:
		var found *deadlock.Inspection
		if f.Head[4] != 0 {
			found = &deadlock.Inspection{Certain: f.Head[4] == 1, Waits: []string{string(f.Data[:min(len(f.Data), maxReason)])}, Sent: int64(f.Head[1]), Here: int64(f.Head[2])}
		}
		w.detector.HandleReport(src, f.Head[0], found)
	case src == 0:
		w.detector.HandleQuery(f.Head[0])
	}
}

func (h *deadlockHost) Warn(n int, ranks []string, lasts time.Duration) {
	d := &DeadlockError{Ranks: ranks, For: lasts}
	h.cfg.Logger.Warn("all ranks wait, and nothing is under way", "warning", n, "of", h.cfg.DeadlockWarnings, "ranks", d.Error())
}

// Suspect reports a possible deadlock to the user.
func (h *deadlockHost) Suspect(ranks []string, lasts time.Duration) {
	const what = "all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts"
	if waits := strings.Join(ranks, "\n"); h.cfg.logs {
		h.cfg.Logger.Warn(what, "for", lasts, "ranks", waits)
	} else {
		_, _ = fmt.Fprintf(stderr, "weft: for %v %s:\n%s\n", lasts, what, waits)
	}
}

// End ends the run. If there is a launcher, it ends the run at all ranks: all end for the same
// reason then, and with the launcher's exit status.
func (h *deadlockHost) End(ranks []string, lasts time.Duration) {
	d := &DeadlockError{Ranks: ranks, For: lasts}
	if h.reportDeadlock == nil || h.reportDeadlock(d.Error()) != nil {
		(*world)(h).end(d)
	}
}

func (h *deadlockHost) Remains() {
	if e := h.aborted.Load(); e != nil && !h.cfg.logs {
		_, _ = fmt.Fprintf(stderr, "weft: %v\nThe run is ended, but some ranks do not return.\n", e.cause)
	}
}

// stderr gets the reports that a user must see if there is no Logger. Tests replace it.
var stderr io.Writer = os.Stderr

// underWay reports whether payloads are on their way to the rank or from it.
func (p *proc) underWay() bool {
	p.remote.mu.Lock()
	defer p.remote.mu.Unlock()
	return len(p.remote.transfers) > 0 || p.traffic.pushes.Load() != 0
}

// maxDeadlockLines bounds the pending operations that a report lists of a rank.
const maxDeadlockLines = 8

// newParty returns the ranks of this process for package waits. Blocking calls are counted where
// they wait anyway, in the matchers and in shared-memory collectives; so sleeping in one costs
// nothing more.
func (w *world) newParty() *waits.Party {
	p := &waits.Party{
		Asleep:   func() (int, int, uint64) { n, version := w.asleep(); return n, 0, version },
		Describe: func() []string { return w.describe(dump.Shared()) },
	}
	if w.multiProcess {
		p.Outside = func() bool { return true }
	}
	return p
}

// activity is a number that changes with almost everything that happens to the ranks of this
// process.
func (w *world) activity() (n int64) {
	for _, p := range w.own {
		p.mu.Lock()
		n += int64(p.m.Seq)
		p.mu.Unlock()
		n += p.traffic.sent.Load() + p.traffic.received.Load() + p.traffic.pushes.Load()
	}
	return n
}

// queued calls recv with each receive that waits at the rank, and send with each send that waits:
// sends of this process to the rank, and the rank's own sends to other processes.
func (p *proc) queued(recv func(*recvOp), send func(*sendOp)) {
	p.mu.Lock()
	p.m.Each(func(e *match.Posted) { recv(opOf(e)) }, func(a *match.Arrival) {
		if from := messageOf(a).from; from != nil {
			send(from)
		}
	})
	p.mu.Unlock()
	p.remote.mu.Lock()
	for _, op := range p.remote.sends {
		send(op)
	}
	p.remote.mu.Unlock()
}

// asleep counts the goroutines that sleep in blocking calls: those whose operation is queued, and
// callers of shared-memory collectives that are marked as asleep. A goroutine that wakes one
// removes the operation or the mark first.
func (w *world) asleep() (n int, version uint64) {
	version = uint64(w.activity())
	for _, p := range w.own {
		p.queued(func(op *recvOp) {
			if op.waiter == blockedCall && !op.sendingFirst.Load() {
				n++
			}
		}, func(op *sendOp) {
			if op.waiter == blockedCall {
				n++
			}
		})
	}
	for _, st := range w.segments.All() {
		k, v := st.Asleep()
		n, version = n+k, version+v
	}
	return n, version
}

// describe returns for each rank here what it waits for, in which call and where; or where else it
// is.
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

// pending returns the operations of each rank that wait for another rank.
func (w *world) pending() map[*proc][]string {
	all := map[*proc][]string{}
	add := func(p *proc, text string) {
		switch n := len(all[p]); {
		case text == "":
		case n < maxDeadlockLines:
			all[p] = append(all[p], text)
		case n == maxDeadlockLines:
			all[p] = append(all[p], "and more")
		}
	}
	for _, p := range w.own {
		p.queued(func(op *recvOp) { add(p, op.describe()) }, func(op *sendOp) { add(op.c.proc, op.describe()) })
		p.agreements.Each(func(_ uint64, _ uint32, a *consensus.Agreement) {
			switch {
			case !a.Waits():
			case a.Instance.Mine.Kind == consensus.Leave:
				add(p, "the end of all ranks")
			default:
				add(p, "an agreement with "+(*Comm)(a.Group.(*agreementGroup)).label())
			}
		})
	}
	for _, st := range w.segments.All() {
		st.Waiting(func(h smcoll.Host, text string) {
			c := (*Comm)(h.(*memberHost))
			add(c.proc, text+", at "+c.label())
		})
	}
	return all
}

func (op *recvOp) describe() string {
	switch {
	case op.c.ctx == leaveCtx:
		return "the end of all ranks"
	case op.entry.Key.Ctx&1 == 0 && op.c.describeRecv != nil:
		if what := op.c.describeRecv(int(op.entry.Key.Src), int(op.entry.Key.Tag)); what != "" {
			return what + ", at " + op.c.label()
		}
		return ""
	case op.entry.Key.Ctx&1 == 0:
		return op.String()
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", op.entry.Key.Src, coll.Collective(op.expect), op.entry.Key.Tag, op.c.label())
}

func (op *sendOp) describe() string {
	if op.waiter == aSchedule {
		return fmt.Sprintf("rank %d to take %d bytes in collective number %d, from %s", op.dst, op.buf.Bytes(), op.tag, op.c.label())
	}
	return op.String()
}
