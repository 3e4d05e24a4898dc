// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Ours is the name of weft as a peer: the other peers are compared with it.
const Ours = "weft"

// ErrWrongAnswer is wrapped by a probe's error when the benchmark's check of its answer failed.
var ErrWrongAnswer = errors.New("wrong answer")

// ErrSkipped is wrapped by the error of a Peer's Open when the peer cannot run on this machine, for
// example without a compiler. A skipped peer has no row and is not a failure.
var ErrSkipped = errors.New("skipped")

// Wrong returns an error that wraps ErrWrongAnswer and says what was wrong.
func Wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrWrongAnswer, fmt.Sprintf(format, args...))
}

// Skip returns an error that wraps ErrSkipped and says why.
func Skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSkipped, fmt.Sprintf(format, args...))
}

// A Workload is one benchmark, as data.
type Workload struct {
	Name  string // group/name, as -run matches it
	About string // one line for -list
	Unit  string // of every sample, e.g. "ns/task"

	// HigherIsBetter is set for rates. It only changes the table.
	HigherIsBetter bool

	SizeOf string  // what Size counts, for -list
	Sizes  []int64 // sizes of a full run
	Quick  []int64 // sizes of a -quick run: the same program, small enough for a test
	Ranks  []int   // rank counts; nil means one rank

	Goals []Goal // targets of weft, compared with the peers that are Rival
	Peers []Peer
}

// A Peer is one way of running a workload.
type Peer struct {
	Name string

	// Extra peers run only with -peers or by name: they need tools that a machine may lack.
	Extra bool

	// A Rival is another task runtime, which goals compare weft with. It is neither a bound nor
	// code written by hand.
	Rival bool

	// Open prepares a measurement. Its time is not part of any sample.
	Open func(ctx context.Context, p Params) (Probe, error)
}

// Params is what one measurement is to run.
type Params struct {
	Workers int   // threads that may run at once; GOMAXPROCS is set to it
	Ranks   int   // ranks, as the workload defines them
	Size    int64 // as Workload.SizeOf says

	// the size is one of Workload.Quick: a peer may leave out work that does not depend on the size
	Quick bool

	// MinTime is how long one sample's timed part should last at least: a short program is repeated
	// within a sample.
	MinTime time.Duration
}

// A Probe takes samples of one peer in one group.
type Probe struct {
	// Sample runs the program and returns the cost in the workload's unit. A result that failed the
	// program's own check is returned together with an error that wraps ErrWrongAnswer.
	Sample func(ctx context.Context) (float64, error)

	// Close releases the resources of Open. It may be nil.
	Close func() error
}

// Repeat runs once until the times that it returns add up to least, and returns their sum and the
// number of runs.
func Repeat(ctx context.Context, least time.Duration, once func() (time.Duration, error)) (total time.Duration, runs int, err error) {
	for {
		d, err := once()
		total += d
		runs++
		if err != nil || total >= least {
			return total, runs, err
		}
		if err := ctx.Err(); err != nil {
			return total, runs, err
		}
	}
}
