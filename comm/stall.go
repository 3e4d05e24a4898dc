// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"weft/internal/fabric"
	"weft/internal/launch"
)

// EnvDeadlock is the environment variable that says what is done about a deadlock where Config does not. The name is ParaStation MPI's.
const EnvDeadlock = "PSP_DEADLOCK_WARNINGS"

// stallPeriod is how long nothing must have happened before somebody looks closer, and the time between warnings.
const stallPeriod = time.Second

// maxStallGoroutines bounds the goroutines of a process that is looked at closer: it stops for that.
const maxStallGoroutines = 5000

// maxStallLines bounds the pending operations that a report has of a rank.
const maxStallLines = 8

// deadlockWarnings returns the setting of the environment.
func deadlockWarnings() (int, error) {
	s := os.Getenv(EnvDeadlock)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < -1 {
		return 0, fmt.Errorf("%w: %s=%q; it must be a number of warnings before the run ends, or -1 to wait for ever", ErrConfig, EnvDeadlock, s)
	}
	return n, nil
}

// DeadlockError says who waits for what. It matches ErrDeadlock.
type DeadlockError struct {
	Ranks []string // by rank, one or more lines each
	For   time.Duration
}

// Error has all of it.
func (e *DeadlockError) Error() string {
	return fmt.Sprintf("%v for %v:\n%s", ErrDeadlock, e.For, strings.Join(e.Ranks, "\n"))
}

// Is makes it match ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// remoteDeadlock is a deadlock that the launcher has found.
type remoteDeadlock struct{ text string }

func (e *remoteDeadlock) Error() string        { return e.text }
func (e *remoteDeadlock) Is(target error) bool { return target == ErrDeadlock }

// body is the goroutine that runs a rank's function.
type body struct {
	id   atomic.Uint64 // of the goroutine; 0: not running yet
	over atomic.Bool
}

// begin is called by the goroutine itself.
func (b *body) begin() {
	var buf [64]byte
	text := string(buf[:runtime.Stack(buf[:], false)])
	id, _ := goroutineHead(text)
	b.id.Store(id)
}

// counted is an endpoint that counts what it sends, so that the launcher can tell whether anything is under way.
type counted struct {
	fabric.Endpoint
	p *proc
}

// text is what goes to the launcher.
func (s *stall) text() string {
	text := strings.Join(s.waits, "\n")
	return text[:min(len(text), maxReason)]
}

func (c counted) Send(dst int, f fabric.Frame) error {
	c.p.traffic.sent.Add(1)
	err := c.Endpoint.Send(dst, f)
	if err != nil {
		c.p.traffic.sent.Add(-1)
	}
	return err
}

func (c counted) Drop(peer int, err error) {
	if d, ok := c.Endpoint.(fabric.Dropper); ok {
		d.Drop(peer, err)
	}
}

func (c counted) Push(dst int, key uint64, data []byte, done func(error)) {
	c.p.traffic.pushes.Add(1)
	c.Endpoint.Push(dst, key, data, func(err error) {
		c.p.traffic.pushes.Add(-1)
		done(err)
	})
}

// traffic are the frames of a rank whose peers are other processes.
type traffic struct {
	sent, here atomic.Int64
	pushes     atomic.Int64 // under way
}

// stall is what one look at the ranks of this process has found.
type stall struct {
	doubts     []string // goroutines that may act, though they wait: it is a stall only if none does
	waits      []string // by rank here; nil: some rank does not wait, or may not
	sent, here int64
}

// stalls looks for deadlocks. One goroutine owns it.
type stalls struct {
	w        *world
	last     int64 // activity
	since    time.Time
	warnings int
	doubtful int  // looks that have found nothing for sure, since then
	doubted  bool // and that was logged
	next     time.Time
	// report takes a stall of this process to the launcher, and nil when it is over; nil: all ranks are here.
	report   func(*stall)
	reported bool
	asks     chan uint64 // of the launcher, whether what was reported still holds
	answer   func(wave uint64, found *stall)
}

