// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"weft/internal/env"
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
	node, err := prepare(&cfg, process.Size)
	nodes, err := shareMPI(process, []byte(string(node)+"\x00"+strings.Join(env.Silent(), ",")), err)
	if err != nil {
		return runError(err)
	}
	warnOthers(&cfg, process.Rank, nodes)
	// From here on nothing is wrong at any rank that it could have known by itself.
	ranks := make([]int, process.Size)
	for r := range ranks {
		ranks[r] = r
	}
	opened, err := process.Open(ranks)
	if err != nil {
		return runError(err)
	}
	ep, together, err := connectMPI(ctx, &cfg, process, opened, nodes)
	if err != nil {
		return runError(errors.Join(err, opened.Close()))
	}
	w := newWorld(ctx, cfg, []fabric.Endpoint{ep})
	w.together = together
	err = w.runSpared(ctx, body)
	return errors.Join(err, opened.Close()) // it is not among those of the run if it is not to be used
}

// warnOthers takes the unknown names in ranks' environments off what they have shared behind their
// nodes. Rank 0 says which there are that it has not.
func warnOthers(cfg *Config, rank int, shares [][]byte) {
	names := make([][]string, len(shares))
	for r, b := range shares {
		node, list, _ := bytes.Cut(b, []byte{0})
		shares[r] = node
		if len(list) > 0 {
			names[r] = strings.Split(string(list), ",")
		}
	}
	if rank != 0 {
		return
	}
	var logger *slog.Logger
	if cfg.logs {
		logger = cfg.Logger
	}
	env.WarnOthers(logger, os.Stderr, names)
}

// shareMPI gives all ranks what each has to say, unless something is wrong at one: then all fail, with that. A rank that just ended would leave the others to wait for it, and have
// to wait for them in turn, until its launcher ends the job. All ranks call it.
func shareMPI(process *mpi.Process, share []byte, problem error) ([][]byte, error) {
	const fine, wrong = 0, 1
	said := append([]byte{fine}, share...)
	if problem != nil {
		_, _, text := rootOf(problem, process.Rank)
		said = append([]byte{wrong}, text...)
	}
	all, err := process.Exchange(said)
	switch {
	case problem != nil:
		return nil, fmt.Errorf("rank %d of %d: %w", process.Rank, process.Size, problem)
	case err != nil:
		return nil, err
	}
	for r, b := range all {
		if len(b) == 0 {
			return nil, fmt.Errorf("rank %d has nothing to say", r)
		}
		if b[0] != fine {
			return nil, fmt.Errorf("rank %d of %d: %w", r, process.Size, &RemoteError{Text: string(b[1:])})
		}
		all[r] = b[1:]
	}
	return all, nil
}

// connectMPI makes the endpoint of a rank that MPI has started. nodes are those of all ranks.
func connectMPI(ctx context.Context, cfg *Config, process *mpi.Process, opened fabric.Endpoint, nodes [][]byte) (_ fabric.Endpoint, together func(group []int32, n int) bool, err error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it cannot fail
	secrets, err := process.Exchange(secret)
	if err != nil {
		return nil, nil, err
	}
	met := false
	node := launch.NodeID(nodes[process.Rank])
	m := &meeting{
		rank: process.Rank, size: process.Size, node: node, secret: secrets[0], mpi: opened,
		meet: func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
			met = true
			card, err := launch.MakeCard(node, said)
			cards, err := shareMPI(process, card, err)
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
	if err != nil && !met {
		_, err = shareMPI(process, nil, err) // the others meet
	}
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
