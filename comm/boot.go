// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"weft/internal/fabric"
	"weft/internal/launch"
	"weft/internal/processors"
	"weft/internal/waits"
)

// EnvSpare is the environment variable that gives Go one processor more in a rank that is a process, 0 or 1.
const EnvSpare = "WEFT_SPARE"

// wrapEndpoint lets tests have a started rank die at a frame of their choice.
var wrapEndpoint func(fabric.Endpoint) fabric.Endpoint

// boot runs body as the one rank that this process was started as.
func boot(ctx context.Context, cfg Config, place *launch.Place, body func(c *Comm) error) error {
	_, problem := prepare(&cfg, place.Ranks)
	client, err := place.Join(ctx) // in any case: the others are to hear of the problem
	if err != nil {
		return runError(cmp.Or(problem, err))
	}
	m := meetingOf(client)
	var ep fabric.Endpoint
	if problem == nil {
		ep, problem = connect(ctx, m, cfg.stats)
	}
	if problem != nil {
		// This rank has not left the job: the launcher ends the others when it ends.
		problem = beginning(problem)
		blame(client, problem, true)
		return runError(notStarted(place, problem))
	}
	if wrapEndpoint != nil {
		ep = wrapEndpoint(ep)
	}
	cfg.blame = func(cause error, certain bool) { blame(client, cause, certain) } // before any frame comes
	w := newWorld(ctx, cfg, []fabric.Endpoint{ep})
	w.together, w.hasFailed = m.together, &m.failed
	if w.stalls != nil {
		w.stalls.tell(client)
	}
	over := make(chan struct{})
	defer close(over)
	go waits.Service(func() { // ends with this call
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
		case d.Rank == place.Rank:
		case !d.Clean && d.Cause != nil && d.Cause.Rank != place.Rank && !w.survive:
			w.end(remoteCause(d.Cause.Rank, d.Cause.Lost, d.Cause.Reason)) // and not the rank that happened to end first
		case !d.Clean:
			w.procs[place.Rank].gone(d.Rank, d)
		case w.survive:
			// It could leave because all that live have come to leave, so nobody needs to hear more.
			w.procs[place.Rank].ballots.finish(leaving, nil)
		}
	})
	err = w.runSpared(ctx, body)
	// Whatever the run came to, it is over for this rank, and its exit status is the program's to choose.
	if w.deaths.joined() != nil {
		return err // in the eyes of the launcher too, whatever the exit status: this rank dies
	}
	if left := client.Leave(); err == nil && left != nil {
		err = runError(left)
	}
	return err
}

// runSpared is run for the one rank of this process.
func (w *world) runSpared(ctx context.Context, body func(c *Comm) error) error {
	if w.cfg.spare {
		processors.Spare()
		defer processors.Return()
	}
	return w.run(ctx, body)
}

// prepare does what can go wrong at a rank that is one of size processes, without the others. It
// returns the rank's node.
func prepare(cfg *Config, size int) (launch.NodeID, error) {
	if cfg.Ranks != 0 && cfg.Ranks != size {
		return "", fmt.Errorf("%w: the program wants %d ranks, and is one of %d that were started", ErrConfig, cfg.Ranks, size)
	}
	cfg.Ranks = size
	if _, err := cfg.validate(); err != nil {
		return "", err
	}
	return launch.Node()
}

// beginning is the failure of another rank that err is about, or else err.
func beginning(err error) error {
	d := (*launch.Death)(nil)
	switch {
	case !errors.As(err, &d):
		return err
	case d.Cause != nil:
		return remoteCause(d.Cause.Rank, d.Cause.Lost, d.Cause.Reason)
	}
	return &RankError{Rank: d.Rank, Err: &LostError{Rank: d.Rank, Err: d}}
}

// notStarted is the error of a rank that has not come as far as the run: it says whose mistake that
// is.
func notStarted(place *launch.Place, err error) error {
	rank := place.Rank
	if of, ok := err.(*RankError); ok {
		rank, err = of.Rank, of.Err
	}
	if _, ok := err.(*LostError); ok {
		return err // which names the rank
	}
	return fmt.Errorf("rank %d of %d: %w", rank, place.Ranks, err)
}

// spareFromEnv reads EnvSpare.
func spareFromEnv() (bool, error) {
	s := os.Getenv(EnvSpare)
	if s != "" && s != "0" && s != "1" {
		return false, fmt.Errorf("%w: %s=%q; it must be 0 or 1", ErrConfig, EnvSpare, s)
	}
	return s == "1", nil
}

// rankRuns is set while a Main runs that is this process's rank.
var rankRuns atomic.Bool

// asRank calls f, which is Main of a process that was started as a rank, unless another one is under way.
func asRank(f func() error) error {
	if !rankRuns.CompareAndSwap(false, true) {
		return runError(fmt.Errorf("%w: Main is called while it runs in this process, which was started as one rank; Run makes ranks in the process", ErrConfig))
	}
	defer rankRuns.Store(false)
	return f()
}

// meetingOf is how a rank finds the others by its launcher.
func meetingOf(client *launch.Client) *meeting {
	return &meeting{
		rank: client.Rank(), size: client.Size(), node: client.Node(), secret: client.Secret()[:], segments: client.Segments(),
		spread: client.Spread(), meet: client.Meet,
	}
}

// blame tells the launcher what blameOf says.
func blame(client *launch.Client, cause error, certain bool) {
	if b := blameOf(cause, client.Rank(), certain); b != nil {
		_ = client.Blame(*b) // if the launcher is gone, or ends the job, it does not matter any more
	}
}

// blameOf is whose failure ends rank me, or may if that is another one's, and why. It is nil if the
// launcher knows, or there is none.
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
