// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"time"
)

// This file finds out which failure was the first. The failure that the launcher hears of first
// need not be: a rank's death makes other ranks fail, and these may end sooner.
// internal/launch/README.md, "The end of a rank", has the argument.

const (
	killed class = iota // by a signal
	broken              // ended without leaving the job, though it took part
	left                // left the job, with an exit status other than 0
	caused              // by the failure of another rank, which it has blamed
)

const (
	// blameTime is how long the launcher keeps a rank's failure in case a worse one arrives, which
	// may be its cause. A guess, above the time that a kernel needs to end a process whose end the
	// launcher cannot see yet.
	blameTime = 100 * time.Millisecond
	// blameAgain is how often the launcher checks whether a failure that it expects has arrived.
	blameAgain = 10 * time.Millisecond
	// dyingTime is how long the kernel may take to end a process. It ends the process for certain,
	// as soon as it finds the time.
	dyingTime = time.Minute
)

// causeTime is how long the launcher waits for the end of a rank that another one blames. A guess
// at the time that a program needs to end in order. Tests change it.
var causeTime = 10 * time.Second

// failureOf returns the failure of a rank whose process has ended.
func (r *runner) failureOf(p *process, code int, how string, orderly bool) failure {
	f := failure{p: p, class: broken, status: max(code, StatusFailure), how: how}
	b := r.server.Blames(p.rank)
	switch {
	case b != nil && (b.Certain || r.unsettled(b.Rank)):
		f.class, f.cause = caused, b.Rank
		if b.Certain && b.Rank >= 0 {
			f.how += fmt.Sprintf(", because of rank %d", b.Rank)
		}
	case code > StatusSignalBase:
		f.class = killed
	case orderly:
		f.class = left
	}
	return f
}

// unsettled reports whether a rank may still turn out to have failed first.
func (r *runner) unsettled(rank int) bool {
	return rank >= 0 && (!r.process(rank).ended || slices.ContainsFunc(r.failures, func(f failure) bool { return f.p.rank == rank }))
}

// failed handles a failure of a rank. It keeps a failure that may have another cause for a while,
// so that worse ones can count before it.
func (r *runner) failed(f failure) {
	if len(r.failures) == 0 {
		r.firstAt = time.Now()
	}
	// The end of the rank's connection may be known already. That of the process says more.
	r.failures = slices.DeleteFunc(r.failures, func(g failure) bool { return g.p == f.p })
	r.failures = append(r.failures, f)
	if r.state != running || f.class == killed || r.live == 0 {
		r.report()
	} else if r.blame == nil {
		r.blame = time.After(blameTime)
	}
}

// judge reports the failures that are kept, unless a worse one is expected.
func (r *runner) judge() {
	if r.state == running && r.worseToCome() {
		r.blame = time.After(blameAgain)
		return
	}
	r.report()
}

// worseToCome reports whether to expect a failure that may be the cause of those that are kept.
func (r *runner) worseToCome() bool {
	waited := time.Since(r.firstAt)
	if waited < dyingTime && slices.ContainsFunc(r.procs, func(p *process) bool { return !p.ended && !p.remote && dying(p.proc.Pid) }) {
		return true
	}
	if waited >= causeTime {
		return false
	}
	if slices.ContainsFunc(r.failures, func(f failure) bool { return f.p.remote && !f.p.ended }) {
		// Its connection has ended, and its launcher has not yet said how the process did.
		return true
	}
	// A failure that blames no other rank is the cause of the rest.
	return !slices.ContainsFunc(r.failures, func(f failure) bool { return f.class != caused }) &&
		slices.ContainsFunc(r.failures, func(f failure) bool { return f.cause >= 0 && !r.process(f.cause).ended })
}

// report reports the failures that are kept, the worst first.
func (r *runner) report() {
	slices.SortStableFunc(r.failures, func(a, b failure) int { return int(a.class) - int(b.class) })
	for _, f := range r.failures {
		if r.state == running {
			r.failRank(f.p, f.status, f.how)
		} else {
			r.fail(f.status)
		}
	}
	r.failures, r.blame = nil, nil
}
