// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"weft/comm/internal/callback"
	"weft/comm/internal/coll"
	"weft/comm/internal/consensus"
	"weft/comm/internal/count"
	"weft/comm/internal/smcoll"
	"weft/internal/boot"
	"weft/internal/env"
	"weft/internal/event"
	"weft/internal/event/output"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/launch"
	"weft/internal/processors"
	"weft/internal/progress"
	"weft/internal/waits"
	"weft/trace"
)

// Config configures a run. The zero Config works. It is copied.
type Config struct {
	// Ranks is the number of ranks, at most 1048576. 0: the environment's WEFT_RANKS, or 1.
	Ranks int
	// EagerLimit is the payload in bytes up to which a message that no receive waits for is copied,
	// so that its sender can go on. 0: what the fabric advises. Negative: never.
	EagerLimit int
	// Stats makes each communicator count messages and bytes by peer, for Comm.Stats. The
	// environment's WEFT_STATS does the same.
	Stats bool
	// Survive: when a rank dies, operations that need it fail with ErrPeerLost, and the others go
	// on; see Comm.Failed, Revoke, Shrink and Agree. A rank dies when its process does, and also
	// when its body returns an error or panics. false: the environment's WEFT_SURVIVE decides;
	// without it the run ends for all. The same on all ranks.
	Survive bool
	// DeadlockWarnings: when all ranks wait for each other, and nothing else can go on, the run
	// ends with a *DeadlockError. Before that, this many warnings go to Logger, a second apart. 0:
	// the environment's PSP_DEADLOCK_WARNINGS, or none. Negative: the run never ends so.
	DeadlockWarnings int
	// Trace records messages and collectives: see package weft/trace, which makes one. nil: the
	// recording that the environment's WEFT_TRACE asks for, if it does.
	Trace *trace.Recorder
	// Logger takes the few log lines of a run. nil: discard.
	Logger *slog.Logger

	logs   bool                            // Logger was given
	blame  func(cause error, certain bool) // see world; set by boot
	chosen coll.Chosen                     // algorithms of collectives; set by validate

	spare bool // EnvSpare; set by validate

	stats *count.Settings // what is counted; set by validate, nil: nothing

	node boot.Near       // set if a launcher has started the ranks
	hold <-chan struct{} // for tests: see progress.Config
}

// Environment variables. They count where Config leaves a setting open.
const (
	EnvRanks   = "WEFT_RANKS"   // the number of ranks
	EnvSurvive = "WEFT_SURVIVE" // whether the run survives the death of ranks: 0 or 1
	// whether Go has one processor more in a rank that is a process: 0 or 1
	EnvSpare = "WEFT_SPARE"
	// from how many bytes on a message between two processes of a node is copied once, by the
	// kernel
	EnvSingleCopy = "WEFT_SINGLE_COPY"
	// algorithms of collectives by messages, for trials: such as "allreduce=halves bcast=tree"
	EnvCollectives = "WEFT_COLLECTIVES"
	// the file that gets what Stats returns, of all communicators, at the end of a run
	EnvStats = "WEFT_STATS"
	// how many warnings come before a deadlock ends the run; -1: none does
	EnvDeadlock = "PSP_DEADLOCK_WARNINGS"
)

// Run runs body once per rank, each on a goroutine of this process, and returns when all have
// returned. The first body that returns an error or panics aborts the run: pending operations of
// all ranks complete with ErrAborted and later ones fail with it, so that the other bodies can
// return; Run then returns that first error as a *RankError. When ctx ends, the run is aborted
// likewise. Run then returns an *Error that wraps the context's cause, matches
// context.DeadlineExceeded if a deadline has ended it, and lists what each rank waited for.
// Operations that are still pending when all bodies have returned complete with ErrAborted and
// ErrEnded; but a collective that some rank has not begun is ErrMismatch, also of Run. Run leaves
// no goroutine behind.
//
// With Config.Survive a body that returns an error or panics is the death of its rank only, and Run
// returns the errors of all such ranks, joined, each a *RankError.
func Run(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	n, err := cfg.validate()
	if err != nil {
		return runError(err)
	}
	if body == nil {
		return runError(fmt.Errorf("%w: the function of the ranks is nil", ErrConfig))
	}
	if ctx.Err() != nil {
		return runError(waits.Cause(ctx))
	}
	eps, err := inproc.New(n)
	if err != nil {
		return runError(err)
	}
	if bounds := inproc.Division(ctx, n); bounds != nil {
		return runDivided(ctx, cfg, eps, bounds, body)
	}
	return newWorld(ctx, cfg, eps).run(ctx, body)
}

