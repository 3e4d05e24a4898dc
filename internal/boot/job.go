// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/mpi"
	"weft/internal/launch"
)

// Errors of this package.
var (
	// ErrConfig: the environment is unusable. The run has not begun.
	ErrConfig = errors.New("bad configuration")
	// ErrNoFabric: the ranks are in processes that no fabric of this build connects.
	ErrNoFabric = errors.New("no fabric connects the ranks")
)

// Job is a job that this process has joined as one rank.
type Job struct {
	Rank, Size int
	// Client is the connection to the launcher; nil if MPI has started the job.
	Client *launch.Client
	// Failed is set when the run has failed, so that its end does not wait for other ranks.
	Failed atomic.Bool

	process *mpi.Process    // nil: not started by MPI
	mpi     fabric.Endpoint // connects all ranks, if MPI has started them
	node    launch.NodeID
	secret  []byte // of the job
	spread  bool   // there are ranks on other machines
	sides   []side // by rank, once they have met
	near    Near
	// meet exchanges what the ranks announce, by name, and returns it by rank. All ranks call it
	// once.
	meet func(ctx context.Context, said map[string][]byte) ([]launch.Peer, error)
}

// Near has the number of ranks on this rank's node, and the number of processors that these ranks
// may use together. (A single rank may be bound to a part of them.) Zero: not known.
type Near struct{ Ranks, Processors int }

// provider is a row of the table of fabrics between processes: one of env.FabricNames.
//
//	open ──► opened ──use──► endpoint
//	            └────drop──► closed
type provider struct {
	name, connects string
	priority       env.Setting[int]
	nodeOnly       bool // it connects only ranks of one node
	// open prepares the fabric and its address before the ranks meet. An error says why this rank
	// cannot use the fabric. The job then uses other fabrics, and fails only if two ranks need this
	// one.
	open func(j *Job) (opened, error)
	// trial opens an endpoint that no rank uses, to find out whether that is possible here, and its
	// Caps.
	trial func() (fabric.Endpoint, error)
	// carrier returns the library that the fabric uses, name and version; nil: none.
	carrier func() string
}

// opened is a fabric between open and use.
type opened struct {
	addr []byte // by which other ranks reach this rank
	// use returns the endpoint for the ranks mine, which may include this rank. peers is the result
	// of meet.
	use func(peers []launch.Peer, mine []int) (fabric.Endpoint, error)
	// drop is called instead of use if this rank reaches no rank by the fabric.
	drop func() error
}

// side is one rank of a pair.
type side struct {
	rank int
	// by name of fabric; without the fabrics that the rank's build does not have
	offer map[string]access
	node  string // equal for both sides: they are on one node
}

// Own is what a rank contributes to Connect.
type Own struct {
	// Problem is what is wrong at this rank; nil if nothing is. All ranks fail if it is not nil.
	Problem error
	// Settings must be the same at all ranks. Differ makes the error if those of another rank are
	// not.
	Settings []byte
	Differ   func(rank int, theirs []byte) error
	// Logger gets the warnings that are written once for a job; nil: they go to standard error.
	Logger *slog.Logger
}

// Names under which ranks announce other things than fabrics.
const (
	settingsName   = "settings"
	processorsName = "processors"
)

// access is a rank's offer for one fabric.
type access struct {
	priority int    // 0: the rank does not use the fabric
	addr     []byte // by which other ranks reach the rank; may be empty
	problem  string // why the rank cannot use the fabric; empty: it can
}