// tell has stalls of this process, which has one rank, go to the launcher. Calls that fail do because the job ends.
func (s *stalls) tell(client *launch.Client) {
	s.asks = make(chan uint64, 1)
	client.OnAsk(func(question uint64) {
		select {
		case <-s.asks: // nobody waits for the answer to an earlier one
		default:
		}
		s.asks <- question
	})
	s.answer = func(question uint64, found *stall) {
		if found == nil {
			_ = client.Moves(question)
			return
		}
		_ = client.Stalls(question, found.sent, found.here, found.text())
	}
	s.report = func(found *stall) { s.answer(0, found) }
}

// watchStalls begins to look for deadlocks, and returns what ends that. Among several processes it takes the launcher to know.
func (w *world) watchStalls() (quiet func()) {
	s := w.stalls
	if s == nil || w.apart && s.report == nil {
		return func() {}
	}
	if w.apart {
		for _, p := range w.procs {
			if p != nil {
				p.ep = counted{p.ep, p}
			}
		}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		s.watch(stop)
	}()
	return func() {
		close(stop)
		<-over
	}
}

// watch looks for deadlocks until stop is closed. Every second it looks whether anything has happened, which costs a lock per
// rank; only if nothing has, and each rank has operations that wait, does it look at the goroutines.
func (s *stalls) watch(stop <-chan struct{}) {
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			s.tick(now)
		case wave := <-s.asks:
			found := s.look()
			if found == nil || s.w.activity() != s.last {
				found, s.reported = nil, false
			}
			s.answer(wave, found)
		}
	}
}

func (s *stalls) tick(now time.Time) {
	if a := s.w.activity(); a != s.last || s.since.IsZero() {
		s.last, s.since, s.warnings, s.doubtful, s.doubted, s.next = a, now, 0, 0, false, time.Time{}
		s.retract()
		return
	}
	if now.Before(s.next) {
		return
	}
	found := s.survey()
	if found.certain() == nil {
		s.retract()
		if found != nil && s.doubtful >= doubtsUntil && !s.doubted {
			s.doubted = true
			s.w.cfg.Logger.Warn("all ranks wait, and nothing is under way: a deadlock, unless one of these goroutines of the program acts",
				"for", now.Sub(s.since).Round(100*time.Millisecond), "ranks", strings.Join(found.waits, "\n"), "goroutines", strings.Join(found.doubts, "\n"))
		}
		// What is in the way mostly stays: look less often.
		s.doubtful++
		s.next = now.Add(stallPeriod << min(s.doubtful, 6))
		return
	}
	d := &DeadlockError{Ranks: found.waits, For: now.Sub(s.since).Round(100 * time.Millisecond)}
	if s.warnings < s.w.cfg.DeadlockWarnings {
		s.warnings++
		s.w.cfg.Logger.Warn("all ranks wait, and nothing is under way", "warning", s.warnings, "of", s.w.cfg.DeadlockWarnings, "ranks", d.Error())
		return
	}
	if s.report == nil {
		s.w.end(d)
		return
	}
	if !s.reported {
		s.reported = true
		s.report(found)
	}
}

func (s *stalls) retract() {
	if s.reported {
		s.reported = false
		s.report(nil)
	}
}

// activity is a number that changes with everything that happens to the ranks of this process, mostly.
func (w *world) activity() (n int64) {
	for _, p := range w.procs {
		if p != nil {
			p.mu.Lock()
			n += int64(p.m.seq)
			p.mu.Unlock()
			n += p.traffic.sent.Load() + p.traffic.here.Load() + p.traffic.pushes.Load()
		}
	}
	return n
}