// run runs body on the ranks of this process, and ends the run.
func (w *world) run(ctx context.Context, body func(c *Comm) error) error {
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		// Before the ranks unwind; the report also has what tasks wait for.
		w.cancelled(waits.End(ctx, func() []string { return append(w.describe(dump.Shared()), waits.Describe(w.party)...) }))
	})
	defer waits.Join(w.party)()
	w.stale.start(w)
	stopDetector := w.startDetector()
	var wg sync.WaitGroup
	for _, p := range w.own {
		wg.Go(func() { p.run(body) })
	}
	waits.Call(wg.Wait)
	w.stale.stop()
	stopDetector()
	if !stop() {
		<-fired
	}
	for _, p := range w.own {
		if err := p.unreported(); err != nil {
			w.failed(p.rank, &RankError{Rank: p.rank, Err: err})
		}
	}
	err := w.publishCounters()
	w.end(ErrEnded)
	<-w.killed
	for _, p := range w.own {
		p.mapped.close()
		err = errors.Join(err, p.ep.Close())
	}
	w.ends.wait()
	w.unobserve()
	switch cause := w.aborted.Load().cause.(type) {
	case *RankError:
		return cause
	default:
		if cause != ErrEnded {
			return runError(cause)
		}
	}
	if err != nil {
		return runError(err)
	}
	return w.deaths.joined()
}

// run runs body as the rank.
func (p *proc) run(body func(c *Comm) error) {
	w := p.world
	c := w.comm(p.rank)
	p.count(c)
	c.joinMemory(smcoll.World)
	p.addComm(c)
	p.goroutine.Store(waits.ID())
	defer p.returned.Store(true)
	err := runRank(c, body)
	if err == nil {
		err = p.compareAll()
	}
	if err == nil && w.multiProcess {
		err = w.sendCounters(p)
	}
	if err != nil {
		w.failed(p.rank, &RankError{Rank: p.rank, Err: err})
	} else if w.multiProcess {
		w.leave(p)
	}
}

// cancelled handles the end of the context that the run was started with. In one process it ends
// the run for all ranks. Among processes that survive losses it is the death of this rank only.
func (w *world) cancelled(cause error) {
	if w.survive && w.multiProcess {
		for _, p := range w.own {
			w.markDead(p.rank, cause)
		}
		return
	}
	w.end(cause)
}

// leave returns when all ranks of all processes have returned, or the run is aborted: until then
// another rank may need something from this one.
func (w *world) leave(p *proc) {
	c := w.comm(p.rank)
	c.ctx, c.hist = leaveCtx, p.findComm(0, nil).hist
	d := c.disagreement(p.failure.Load())
	if w.survive || d != nil && d.reported.Load() {
		// The program has handled the disagreement, so it is no failure; but no barrier is possible
		// after it.
		_, r := c.agree(consensus.Leave, 0) // a barrier of the ranks that live
		_ = wait(r)
		return
	}
	// Barrier also fails if the run is aborted; end has the reason then.
	if err := c.Barrier(); errors.Is(err, ErrMismatch) {
		w.failed(p.rank, &RankError{Rank: p.rank, Err: err})
	}
}

func runError(err error) error {
	return &Error{Op: "run", Rank: NoPeer, Peer: NoPeer, Tag: NoPeer, Err: err}
}

// validate returns the number of ranks, or all problems of the configuration.
func (cfg *Config) validate() (n int, err error) {
	var problems []error
	read := func(s env.Setting[int]) int {
		n, err := s.Value()
		problems = append(problems, err)
		return n
	}
	switch n = cfg.Ranks; {
	case n < 0 || n > env.MaxRanks:
		return 0, fmt.Errorf("%w: Ranks is %d; it must be 1 to %d, or 0 for %s", ErrConfig, n, env.MaxRanks, EnvRanks)
	case n == 0:
		n = read(env.Ranks)
	}
	if cfg.DeadlockWarnings == 0 {
		cfg.DeadlockWarnings = read(env.DeadlockWarnings)
	}
	if !cfg.Survive {
		cfg.Survive = read(env.Survive) == 1
	}
	cfg.spare = read(env.Spare) == 1
	cfg.stats, err = count.New(cfg.Stats, histogramOut)
	problems = append(problems, err)
	cfg.chosen, err = coll.ParseChosen(EnvCollectives, env.Collectives.Text())
	// This program or this build may never read these, but a mistake in them is reported all the
	// same.
	problems = append(problems, err, env.UseMPI.Problem(), env.MPISleep.Problem(), env.Bound.Problem())
	if err := errors.Join(problems...); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if cfg.Trace == nil {
		rec, err := output.FromEnvironment()
		if err != nil {
			return 0, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		cfg.Trace = (*trace.Recorder)(rec)
	}
	env.Warn(cfg.Logger, os.Stderr)
	if cfg.logs = cfg.Logger != nil; !cfg.logs {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return n, nil
}

func init() {
	env.Collectives.Check = func(text string) error {
		_, err := coll.ParseChosen(EnvCollectives, text)
		return err
	}
}

// runRank runs one body and turns a panic into an error.
func runRank(c *Comm, body func(c *Comm) error) (err error) {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		} else if !returned {
			err = errors.New("the body left its goroutine (runtime.Goexit)")
			// the return value is lost: this goroutine ends here
			c.world.failed(c.rank, &RankError{Rank: c.rank, Err: err})
		}
	}()
	err = body(c)
	returned = true
	return err
}

