// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"weft/internal/race"
	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/guests"
	"weft/task/internal/pool"
	"weft/task/internal/sched"
	"weft/task/internal/stuck"
)

// A Runtime runs tasks on a fixed number of slots. Make one with [New], and
// close it when it is no longer needed. All methods may be called by any goroutine.
type Runtime struct {
	// Constant. Each task that ends looks at probe, so nothing that is written shares its cache line.
	cfg   Config
	probe *probe // of goroutines without a slot; nil if nobody observes the runtime

	slots struct {
		all []*slot
		wg  sync.WaitGroup // slots whose loop has not ended
	}
	sched  sched.Scheduler
	guests guests.Guests
	polls  polls
	pool   pool.Pool
	window window
	spares spares
	life   life
	still  stuck.Watch
	looked lastLook
	party  *waits.Party
	depart func() // takes party back
}

// New starts a runtime. It panics if the configuration or the environment is not legal;
// [Open] returns the error instead.
func New(cfg Config) *Runtime {
	rt, err := Open(cfg)
	if err != nil {
		panic(err)
	}
	return rt
}

// Open starts a runtime. The error says what in the configuration or the
// environment is not legal, and what is.
func Open(cfg Config) (*Runtime, error) { return open(cfg, tuning{rounds: sched.Rounds}) }

// tuning is what tests choose, since no program needs to.
type tuning struct {
	rounds    int           // looks at everything before a slot parks
	deadlock  time.Duration // what lasts so long ends the runs; 0: the default
	stealSeed uint64        // decides the order in which slots look at others
}

// open is Open with a tuning.
func open(cfg Config, tune tuning) (*Runtime, error) {
	rt, err := build(cfg, tune)
	if err != nil {
		return nil, err
	}
	if rt.probe != nil {
		rt.probe.open()
	}
	rt.enlist()
	rt.still.Open((*host)(rt), &rt.sched, stuck.Config{
		Slots: rt.Workers(), Watchdog: rt.cfg.Watchdog, Deadlock: tune.deadlock, Patient: rt.cfg.waitForEver, Calls: callsBody(),
	})
	rt.party = rt.newParty()
	rt.depart = waits.Join(rt.party)
	for _, s := range rt.slots.all {
		xatomic.Go(s.loop)
	}
	return rt, nil
}

// build makes a runtime without goroutines.
func build(cfg Config, tune tuning) (*Runtime, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	rt := &Runtime{cfg: cfg}
	rt.window.init(rt)
	rt.pool.Init(func() { rt.sched.EachParked(func(s *sched.Slot) { rt.slots.all[s.ID].shrink() }) })
	slots := make([]*sched.Slot, cfg.Workers)
	for id := range slots {
		s := &slot{rt: rt}
		s.flow.Join = join
		slots[id] = &s.Slot
		rt.slots.all = append(rt.slots.all, s)
	}
	rt.sched.Init((*host)(rt), slots, tune.rounds, tune.stealSeed)
	rt.observe()
	rt.slots.wg.Add(cfg.Workers)
	rt.spares.rt = rt
	return rt, nil
}

// vet panics if rt was not made by New, or ctx is nil: op would fail on it half-way.
func (rt *Runtime) vet(op string, ctx context.Context) {
	if rt.slots.all == nil {
		panic("task: " + op + " on a Runtime that New did not make; the zero Runtime has no slots")
	}
	if ctx == nil {
		panic("task: " + op + " with a nil context; use context.Background")
	}
}

// Workers returns the number of slots.
func (rt *Runtime) Workers() int { return len(rt.slots.all) }

// Close waits for the calls of Run that are under way and for all detached tasks, ends all goroutines of the
// runtime and returns nil. What these still run may start further runs and detached tasks, which Close waits
// for as well; all others get [ErrClosed] from the moment on that Close is called. Other calls of Close, at the same time or later, return when the
// first one does.
//
// It panics if it is called from where it would wait for its caller: in a task, also in its Blocking, in an OnReady, in a function of
// Poll, in a callback of a detached task. What it cannot know is that a task waits for the goroutine that calls it; the watchdog names such a task.
func (rt *Runtime) Close() error {
	rt.vet("Close", context.Background())
	if where, _ := rt.caller(); where != "" {
		panic("task: Close inside " + where + ", which it would wait for")
	}
	if !rt.life.close() {
		return nil
	}
	defer close(rt.life.over)
	rt.delist()
	rt.still.Close()
	rt.depart()
	if rt.probe != nil {
		rt.probe.stop()
	}
	rt.sched.Close()
	rt.slots.wg.Wait()
	rt.sched.Free()
	rt.window.close()
	if rt.probe != nil {
		rt.probe.close()
	}
	rt.pool.Close()
	return rt.spares.close()
}

// life counts the runs, so that Close can wait for them:
//
//	open      runs begin and end
//	closing   only runs that other runs start begin; the last one that ends closes last
//	closed    no run begins; Close ends the goroutines, and then closes over
//
// A run that starts another one is counted until after that: so in closing no run is missed, and none begins once last is closed.
type life struct {
	mu     sync.Mutex
	runs   int           // runs under way. +checklocks:mu
	closed bool          // closing, or closed if runs is zero. +checklocks:mu
	last   chan struct{} // closed when the last run ends after close; set with closed
	over   chan struct{} // closed by the first call of Close when it is through; set with closed
}

// enter counts a run that begins; false if none may. ofRun: a run starts it.
func (l *life) enter(ofRun bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && (!ofRun || l.runs == 0) {
		return false
	}
	l.runs++
	return true
}

// leave counts a run that is over. It comes after all that the run has done.
func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs--; l.runs == 0 && l.closed {
		close(l.last)
	}
}

// idle reports whether no run is under way.
func (l *life) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs == 0
}

// close refuses new runs, and waits for those under way. It reports whether this call
// was the first; if not, that one is through.
func (l *life) close() bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		waits.Call(func() { <-l.over })
		return false
	}
	l.closed = true
	l.last, l.over = make(chan struct{}), make(chan struct{})
	if l.runs == 0 {
		close(l.last)
	}
	l.mu.Unlock()
	waits.Call(func() { <-l.last })
	return true
}

// begin counts a run that the caller starts; false if the runtime takes none from it any more.
func (rt *Runtime) begin() bool {
	if rt.life.enter(false) {
		return true
	}
	_, ofRun := rt.caller()
	return ofRun && rt.life.enter(true)
}

// spares are the goroutines that take over the slots of blocked tasks. They come from
// an ants pool, which is made when the first task blocks.
type spares struct {
	rt   *Runtime
	once sync.Once
	pool *ants.PoolWithFuncGeneric[*slot]
}

const (
	spareExpiry  = 2 * time.Second  // idle spares end after this long (guess)
	closeTimeout = 10 * time.Second // for spares that are on their way out; generous
)

// run runs s's loop on a spare goroutine.
func (p *spares) run(s *slot) {
	if xatomic.Driven() || race.Lint { // the pool's own locks would be an order among bodies
		race.Hide()
		xatomic.Go(s.loop)
		race.Show()
		return
	}
	p.once.Do(func() {
		pool, err := ants.NewPoolWithFuncGeneric(-1, (*slot).loop, ants.WithExpiryDuration(spareExpiry))
		if err != nil {
			p.rt.cfg.Logger.Warn("no pool for spare goroutines; starting each anew", "err", err)
			return
		}
		p.pool = pool
	})
	if p.pool == nil || p.pool.Invoke(s) != nil {
		go s.loop()
	}
}

func (p *spares) close() error {
	p.once.Do(func() {})
	if p.pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.pool.ReleaseContext(ctx)
}
