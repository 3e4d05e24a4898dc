// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package boot starts the communication of a process that was started as one of several ranks: it
// finds out which launcher has started the process, meets the other ranks, and chooses the fabric
// that connects the process with each of them.
//
//	identity, err := boot.Detect() // nil: the process was not started as one of several
//	job, err := identity.Join(ctx)
//	ep, err := job.Connect(ctx, boot.Own{})
//	...
//	err = job.Leave()
//
// The launcher is "weft run" or, in a build with MPI, mpirun or srun. The fabrics are in the table
// providers. A process does all this once; nothing here is for several goroutines.
package boot

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/mpi"
	"weft/internal/launch"
)

// Refused is the error of a rank that fails because something is wrong at another rank. Text is the
// other rank's error.
type Refused struct {
	Rank int
	Text string
}

// Error returns the text.
func (e *Refused) Error() string { return e.Text }

// Identity is what the environment says of a process that was started as one of several ranks.
type Identity struct {
	Rank, Ranks int              // -1: only the MPI library knows; Join sets it
	launch      *launch.Identity // nil: started by MPI
}

// Detect returns the identity of this process; nil if the process has all ranks in itself.
func Detect() (*Identity, error) {
	started, err := launch.Detect()
	if err != nil {
		return nil, err
	}
	if started != nil {
		return &Identity{started.Rank, started.Ranks, started}, nil
	}
	switch l, err := mpi.Detect(); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	case l == nil || l.Alone():
		return nil, nil
	case l.Needed() != nil:
		return nil, l.Needed()
	case !mpi.Built:
		return nil, nil
	default:
		return &Identity{Rank: l.Rank, Ranks: l.Size}, nil
	}
}

// Known completes the identity, and reports whether the process is one of several. Where the
// launcher does not tell rank and size, Known starts MPI, and the caller must then call Join.
func (p *Identity) Known() (bool, error) {
	if p.Rank >= 0 && p.Ranks > 0 {
		return true, nil
	}
	process, err := startMPI()
	if err != nil {
		return false, err
	}
	p.Rank, p.Ranks = process.Rank, process.Size
	return p.Ranks > 1, nil
}

// startMPI starts MPI, which is possible only once.
var startMPI = sync.OnceValues(func() (*mpi.Process, error) {
	l, err := mpi.Detect()
	if err != nil {
		return nil, err
	}
	return mpi.Start(l)
})

// Join joins the job. If MPI knows only this process, the job's Size is 1 and the process has all
// ranks in itself: it does not call Connect, and calls Leave when its ranks have ended.
func (p *Identity) Join(ctx context.Context) (*Job, error) {
	if p.launch != nil {
		client, err := p.launch.Join(ctx)
		if err != nil {
			return nil, err
		}
		return &Job{
			Rank: client.Rank(), Size: client.Size(), Client: client, node: client.Node(), secret: client.Secret()[:],
			spread: client.Spread(), meet: client.Meet,
		}, nil
	}
	process, err := startMPI()
	if err != nil {
		return nil, err
	}
	p.Rank, p.Ranks = process.Rank, process.Size
	if process.Size == 1 {
		if err := mpi.Unconnected(); err != nil {
			return nil, err
		}
	}
	return &Job{Rank: process.Rank, Size: process.Size, process: process}, nil
}

// Leave ends this rank's participation in the job.
func (j *Job) Leave() error {
	if j.process == nil {
		return j.Client.Leave()
	}
	var err error
	if j.mpi != nil {
		err = j.mpi.Close() // the run does not close the endpoint if it has not used it
	}
	// If the run has failed and another rank does not end, this rank does not wait for that rank,
	// and the launcher ends it.
	return errors.Join(err, j.process.Finalize())
}

// Connect returns this rank's endpoint, which reaches each other rank by one fabric. In a job that
// MPI has started, all ranks must call Connect, even if something is wrong at a rank: if that rank
// just ended, it and the other ranks would wait for each other until the launcher ends the job.
// There all ranks fail if one does: that rank with its own error, the others with a *Refused.
func (j *Job) Connect(ctx context.Context, own Own) (fabric.Endpoint, error) {
	if j.process == nil {
		if own.Problem != nil {
			return nil, own.Problem
		}
		return j.connect(ctx, own)
	}
	if err := j.meetByMPI(own); err != nil {
		return nil, err
	}
	met, meet := false, j.meet
	j.meet = func(ctx context.Context, said map[string][]byte) ([]launch.Peer, error) {
		met = true
		return meet(ctx, said)
	}
	ep, err := j.connect(ctx, own)
	if err != nil && !met {
		_, err = share(j.process, nil, err) // the others meet
	}
	return ep, err
}

// meetByMPI provides by MPI what weft's launcher gives a job: the ranks' nodes, a secret, and a way
// to meet.
func (j *Job) meetByMPI(own Own) error {
	node, err := launch.Node()
	if own.Problem != nil {
		err = own.Problem
	}
	nodes, err := share(j.process, []byte(string(node)+"\x00"+strings.Join(env.Silent(), ",")), err)
	if err != nil {
		return err
	}
	warnOthers(own.Logger, j.Rank, nodes)
	// From here on no rank has an error that it could have found by itself.
	ranks := make([]int, j.Size)
	for r := range ranks {
		ranks[r] = r
	}
	if j.mpi, err = j.process.Open(ranks); err != nil {
		return err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it cannot fail
	secrets, err := j.process.Exchange(secret)
	if err != nil {
		return err
	}
	j.node, j.secret = node, secrets[0]
	j.spread = slices.ContainsFunc(nodes, func(n []byte) bool { return string(n) != string(node) })
	j.meet = func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
		card, err := launch.MakeCard(node, said)
		cards, err := share(j.process, card, err)
		if err != nil {
			return nil, err
		}
		return launch.ReadCards(cards)
	}
	return nil
}

// share exchanges the ranks' values, which it returns by rank. If something is wrong at one rank,
// which passes it as problem, all ranks fail with that. All ranks call share.
func share(process *mpi.Process, mine []byte, problem error) ([][]byte, error) {
	const fine, wrong = 0, 1
	said := append([]byte{fine}, mine...)
	if problem != nil {
		text := problem.Error()
		said = append([]byte{wrong}, text[:min(len(text), maxOffered)]...)
	}
	all, err := process.Exchange(said)
	switch {
	case problem != nil:
		return nil, problem
	case err != nil:
		return nil, err
	}
	for r, b := range all {
		switch {
		case len(b) == 0:
			return nil, fmt.Errorf("rank %d has sent an empty message", r)
		case b[0] != fine:
			return nil, &Refused{r, string(b[1:])}
		}
		all[r] = b[1:]
	}
	return all, nil
}

// warnOthers removes the lists of unknown names in the ranks' environments from what the ranks have
// shared, where they follow the nodes. Rank 0 warns of names that its own environment does not
// have.
func warnOthers(logger *slog.Logger, rank int, shares [][]byte) {
	names := make([][]string, len(shares))
	for r, b := range shares {
		node, list, _ := bytes.Cut(b, []byte{0})
		shares[r] = node
		if len(list) > 0 {
			names[r] = strings.Split(string(list), ",")
		}
	}
	if rank == 0 {
		env.WarnOthers(logger, os.Stderr, names)
	}
}
