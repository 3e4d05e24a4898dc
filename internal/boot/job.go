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
	// Failed is set when the run has failed, so that its end does not wait for anybody.
	Failed atomic.Bool

	process *mpi.Process    // nil: not started by MPI
	mpi     fabric.Endpoint // connects all ranks, if MPI has started them
	node    launch.NodeID
	secret  []byte // of the job
	spread  bool   // there are ranks on other machines
	sides   []side // by rank, once they have met
	near    Near
	// meet gives every rank what all say of themselves, by rank. All ranks call it once.
	meet func(ctx context.Context, said map[string][]byte) ([]launch.Peer, error)
}

// Near says how many ranks share how many processors of this rank's node: those of all of them,
// since one that is bound has a part only. Zero: that is not known.
type Near struct{ Ranks, Processors int }

// provider is a row of the table of fabrics between processes: one of env.FabricNames.
type provider struct {
	name, connects string
	priority       env.Setting[int]
	nodeOnly       bool // it does not leave a node
	// open makes what others have to know of: before the ranks meet. An error is why this rank
	// cannot use the fabric; others do then, and the rank fails only if it needs it.
	open func(j *Job) (opened, error)
	// trial opens an endpoint that nobody uses, to see whether that is possible here, and for its
	// Caps.
	trial func() (fabric.Endpoint, error)
	// carrier is the library that carries it, name and version; nil: it is ours.
	carrier func() string
}

// opened is a fabric between open and use.
type opened struct {
	addr []byte // where others find this rank
	// use returns the endpoint for the ranks mine, this one among them or not. peers is what all
	// have said.
	use func(peers []launch.Peer, mine []int) (fabric.Endpoint, error)
	// drop is called instead of use, if no rank is reached by this fabric.
	drop func() error
}

// side is one rank of a pair.
type side struct {
	rank  int
	offer map[string]access // by name of fabric; what is not there, its build does not have
	node  string            // equal on both sides: they are on one node
}

// Own is what a rank has to say of itself before it is connected.
type Own struct {
	// Problem is what is wrong at this rank, nil if nothing is. All ranks fail then.
	Problem error
	// Settings have to be the same at all ranks; Differ is the error if those of another rank are
	// not.
	Settings []byte
	Differ   func(rank int, theirs []byte) error
	// Logger gets what is said once for a job; nil: the standard error does.
	Logger *slog.Logger
}

// What ranks say of themselves besides their fabrics.
const (
	settingsName   = "settings"
	processorsName = "processors"
)

// access is what a rank says of one fabric.
type access struct {
	priority int    // 0: the rank does not want it
	addr     []byte // where others find the rank; may be empty
	problem  string // why the rank cannot use it; empty: it can
}
