// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"weft/internal/fabric"
	"weft/internal/fabric/mpi"
	"weft/internal/launch"
)

const mpiName = "mpi"

// detectMPI returns what the environment tells of an MPI launcher that has started several processes, nil if none has.
func detectMPI() (*mpi.Launched, error) {
	l, err := mpi.Detect()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case l == nil || l.Alone():
		return nil, nil
	case l.Needed() != nil:
		return nil, l.Needed()
	case !mpi.Built:
		return nil, nil
	}
	return l, nil
}

// startMPI begins MPI. That can be done once.
var startMPI = sync.OnceValues(func() (*mpi.Process, error) {
	l, err := mpi.Detect()
	if err != nil {
		return nil, err
	}
	return mpi.Start(l)
})

// launchedByMPI is the part of Launched for MPI launchers. Not all of them tell how many ranks there are, and then MPI has to.
func launchedByMPI() (rank, ranks int, ok bool, err error) {
	l, err := detectMPI()
	switch {
	case err != nil:
		return 0, 0, false, runError(err)
	case l == nil:
		return 0, 0, false, nil
	case l.Rank >= 0 && l.Size > 0:
		return l.Rank, l.Size, true, nil
	}
	process, err := startMPI()
	if err != nil {
		return 0, 0, false, runError(err)
	}
	return process.Rank, process.Size, process.Size > 1, nil
}

// bootMPI runs body as the one rank that an MPI launcher has started this process as.
func bootMPI(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	process, err := startMPI()
	if err != nil {
		return runError(err)
	}
	err = runMPI(ctx, cfg, process, body)
	// If the run has failed and another rank does not come to its end, this one goes without, and the launcher ends that.
	if ended := process.Finalize(); err == nil && ended != nil {
		err = runError(ended)
	}
	return err
}

func runMPI(ctx context.Context, cfg Config, process *mpi.Process, body func(c *Comm) error) error {
	if process.Size == 1 {
		if err := mpi.Strewn(); err != nil {
			return runError(err)
		}
		return Run(ctx, cfg, body)
	}
	// All ranks do this together, and before anything can go wrong at one of them.
	ranks := make([]int, process.Size)
	for r := range ranks {
		ranks[r] = r
	}
	opened, err := process.Open(ranks)
	if err != nil {
		return runError(err)
	}
	ep, together, err := connectMPI(ctx, &cfg, process, opened)
	if err != nil {
		return runError(errors.Join(fmt.Errorf("rank %d of %d: %w", process.Rank, process.Size, err), opened.Close()))
	}
	w := newWorld(ctx, cfg, []fabric.Endpoint{ep})
	w.together = together
	err = w.runSpared(ctx, body)
	return errors.Join(err, opened.Close()) // it is not among those of the run if it is not to be used
}

// connectMPI makes the endpoint of a rank that MPI has started.
func connectMPI(ctx context.Context, cfg *Config, process *mpi.Process, opened fabric.Endpoint) (_ fabric.Endpoint, together func(group []int32, n int) bool, err error) {
	if cfg.Ranks != 0 && cfg.Ranks != process.Size {
		return nil, nil, fmt.Errorf("%w: the program wants %d ranks, and is one of %d that were started", ErrConfig, cfg.Ranks, process.Size)
	}
	cfg.Ranks = process.Size
	if _, err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	node, err := launch.Node()
	if err != nil {
		return nil, nil, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it cannot fail
	secrets, err := process.Exchange(secret)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := process.Exchange([]byte(node))
	if err != nil {
		return nil, nil, err
	}
	m := &meeting{
		rank: process.Rank, size: process.Size, node: node, secret: secrets[0], mpi: opened,
		meet: func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
			card, err := launch.MakeCard(node, said)
			if err != nil {
				return nil, err
			}
			cards, err := process.Exchange(card)
			if err != nil {
				return nil, err
			}
			return launch.ReadCards(cards)
		},
	}
	for _, n := range nodes {
		m.spread = m.spread || string(n) != string(node)
	}
	ep, err := connect(ctx, m, cfg.stats)
	return ep, m.together, err
}

var mpiProvider = provider{
	name: mpiName, connects: "processes that mpirun or srun has started",
	open: func(m *meeting) (opened, error) {
		switch {
		case m.mpi != nil:
			return opened{
				use:  func(context.Context, []launch.Peer, []int) (fabric.Endpoint, error) { return m.mpi, nil },
				drop: m.mpi.Close,
			}, nil
		case mpi.Built:
			return opened{}, errors.New("it was not started by mpirun or srun")
		}
		return opened{}, mpi.ErrAbsent
	},
	trial: mpi.Sketch,
}
