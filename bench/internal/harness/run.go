// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

// An Observer receives the progress of a plan. Its functions may be nil.
type Observer struct {
	Sampling func(row Row, round int)        // a sample begins; round 0 is the unrecorded one
	Skipped  func(row Row, why error)        // a peer cannot run here
	Failed   func(row Row, why error)        // a peer failed, or its answer was wrong
	Group    func(rows []Row, load Workload) // a group is complete
}

// A Report is the result of a plan.
type Report struct {
	Rows   []Row
	Failed bool // some row is not OK
}

// entry is one peer of the group that is being measured.
type entry struct {
	peer    Peer
	probe   Probe
	row     Row
	samples []float64
	spent   time.Duration
	out     bool // takes no more samples: skipped or failed
	skipped bool
}

// Run measures every group. When ctx is cancelled it returns the rows of the complete groups and
// the context's error.
func (p *Plan) Run(ctx context.Context, obs Observer) (Report, error) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	var rep Report
	for i := range p.groups {
		rows, err := p.runGroup(ctx, &p.groups[i], obs)
		if err != nil {
			return rep, err
		}
		for _, r := range rows {
			rep.Failed = rep.Failed || !r.OK
		}
		rep.Rows = append(rep.Rows, rows...)
		if obs.Group != nil && len(rows) > 0 {
			obs.Group(rows, *p.groups[i].load)
		}
	}
	return rep, nil
}

func (p *Plan) runGroup(ctx context.Context, g *group, obs Observer) ([]Row, error) {
	runtime.GOMAXPROCS(g.params.Workers)
	entries := make([]*entry, len(g.peers))
	for i, peer := range g.peers {
		s := &entry{peer: peer, row: g.row(peer.Name)}
		entries[i] = s
		var err error
		if s.probe, err = peer.Open(ctx, g.params); err != nil {
			s.drop(err, obs)
		}
	}
	defer func() {
		for _, s := range entries {
			s.close(obs)
		}
	}()

	for round := 0; round <= p.cfg.Reps; round++ {
		// The first peer is weft. Going backwards gives peer, weft, peer, weft: another peer has
		// used the caches before weft is measured, never weft itself.
		for i := len(entries) - 1; i >= 0; i-- {
			s := entries[i]
			if s.out || len(s.samples) > 0 && p.spentUp(s) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if obs.Sampling != nil {
				obs.Sampling(s.row, round)
			}
			p.sample(ctx, s, round, obs)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	var rows []Row
	for _, s := range entries {
		s.close(obs)
		if s.skipped {
			continue
		}
		s.row.OK = !s.out && len(s.samples) > 0
		s.row.Summarize(s.samples)
		rows = append(rows, s.row)
	}
	return rows, nil
}

func (p *Plan) spentUp(s *entry) bool { return p.cfg.Budget > 0 && s.spent >= p.cfg.Budget }

func (p *Plan) sample(ctx context.Context, s *entry, round int, obs Observer) {
	runtime.GC()
	var value float64
	var err error
	began := time.Now()
	call := func() { value, err = protect(func() (float64, error) { return s.probe.Sample(ctx) }) }
	if p.cfg.Sampled != nil && round > 0 {
		p.cfg.Sampled(s.peer.Name, call)
	} else {
		call()
	}
	s.spent += time.Since(began)
	// A wrong answer keeps its figure, so that the row shows something, but takes no further
	// sample. A peer whose first sample used up the budget takes no other.
	if err == nil && (round > 0 || p.spentUp(s)) || errors.Is(err, ErrWrongAnswer) {
		s.samples = append(s.samples, value)
	}
	if err != nil && ctx.Err() == nil {
		s.drop(err, obs)
	}
}

// protect turns a panic of a peer into an error: one broken peer must not prevent the other rows.
func protect(f func() (float64, error)) (v float64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return f()
}

func (s *entry) drop(why error, obs Observer) {
	s.out = true
	if errors.Is(why, ErrSkipped) {
		s.skipped = true
		if obs.Skipped != nil {
			obs.Skipped(s.row, why)
		}
		return
	}
	if obs.Failed != nil {
		obs.Failed(s.row, why)
	}
}

// close is idempotent: the first call removes the function.
func (s *entry) close(obs Observer) {
	f := s.probe.Close
	s.probe.Close = nil
	if f == nil {
		return
	}
	if err := f(); err != nil && !s.out {
		s.drop(fmt.Errorf("close: %w", err), obs)
	}
}
