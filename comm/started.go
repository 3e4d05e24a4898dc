// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"weft/comm/internal/count"
	"weft/internal/boot"
	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/launch"
	"weft/internal/processors"
	"weft/internal/waits"
)

// wrapEndpoint lets tests kill a started rank at a frame of their choice.
var wrapEndpoint func(fabric.Endpoint) fabric.Endpoint

// runStarted runs body as the one rank of this process, which a launcher has started.
func runStarted(ctx context.Context, cfg Config, id *boot.Identity, body func(c *Comm) error) (err error) {
	job, err := id.Join(ctx) // also if cfg is invalid: the others must hear of it
	if err == nil && job.Client == nil {
		defer func() {
			if left := job.Leave(); err == nil && left != nil {
				err = runError(left)
			}
		}()
		if job.Size == 1 {
			return Run(ctx, cfg, body)
		}
	}
	problem := cfg.prepare(id.Ranks)
	if err != nil {
		return runError(cmp.Or(problem, err))
	}
	own := boot.Own{Problem: problem, Settings: cfg.stats.Text(), Differ: func(rank int, theirs []byte) error {
		return fmt.Errorf("%w: %w", ErrConfig, count.Different(job.Rank, rank, cfg.stats.Text(), theirs))
	}}
	if cfg.logs {
		own.Logger = cfg.Logger
	}
	ep, problem := job.Connect(ctx, own)
	client := job.Client
	if problem != nil {
		// This rank has not left the job, so the launcher ends the others when this process ends.
		problem = rootFailure(problem)
		if client != nil {
			blame(client, problem, true)
		}
		return runError(notStarted(job, problem))
	}
	if wrapEndpoint != nil {
		ep = wrapEndpoint(ep)
	}
	if client != nil {
		// set before any frame comes
		cfg.blame = func(cause error, certain bool) { blame(client, cause, certain) }
	}
	cfg.node = job.Near()
	w := newWorld(ctx, cfg, []fabric.Endpoint{ep})
	w.shareMemory, w.hasFailed = job.Together, &job.Failed
	if client == nil {
		return w.runSpared(ctx, body)
	}
	defer w.watchLauncher(client)()
	err = w.runSpared(ctx, body)
	// However the run has ended, it is over for this rank, and the program may choose its exit
	// status.
	if w.deaths.joined() != nil {
		return err // the launcher too takes this rank for dead, whatever the exit status
	}
	if left := client.Leave(); err == nil && left != nil {
		err = runError(left)
	}
	return err
}

// watchLauncher ends the run, or marks ranks lost, by the launcher's news, until stop is called.
func (w *world) watchLauncher(client *launch.Client) (stop func()) {
	w.reportDeadlock = client.Deadlock
	over, me := make(chan struct{}), client.Rank()
	go waits.Service(func() {
		select {
		case <-client.Lost():
			w.end(launch.ErrLauncherLost)
		case <-over:
		}
	})()
	client.Watch(func(news error) {
		var d *launch.Death
		var a *launch.Abort
		switch {
		case errors.As(news, &a) && a.Rank < 0 && a.Code == launch.StatusDeadlock:
			w.end(&remoteDeadlock{a.Reason})
		case !errors.As(news, &d):
			w.end(news)
		case d.Rank == me:
		case !d.Clean && d.Cause != nil && d.Cause.Rank != me && !w.survive:
			// the rank that failed first, not the one that ended first
			w.end(remoteCause(d.Cause.Rank, d.Cause.Lost, d.Cause.Reason))
		case !d.Clean:
			w.own[0].reportLoss(d.Rank, d)
		case w.survive:
			// That rank left in order, so all that live have decided to leave: this rank need not
			// hear it from others.
			w.own[0].agreements.End(leaveCtx, 0, nil)
		}
	})
	return func() { close(over) }
}

// runSpared is run with a spare processor for Go, if that is configured.
func (w *world) runSpared(ctx context.Context, body func(c *Comm) error) error {
	if w.cfg.spare {
		processors.Spare()
		defer processors.Return()
	}
	return w.run(ctx, body)
}

// prepare checks the configuration of a rank that is one of size processes, without the other
// ranks.
func (cfg *Config) prepare(size int) error {
	if cfg.Ranks != 0 && cfg.Ranks != size {
		return fmt.Errorf("%w: the program wants %d ranks, and is one of %d that were started", ErrConfig, cfg.Ranks, size)
	}
	cfg.Ranks = size
	_, err := cfg.validate()
	return err
}

// rootFailure returns the failure of another rank that err is about, or else err.
func rootFailure(err error) error {
	d := (*launch.Death)(nil)
	switch {
	case !errors.As(err, &d):
		return err
	case d.Cause != nil:
		return remoteCause(d.Cause.Rank, d.Cause.Lost, d.Cause.Reason)
	}
	return &RankError{Rank: d.Rank, Err: &LostError{Rank: d.Rank, Err: d}}
}

