// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"time"

	"weft/internal/event"
	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/probe"
	"weft/task/internal/sched"
	"weft/task/internal/stuck"
)

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

// tuning has the settings that only tests choose.
type tuning struct {
	rounds    int           // searches of all queues before a slot parks
	deadlock  time.Duration // how long a deadlock lasts before it ends the runs; 0: the default
	stealSeed uint64        // seed of the order in which slots try to steal from others
}

// open is Open with a tuning.
func open(cfg Config, tune tuning) (*Runtime, error) {
	rt, err := build(cfg, tune)
	if err != nil {
		return nil, err
	}
	if rt.probe != nil {
		rt.probe.Open()
	}
	rt.enlist()
	rt.stuck.Open((*host)(rt), &rt.sched, stuck.Config{
		Slots: rt.Workers(), Watchdog: rt.cfg.Watchdog, Deadlock: tune.deadlock, Patient: rt.cfg.waitForEver, Calls: callsBody(),
	})
	rt.party = &waits.Party{ // for the deadlock detector: the slots, and what the tasks wait for
		Asleep: func() (asleep, timed int, version uint64) {
			asleep, version = rt.sched.Parks()
			return asleep, 0, version
		},
		Describe: rt.describeWaits,
	}
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
	rt.throttle.init(rt)
	rt.pool.Init(func() { rt.sched.EachParked(func(s *sched.Slot) { rt.slots.all[s.ID].shrink() }) })
	slots := make([]*sched.Slot, cfg.Workers)
	for id := range slots {
		s := &slot{rt: rt}
		s.flow.Join = join
		slots[id] = &s.Slot
		rt.slots.all = append(rt.slots.all, s)
	}
	rt.sched.Init((*host)(rt), slots, tune.rounds, tune.stealSeed)
	off, probes := probe.New(probe.Config{
		Slots: cfg.Workers, Lint: cfg.Lint, Debug: cfg.Debug, Logger: cfg.Logger, Watchdog: cfg.Watchdog, Reports: cfg.Reports,
		Acquire: func() { rt.probe.Acquire(false) }, Trace: (*event.Recorder)(cfg.Trace), Bounds: func() (lo, hi uintptr) { return callsBody().Bounds() },
	})
	rt.probe = off
	for i, p := range probes {
		rt.slots.all[i].probe = p
	}
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

// Close waits for the calls of Run that are under way and for all detached tasks, ends all
// goroutines of the runtime and returns nil. Tasks and callbacks of these runs may still start runs
// and detached tasks, which Close waits for as well; all other callers get [ErrClosed] from the
// moment that Close is called. Other calls of Close, at the same time or later, return when the
// first one does.
//
// Close panics if it would wait for its caller: in a task, also in its Blocking, in an OnReady, in
// a function of Poll, in a callback of a detached task. Close cannot detect that a task waits for
// the goroutine that calls it; the watchdog names such a task.
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
	rt.stuck.Close()
	rt.depart()
	if rt.probe != nil {
		rt.probe.Stop()
	}
	rt.sched.Close()
	rt.slots.wg.Wait()
	rt.sched.Free()
	rt.throttle.backoff.timer.Stop()
	if rt.probe != nil {
		rt.probe.Close()
	}
	rt.pool.Close()
	return rt.spares.close()
}

// begin counts a run that the caller starts. It returns false if the runtime accepts no run from
// this caller any more.
func (rt *Runtime) begin() bool {
	if rt.life.enter(false) {
		return true
	}
	_, ofRun := rt.caller()
	return ofRun && rt.life.enter(true)
}