// survey says whether all ranks of this process wait, in calls of this package, for something that nothing else in this process can bring, or nothing but the goroutines that are its doubts: nil if it is not so. The
// state of all goroutines is taken at one moment, in which the program stands still. README.md, "Deadlocks", has the argument.
func (s *stalls) survey() *stall {
	w := s.w
	if timedWaits.Load() != 0 || runtime.NumGoroutine() > maxStallGoroutines {
		return nil
	}
	pending, atHub := w.pending(), w.hubs.waiting(nil)
	found := &stall{}
	for r, p := range w.procs {
		if p == nil {
			continue
		}
		if !w.bodies[r].over.Load() && (len(pending[r]) == 0 && !atHub || w.bodies[r].id.Load() == 0) {
			return nil
		}
		if p.traffic.pushes.Load() != 0 {
			return nil
		}
		p.far.mu.Lock()
		under := len(p.far.pulls)
		p.far.mu.Unlock()
		if under != 0 {
			return nil
		}
		found.sent += p.traffic.sent.Load()
		found.here += p.traffic.here.Load()
	}
	before := w.activity()
	sites := map[uint64]string{}
	for _, g := range strings.Split(allStacks(), "\n\n") {
		id, state := goroutineHead(g)
		rank := slices.IndexFunc(w.bodies, func(b *body) bool { return b != nil && b.id.Load() == id && !b.over.Load() })
		switch {
		case rank >= 0:
			site, waits := waitingIn(g, state)
			if !waits {
				return nil
			}
			sites[id] = site
		case harmless(g, state):
		case !idle(state):
			return nil
		default:
			found.doubt(g)
		}
	}
	if w.activity() != before || timedWaits.Load() != 0 {
		return nil
	}
	// Nothing moves: the places are what they are.
	w.hubs.waiting(func(r int, text string) { pending[r] = append(pending[r], text) })
	for r, p := range w.procs {
		if p == nil {
			continue
		}
		b := w.bodies[r]
		if b.over.Load() {
			found.waits = append(found.waits, fmt.Sprintf("rank %d has returned", r))
			continue
		}
		site, ok := sites[b.id.Load()]
		if !ok || len(pending[r]) == 0 {
			return nil
		}
		found.waits = append(found.waits, fmt.Sprintf("rank %d waits in %s, for: %s", r, site, strings.Join(pending[r], "; ")))
	}
	return found
}

// pending are the operations of each rank that wait for another rank.
func (w *world) pending() [][]string {
	all := make([][]string, w.size)
	add := func(r int, text string) {
		switch n := len(all[r]); {
		case n < maxStallLines:
			all[r] = append(all[r], text)
		case n == maxStallLines:
			all[r] = append(all[r], "and more")
		}
	}
	for r, p := range w.procs {
		if p == nil {
			continue
		}
		p.mu.Lock()
		p.m.extract(func(e *posted) bool {
			add(r, e.op.describe())
			return false
		}, func(a *arrival) bool {
			if from := a.msg.from; from != nil {
				add(from.c.proc.rank, from.describe())
			}
			return false
		})
		p.mu.Unlock()
		p.far.mu.Lock()
		for _, op := range p.far.sends {
			add(r, op.describe())
		}
		p.far.mu.Unlock()
		p.boards.mu.Lock()
		for _, b := range p.boards.all {
			if waits := b.waits(); waits != "" {
				add(r, waits)
			}
		}
		p.boards.mu.Unlock()
		p.ballots.mu.Lock()
		for _, k := range p.ballots.circles {
			for _, a := range k.open {
				switch {
				case a.c == nil || a.told:
				case a.b.mine.kind == voteLeave:
					add(r, "the end of all ranks")
				default:
					add(r, "an agreement with "+a.c.place())
				}
			}
		}
		p.ballots.mu.Unlock()
	}
	return all
}

// waiting says whether somebody waits at a hub, and if f is not nil, who for what. The latter is for when nobody goes on.
func (s *hubs) waiting(f func(rank int, text string)) (some bool) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, w := range all {
		h := w.Value()
		if h == nil {
			continue
		}
		for r := range h.ranks {
			places := h.ranks[r].places.Load()
			if places == nil {
				continue
			}
			for i := range places {
				p := &places[i]
				state := p.state.Load()
				seq := state >> phaseBits
				if _, waits := p.waits(seq); !waits {
					continue
				}
				some = true
				if f != nil {
					f(p.c.proc.rank, fmt.Sprintf("rank %d in %v number %d, at %s", h.here(seq, 0), p.what, seq, p.c.place()))
				}
			}
		}
	}
	return some
}

