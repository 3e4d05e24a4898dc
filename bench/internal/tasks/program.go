// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"time"

	"weft/bench/internal/harness"
)

// A program is one instance of a workload: its objects and their bodies.
type program interface {
	reset()       // before every run
	tasks() int64 // how many tasks one run creates
	check() error // after every run: an error that wraps harness.ErrWrongAnswer
}

// A runner runs a whole program once and returns when all of its tasks are complete.
type runner func(ctx context.Context) error

// probe times run over prog, in nanoseconds per task.
func probe(prog program, p harness.Params, run runner, closer func() error) harness.Probe {
	sample := func(ctx context.Context) (float64, error) {
		total, runs, err := harness.Repeat(ctx, p.MinTime, func() (time.Duration, error) {
			prog.reset()
			began := time.Now()
			err := run(ctx)
			took := time.Since(began)
			if err == nil {
				err = prog.check()
			}
			return took, err
		})
		return float64(total.Nanoseconds()) / float64(int64(runs)*prog.tasks()), err
	}
	return harness.Probe{Sample: sample, Close: closer}
}

// plain makes a peer of a runner that needs nothing but the program.
func plain[P program](name string, newProgram func(size int64) P, run func(P)) harness.Peer {
	return fallible(name, newProgram, func(prog P) error { run(prog); return nil })
}

// fallible is plain for a runner that may fail.
func fallible[P program](name string, newProgram func(size int64) P, run func(P) error) harness.Peer {
	open := func(_ context.Context, p harness.Params) (harness.Probe, error) {
		prog := newProgram(p.Size)
		return probe(prog, p, func(context.Context) error { return run(prog) }, nil), nil
	}
	return harness.Peer{Name: name, Open: open}
}

// A cell is a versioned object. It fills a cache line, so two cells never share a line.
type cell struct {
	version int64
	bad     int64 // how often the task that owns the cell saw a wrong version of another cell
	_       [48]byte
}

// done is the channel that a task of the channels peer closes at its end; nil stands for a
// predecessor that does not exist.
type done chan struct{}

func (d done) wait() {
	if d != nil {
		<-d
	}
}
