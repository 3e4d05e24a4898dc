// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"time"
)

// Which failure was the first. The one that is heard of first need not be: a rank's death has
// others fail, and they may be quicker at ending. internal/launch/README.md, "The end of a rank",
// has the argument.

const (
	killed class = iota // by a signal
	broken              // it took part, and has not left the job
	left                // in order, with a failure as its exit status
	led                 // in whatever way, because another rank has failed, as it has said
)

const (
	// blameTime is how long a rank's failure waits for a worse one, which it may be due to. A
	// guess, above what it takes a kernel to end a process of which nobody knows that it is ending.
	blameTime = 100 * time.Millisecond
	// blameAgain is how often it is looked whether what is known to come has come.
	blameAgain = 10 * time.Millisecond
	// dyingTime is how long the kernel may take to end a process. It comes to it for certain, if it
	// finds the time.
	dyingTime = time.Minute
)

// causeTime is how long the end of a rank is waited for that another one blames. A guess at what a
// program needs to put its affairs in order. Tests have another.
var causeTime = 10 * time.Second

// failureOf is the failure of a rank whose process has ended.
func (r *runner) failureOf(p *process, code int, how string, orderly bool) failure {
	f := failure{p: p, class: broken, status: max(code, StatusFailure), how: how}
	b := r.server.Blames(p.rank)
	switch {
	case b != nil && (b.Certain || r.unsettled(b.Rank)):
		f.class, f.cause = led, b.Rank
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

// unsettled says whether a rank may still be found to have failed first.
func (r *runner) unsettled(rank int) bool {
	return rank >= 0 && (!r.process(rank).ended || slices.ContainsFunc(r.failures, func(f failure) bool { return f.p.rank == rank }))
}

// failed takes a failure of a rank. One that may be due to another one is kept for a while, and
// counts after those that are worse.
func (r *runner) failed(f failure) {
	if len(r.failures) == 0 {
		r.firstAt = time.Now()
	}
	// Of the end of a connection it may have been heard before that of the process, which says
	// more.
	r.failures = slices.DeleteFunc(r.failures, func(g failure) bool { return g.p == f.p })
	r.failures = append(r.failures, f)
	if r.state != running || f.class == killed || r.live == 0 {
		r.report()
	} else if r.blame == nil {
		r.blame = time.After(blameTime)
	}
}

// judge reports the failures that are kept, unless a worse one is known to come.
func (r *runner) judge() {
	if r.state == running && r.worseToCome() {
		r.blame = time.After(blameAgain)
		return
	}
	r.report()
}

// worseToCome says whether a failure is to come that may be the cause of those that are kept.
func (r *runner) worseToCome() bool {
	waited := time.Since(r.firstAt)
	if waited < dyingTime && slices.ContainsFunc(r.procs, func(p *process) bool { return !p.ended && !p.remote && dying(p.proc.Pid) }) {
		return true
	}
	if waited >= causeTime {
		return false
	}
	if slices.ContainsFunc(r.failures, func(f failure) bool { return f.p.remote && !f.p.ended }) {
		// its connection has ended, and its launcher is still to say how the process did
		return true
	}
	// One that is due to no other rank is the cause of the rest.
	return !slices.ContainsFunc(r.failures, func(f failure) bool { return f.class != led }) &&
		slices.ContainsFunc(r.failures, func(f failure) bool { return f.cause >= 0 && !r.process(f.cause).ended })
}

// report reports the failures that are kept.
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