func (op *recvOp) describe() string {
	switch {
	case op.c.ctx == leaving:
		return "the end of all ranks"
	case op.entry.key.ctx&1 == 0:
		return op.String()
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", op.entry.key.src, collective(op.expect), op.entry.key.tag, op.c.place())
}

func (op *sendOp) describe() string {
	if op.waiter == schedule {
		return fmt.Sprintf("rank %d to take %d bytes in collective number %d, from %s", op.dst, op.buf.Bytes(), op.tag, op.c.place())
	}
	return op.String()
}

// timedWaits are the waits of this process that a deadline will end.
var timedWaits atomic.Int64

// timed counts a wait that a context may end by its deadline, until the returned function is called.
func timed(ctx context.Context) func() {
	if _, ok := ctx.Deadline(); !ok {
		return nothing
	}
	timedWaits.Add(1)
	return notTimed
}

func nothing() {}

func notTimed() { timedWaits.Add(-1) }

// allStacks returns the stacks of all goroutines, at one moment.
func allStacks() string {
	buf := make([]byte, 64<<10)
	for {
		if n := runtime.Stack(buf, true); n < len(buf) {
			return strings.TrimSpace(string(buf[:n]))
		}
		buf = make([]byte, 2*len(buf))
	}
}

// goroutineHead reads "goroutine 7 [chan receive, 2 minutes]:".
func goroutineHead(g string) (id uint64, state string) {
	rest, ok := strings.CutPrefix(g, "goroutine ")
	if !ok {
		return 0, ""
	}
	number, rest, _ := strings.Cut(rest, " ")
	id, _ = strconv.ParseUint(number, 10, 64)
	// There may be more before the bracket, as "gp=0x... m=nil", and more in it.
	if i := strings.IndexByte(rest, '['); i >= 0 {
		state, _, _ = strings.Cut(rest[i+1:], "]")
		state, _, _ = strings.Cut(state, ",")
		state, _, _ = strings.Cut(state, " (") // "(scan)", "(durable)"
	}
	return id, state
}

// parked are the functions in which a goroutine waits for an operation of this package to be completed by another rank.
var parked = []string{"(*proc).await", "(*sought).await", "(*Request).park", "WaitAny", "(*hub).run", "token.take"}

const here = "weft/comm."

// waitingIn says whether a body waits in a call of this package, and what calls it, where.
func waitingIn(g, state string) (site string, waits bool) {
	if state != "chan receive" && state != "select" {
		return "", false
	}
	lines := strings.Split(g, "\n")[1:]
	call := ""
	for i := 0; i+1 < len(lines); i += 2 {
		name := lines[i]
		if k := strings.LastIndexByte(name, '('); k > 0 {
			name = name[:k]
		}
		own, inside := strings.CutPrefix(name, here)
		switch {
		case strings.HasPrefix(name, "runtime."):
		case call == "" && (!inside || !slices.Contains(parked, own)):
			return "", false // in something else
		case inside && !strings.HasSuffix(strings.SplitN(strings.TrimSpace(lines[i+1]), ":", 2)[0], "_test.go"):
			call = own
			if own == "runRank" || strings.HasPrefix(own, "(*world).") {
				return "the end of its function", true
			}
		default:
			place, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +")
			return strings.TrimPrefix(strings.ReplaceAll(call, "(*Comm).", ""), "(*Request).") + " at " + place, true
		}
	}
	return call, call != ""
}

// bystanders are goroutines that wait for others, or for news from outside, and begin no communication.
var bystanders = []string{
	here + "(*world).run(", here + "(*stalls).", here + "boot.", "weft/internal/event.(*Recorder).read(", "os/signal.", "testing.(*T).Run(", "testing.runFuzzing(", "testing.(*F).", "testing.(*M).",
}

// harmless says whether a goroutine that is no rank's body cannot complete what the ranks wait for.
func harmless(g, state string) bool {
	if strings.Contains(g, here+"runRank(") {
		return false // of another run
	}
	// A fabric's or the launcher's, between two frames: a frame that it has not delivered yet is counted as under way.
	if strings.Contains(g, "weft/internal/fabric") || strings.Contains(g, "weft/internal/launch") {
		return !strings.Contains(g, here+"(*proc).") && !strings.Contains(g, here+"(*far).")
	}
	if state == "running" {
		return strings.Contains(g, here+"(*stalls).")
	}
	return slices.ContainsFunc(bystanders, func(s string) bool { return strings.Contains(g, s) })
}