func (d *deaths) add(r int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.all, func(e *RankError) bool { return e.Rank == r }) {
		return
	}
	of, ok := errors.AsType[*RankError](err)
	if !ok || of.Rank != r {
		of = &RankError{Rank: r, Err: err}
	}
	d.all = append(d.all, of)
}

// joined returns the deaths as one error, nil if there are none.
func (d *deaths) joined() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 1 {
		return d.all[0]
	}
	errs := make([]error, len(d.all))
	for i, e := range d.all {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// newWorld returns the run of the ranks whose endpoints are given. All other ranks are in other
// processes.
func newWorld(ctx context.Context, cfg Config, eps []fabric.Endpoint) *world {
	n := eps[0].Size()
	w := &world{calls: callback.NewSet(processors.Count()), cfg: cfg, blame: cfg.blame, memoryColls: !onlyMessages.Load() && cfg.stats == nil, survive: cfg.Survive, size: n, multiProcess: len(eps) < n, killed: make(chan struct{}), local: make([]*proc, n)}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, ep := range eps {
		w.own = append(w.own, newProc(w, ep, len(eps)))
	}
	for r := range n {
		w.local[r], _ = eps[0].Local(r).(*proc)
	}
	w.party = w.newParty()
	w.detector = w.newDetector()
	w.observe((*event.Recorder)(cfg.Trace))
	return w
}

// at returns rank r of the run if it is in this process, else nil.
func (w *world) at(r int) *proc {
	if i := r - w.own[0].rank; uint(i) < uint(len(w.own)) {
		return w.own[i]
	}
	return nil
}

// pace configures how the ranks of this process, of which there are so many, yield to others.
func (w *world) pace(ranks int) progress.Config {
	near, processors := cmp.Or(w.cfg.node.Ranks, w.size), cmp.Or(w.cfg.node.Processors, runtime.NumCPU())
	return progress.Config{Ranks: ranks, Crowded: near > processors, Full: 2*near > processors, Hold: w.cfg.hold}
}

// comm returns rank r's communicator of all ranks.
func (w *world) comm(r int) *Comm {
	p := w.at(r)
	limit := w.cfg.EagerLimit
	if limit == 0 {
		limit = p.ep.Caps(r).EagerLimit
	}
	c := &Comm{world: w, proc: p, rank: r, size: w.size, eager: uint64(max(limit, 0)), peers: w.local}
	c.hist = &history{c: c}
	return c
}

// end ends the run with a cause, unless it has ended: all pending operations complete with the
// cause. If this call was the first, it returns when that is done.
func (w *world) end(cause error) { w.endHere(cause, true) }

// endHere ends the run for the ranks of this process. It returns false if it has ended before.
// tell: the other processes are told before the run can close its endpoints, even if the ranks of
// this one return meanwhile.
func (w *world) endHere(cause error, tell bool) bool {
	a := &abortError{cause: cause}
	w.endMu.Lock()
	if w.aborted.Load() != nil {
		w.endMu.Unlock()
		return false
	}
	if w.blame != nil {
		w.blame(cause, true) // before any operation here can fail with it
	}
	w.aborted.Store(a)
	w.endMu.Unlock()
	w.anyFailure.Store(true)
	if cause != ErrEnded {
		w.cfg.Logger.Error("run aborted", "cause", cause)
		if w.hasFailed != nil {
			w.hasFailed.Store(true)
		}
	}
	w.cancel(a)
	defer close(w.killed) // also if a callback panics
	for _, p := range w.own {
		p.kill(a)
	}
	w.segments.Progress() // once, for all ranks
	if tell {
		w.tellEnd(cause)
	}
	return true
}

// tellEnd tells the other processes that the run ends, if the cause is one of this process.
func (w *world) tellEnd(cause error) {
	if !w.multiProcess || cause == ErrEnded || errors.As(cause, new(*RemoteError)) || errors.Is(cause, launch.ErrAborted) || errors.As(cause, new(*remoteDeadlock)) {
		return // they are told by others, or have been
	}
	w.own[0].tellEnd(cause)
}

// runDivided is Run for tests of packages above this one: it treats the ranks as if they were in
// several processes, the first ranks of which bounds has. It returns the error of the rank that
// ended the run.
func runDivided(ctx context.Context, cfg Config, eps []fabric.Endpoint, bounds []int, body func(c *Comm) error) error {
	parts := len(bounds) - 1
	worlds := make([]*world, parts)
	for i := range worlds { // all are bound before any of them runs
		worlds[i] = newWorld(ctx, cfg, inproc.Part(eps, bounds[i], bounds[i+1]))
	}
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for i, w := range worlds {
		wg.Go(func() { errs[i] = w.run(ctx, body) })
	}
	waits.Call(wg.Wait)
	for i, err := range errs {
		if of, ok := errors.AsType[*RankError](err); !ok || (of.Rank >= bounds[i] && of.Rank < bounds[i+1]) {
			return err
		}
	}
	return errs[0]
}
