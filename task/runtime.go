// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"weft/internal/event"
	"weft/internal/xatomic"
)

// A Runtime runs tasks on a fixed number of slots. Make one with [New], and
// close it when it is no longer needed. All methods may be called by any goroutine.
type Runtime struct {
	cfg        Config
	huntRounds int

	slots struct {
		all []*slot
		wg  sync.WaitGroup // slots whose loop has not ended
	}
	holders holders
	idle    idle
	polls   polls
	inject  inject
	high    prioQueue // priority above zero: before everything else
	low     prioQueue // below zero: when there is nothing else
	pool    pool
	window  window
	spares  spares
	life    life
	ev      *event.Shared // what goroutines without a slot record with; nil if the runtime is not recorded
	watch   *watchList    // nil without a watchdog
	lint    *lint         // nil without lint mode
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
func Open(cfg Config) (*Runtime, error) { return open(cfg, tuning{huntRounds: huntRounds}) }

// tuning is what tests choose, since no program needs to.
type tuning struct {
	huntRounds int    // looks at everything before a slot parks
	stealSeed  uint64 // decides the order in which slots look at others
}

// open is Open with a tuning.
func open(cfg Config, tune tuning) (*Runtime, error) {
	rt, err := build(cfg, tune)
	if err != nil {
		return nil, err
	}
	if rt.watch != nil {
		rt.watch.open(rt)
	}
	rt.enlist()
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
	rt := &Runtime{cfg: cfg, huntRounds: tune.huntRounds}
	rt.window.init(rt)
	rt.holders.init(cfg.Workers)
	for id := range cfg.Workers {
		s := &slot{rt: rt, id: id, sema: newSleeper()}
		s.flow.Join = join
		s.rng = *rand.NewPCG(uint64(id), 0x9E3779B97F4A7C15^tune.stealSeed)
		s.deque.init(ringMin)
		rt.slots.all = append(rt.slots.all, s)
	}
	rt.observe(cfg.Trace)
	rt.slots.wg.Add(cfg.Workers)
	rt.spares.rt = rt
	if cfg.Lint {
		rt.lint = new(lint)
	}
	if cfg.Watchdog > 0 {
		rt.watch = &watchList{shards: make([]watchShard, cfg.Workers+1)}
	}
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

// Close waits for the calls of Run that are under way, ends all goroutines of the
// runtime and returns nil. Later calls of Run return [ErrClosed]; later calls of Close do nothing.
// It must not be called from a task.
func (rt *Runtime) Close() error {
	rt.vet("Close", context.Background())
	if rt.here() != nil {
		panic("task: Close inside a task, which it would wait for")
	}
	if !rt.life.close() {
		return nil
	}
	rt.delist()
	if rt.watch != nil {
		rt.watch.close()
	}
	rt.idle.close()
	rt.slots.wg.Wait()
	for _, s := range rt.slots.all {
		s.sema.close()
	}
	rt.window.close()
	if rt.lint != nil {
		rt.lint.close()
	}
	err := rt.spares.close()
	rt.unobserve()
	return err
}

// life counts the runs, so that Close can wait for them.
type life struct {
	mu     sync.Mutex
	runs   int           // calls of Run under way. +checklocks:mu
	closed bool          // +checklocks:mu
	last   chan struct{} // closed when the last run ends after close. +checklocks:mu
}

func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.runs++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs--; l.runs == 0 && l.closed {
		close(l.last)
	}
}

// close refuses new runs, waits for those under way, and reports whether this call
// was the first.
func (l *life) close() bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.closed = true
	l.last = make(chan struct{})
	if l.runs == 0 {
		close(l.last)
	}
	l.mu.Unlock()
	<-l.last
	return true
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
	if xatomic.Driven() || p.rt.lint != nil { // the pool's own locks would be an order among bodies
		hide()
		xatomic.Go(s.loop)
		show()
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
