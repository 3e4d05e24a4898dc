// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package boot makes a process that was started as one of several ranks the end of what connects
// them: who has started it, who are the others, and which fabric connects it with each.
//
//	place, err := boot.Detect() // nil: nobody has started it as one of several
//	job, err := place.Join(ctx)
//	ep, err := job.Connect(ctx, boot.Own{})
//	...
//	err = job.Leave()
//
// What starts processes is "weft run" or, in a build with MPI, mpirun or srun. What connects them
// is in the table providers. A process does all this once; nothing here is for several goroutines.
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

// Refused is the error of all ranks where something is wrong at one: that rank's.
type Refused struct {
	Rank int
	Text string
}

// Error returns the text.
func (e *Refused) Error() string { return e.Text }

// Place is what the environment tells of a process that was started as one of several ranks.
type Identity struct {
	Rank, Ranks int              // -1: only the MPI library knows; Join sets it
	launch      *launch.Identity // nil: started by MPI
}

// Detect returns the place of this process; nil if it has its ranks in itself.
func Detect() (*Identity, error) {
	place, err := launch.Detect()
	if err != nil {
		return nil, err
	}
	if place != nil {
		return &Identity{place.Rank, place.Ranks, place}, nil
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

// Known completes the place, and reports whether the process is one of several. Where the launcher
// does not tell all of it, it begins MPI, and Join has to follow.
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

// startMPI begins MPI. That can be done once.
var startMPI = sync.OnceValues(func() (*mpi.Process, error) {
	l, err := mpi.Detect()
	if err != nil {
		return nil, err
	}
	return mpi.Start(l)
})

// Join joins the job. Where MPI takes the process for the only one, Size is 1 and it has its ranks
// in itself: it does not connect, and leaves when they are through.
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
		if err := mpi.Strewn(); err != nil {
			return nil, err
		}
	}
	return &Job{Rank: process.Rank, Size: process.Size, process: process}, nil
}

// Leave ends this rank's part in the job.
func (j *Job) Leave() error {
	if j.process == nil {
		return j.Client.Leave()
	}
	var err error
	if j.mpi != nil {
		err = j.mpi.Close() // it is not among those of the run if it was not to be used
	}
	// If the run has failed and another rank does not come to its end, this one goes without, and
	// the launcher ends that.
	return errors.Join(err, j.process.Finalize())
}

// Connect makes this rank's end of what connects the ranks: of the fabrics that can, each other
// rank by one of them. All ranks of a job that MPI has started call it, whatever is wrong at them:
// one that just ended would leave the others to wait for it, and have to wait for them in turn,
// until its launcher ends the job. An error is the same at all ranks then; another rank's is a
// *Refused.
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

// meetByMPI makes what a launcher of ours gives a job: nodes, a secret, a way to meet.
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
	// From here on nothing is wrong at any rank that it could have known by itself.
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

// share gives all ranks what each has to say, unless something is wrong at one: then all fail, with
// that. All ranks call it.
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
			return nil, fmt.Errorf("rank %d has nothing to say", r)
		case b[0] != fine:
			return nil, &Refused{r, string(b[1:])}
		}
		all[r] = b[1:]
	}
	return all, nil
}

// warnOthers takes the unknown names in ranks' environments off what they have shared behind their
// nodes. Rank 0 says which there are that it has not.
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