// notStarted is the error of a rank that did not get as far as the run: it names the rank that
// failed.
func notStarted(job *boot.Job, err error) error {
	rank := job.Rank
	if of, ok := err.(*RankError); ok {
		rank, err = of.Rank, of.Err
	} else if of, ok := errors.AsType[*boot.Refused](err); ok {
		rank, err = of.Rank, &RemoteError{Text: of.Text}
	}
	if _, ok := err.(*LostError); ok {
		return err // it names the rank
	}
	return fmt.Errorf("rank %d of %d: %w", rank, job.Size, err)
}

// rankRuns is set while a Main runs as the rank of this process.
var rankRuns atomic.Bool

// asRank calls f, which is the Main of a process that was started as a rank, unless another Main is
// under way.
func asRank(f func() error) error {
	if !rankRuns.CompareAndSwap(false, true) {
		return runError(fmt.Errorf("%w: Main is called while it runs in this process, which was started as one rank; Run makes ranks in the process", ErrConfig))
	}
	defer rankRuns.Store(false)
	return f()
}

// blame tells the launcher what blameOf says.
func blame(client *launch.Client, cause error, certain bool) {
	if b := blameOf(cause, client.Rank(), certain); b != nil {
		// an error means that the launcher is gone, or ends the job
		_ = client.Blame(*b)
	}
}

// blameOf returns which rank's failure ends rank me, or may (another one's, if not certain), and
// why. It returns nil if the launcher knows, or there is no failure.
func blameOf(cause error, me int, certain bool) *launch.Blame {
	if errors.Is(cause, ErrEnded) || errors.Is(cause, launch.ErrAborted) || errors.Is(cause, launch.ErrLauncherLost) || errors.Is(cause, ErrDeadlock) {
		return nil
	}
	var of *RankError
	var lost *LostError
	var dead *launch.Death
	b := &launch.Blame{Rank: -1, Certain: certain}
	switch {
	case errors.As(cause, &lost) && lost.Rank != me:
		b.Rank = lost.Rank
	case errors.As(cause, &of) && of.Rank != me:
		b.Rank = of.Rank
	case errors.As(cause, &dead) && dead.Rank != me:
		b.Rank = dead.Rank
	case !errors.Is(cause, ErrPeerLost):
		if !certain {
			return nil
		}
		b.Rank = me
	}
	if certain {
		_, b.Lost, b.Reason = rootOf(cause, me)
	}
	return b
}

// Launched reports whether this process was started as one of the ranks of a job, by "weft run", or
// by mpirun or srun in a build with MPI, and as which of how many: Main is going to run body as
// that rank. A program calls it if it has to know before Main, such as for its defaults. The error
// is an invalid environment; Main returns it too. If only the MPI library knows (WEFT_MPI=1 without
// a launcher that tells), Launched initializes MPI, and the program must call Main then.
func Launched() (rank, ranks int, ok bool, err error) {
	id, err := boot.Detect()
	if err == nil && id != nil {
		ok, err = id.Known()
	}
	switch {
	case err != nil:
		return 0, 0, false, runError(err)
	case !ok:
		return 0, 0, false, nil
	}
	return id.Rank, id.Ranks, true, nil
}

// Bound reports whether the launcher of this rank has bound the process to processors. They belong
// to this rank then, and are not shared with the other ranks of the machine.
func Bound() bool { return env.Bound.Text() != "" }

// Local reports whether a rank of this communicator is in this process, so that its memory can be
// reached. It panics if there is no such rank.
func (c *Comm) Local(rank int) bool { return c.peers[rank] != nil }

// Fabric describes a way to carry messages between ranks, and what it can do here.
type Fabric struct {
	Name     string `json:"name"`
	Connects string `json:"connects"` // which ranks
	// Problem tells why it cannot be used here; empty if it can.
	Problem      string `json:"problem,omitempty"`
	Library      string `json:"library,omitempty"` // what carries it, name and version
	EagerLimit   int    `json:"eager_limit"`       // bytes; what Config.EagerLimit zero means
	MaxFrame     int    `json:"max_frame"`         // bytes; 0: no limit
	SharedMemory bool   `json:"shared_memory"`
}

// Fabrics lists the fabrics of this build, the fastest first. It tries each.
func Fabrics() []Fabric {
	var all []Fabric
	for _, f := range boot.Fabrics() {
		all = append(all, Fabric{f.Name, f.Connects, f.Problem, f.Library, f.Caps.EagerLimit, f.Caps.MaxFrame, f.Caps.SharedMemory})
	}
	return all
}

// Main runs body on the ranks of the program. It is the entry for programs; what it returns is for
// the program to print. By itself, a program has all its ranks as goroutines of its process: see
// Run. If the process was started as one of several ranks, by "weft run" or by mpirun or srun (in a
// build with MPI), Main runs body once, as that rank; Ranks is then zero or the number that was
// started. A process calls Main once then.
func Main(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	id, err := boot.Detect()
	switch {
	case err != nil:
		return runError(err)
	case id != nil:
		return asRank(func() error { return runStarted(ctx, cfg, id, body) })
	}
	return Run(ctx, cfg, body)
}
