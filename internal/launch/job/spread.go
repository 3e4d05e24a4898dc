// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"weft/internal/launch"
)

// A job on several machines has a launcher on each. One of them, which listens, is the launcher of
// the job: to it the ranks of others are like its own, but for the processes, of which it is told.
// The others are its guests: they start processes, end them when they are told to, and decide
// nothing.

// far is an event of launchers on other machines.
type far struct {
	// To the launcher of the job.
	joined int           // from e.rank on so many ranks
	exit   *launch.Death // of e.rank: code and how
	gone   error         // the launcher of ranks from e.rank on is gone
	ranks  int           // with gone: how many
	from   string

	// To a guest.
	abort *launch.Abort
	sig   syscall.Signal
	kill  bool
	over  bool
	code  int   // with over: exit status of the job
	lost  error // the launcher of the job is gone
}

// open makes what the ranks of this launcher find each other by: a Server, or a Relay to one.
func (r *runner) open() (err error) {
	s := &r.spec
	var key *launch.Key
	if s.SecretFile != "" {
		if key, err = launch.LoadKey(s.SecretFile, s.Listen != "", r.janitor.discard); err != nil {
			return &Error{Status: StatusUsage, Err: err}
		}
	}
	if s.Join != "" {
		return r.join(key)
	}
	server, err := launch.NewServer(launch.ServerConfig{
		Ranks: len(r.progs) + s.Elsewhere,
		Part: func(rank int) int {
			if rank < len(r.progs) {
				return r.progs[rank].part
			}
			return len(s.Parts) // what others bring
		},
		OnDir:     r.janitor.clean,
		OnAbort:   func(a *launch.Abort) { r.post(event{rank: a.Rank, abort: a}) },
		OnLost:    func(rank int, how string) { r.post(event{rank: rank, lost: how}) },
		Elsewhere: s.Elsewhere, Listen: s.Listen, Key: key, DeadAfter: s.DeadAfter,
		Hosts: launch.HostEvents{
			Joined: func(from string, first, ranks int) { r.post(event{rank: first, far: &far{joined: ranks, from: from}}) },
			Ended: func(rank, code int, how string) {
				r.post(event{rank: rank, far: &far{exit: &launch.Death{Code: code, How: how}}})
			},
			Lost: func(from string, first, ranks int, err error) {
				r.post(event{rank: first, far: &far{gone: err, ranks: ranks, from: from}})
			},
		},
	})
	if err != nil {
		return &Error{Status: StatusFailure, Err: err}
	}
	r.server = server
	if s.Elsewhere > 0 {
		r.hosts = server
		r.say("listening at %s for %d more ranks", server.Addr(), s.Elsewhere)
	}
	return nil
}

// join brings this launcher's ranks to the job of another one.
func (r *runner) join(key *launch.Key) error {
	s := &r.spec
	first := s.First
	if first == 0 {
		first = -1
	}
	tell := func(f *far) { r.post(event{far: f}) }
	ctx, done := r.untilSignal()
	relay, err := launch.JoinJob(ctx, launch.RelayConfig{
		Addr: s.Join, Key: key, Ranks: len(r.progs), First: first, Wait: s.Wait, DeadAfter: s.DeadAfter,
		OnDir:    r.janitor.clean,
		OnAbort:  func(a *launch.Abort) { tell(&far{abort: a}) },
		OnSignal: func(n int) { tell(&far{sig: syscall.Signal(n)}) },
		OnKill:   func() { tell(&far{kill: true}) },
		OnOver:   func(status int) { tell(&far{over: true, code: status}) },
		OnLost:   func(err error) { tell(&far{lost: err}) },
	})
	if sig := done(); sig != nil {
		if err == nil {
			_ = relay.Close()
		}
		return &Error{Status: StatusSignalBase + signalNumber(sig), Err: fmt.Errorf("ended by a signal (%s) before it had ranks in the job at %s", signalName(sig), s.Join)}
	}
	if err != nil {
		return &Error{Status: StatusFailure, Err: err}
	}
	r.server, r.guest = relay, relay
	return nil
}

// untilSignal returns a context that ends with the first signal that asks for the end of the job.
// done ends that, and returns the signal, nil if there was none. Other signals are for ranks, of
// which there are none yet.
func (r *runner) untilSignal() (ctx context.Context, done func() os.Signal) {
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan os.Signal, 1)
	go func() { // ends with done
		defer close(got)
		for {
			select {
			case sig := <-r.spec.Signals:
				if ends(sig) {
					got <- sig
					cancel()
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() os.Signal {
		cancel()
		return <-got
	}
}

// span returns the number of this launcher's first rank, and how many ranks the job has.
func (r *runner) span() (first, size int) {
	if r.guest != nil {
		return r.guest.First(), r.guest.Identity(0).Ranks
	}
	return 0, len(r.progs) + r.spec.Elsewhere
}

// process returns a rank. One of its own has been started.
func (r *runner) process(rank int) *process {
	first, _ := r.span()
	return r.procs[rank-first]
}

// expect makes the ranks of other launchers known, when the own ones are started.
func (r *runner) expect() {
	if r.hosts == nil {
		return
	}
	prog := &program{name: "of another launcher"}
	for i := range r.spec.Elsewhere {
		r.procs = append(r.procs, &process{rank: len(r.progs) + i, prog: prog, remote: true})
		r.live++
	}
	r.late = time.After(r.spec.Wait)
}

// farther takes an event of launchers on other machines.
func (r *runner) farther(rank int, f *far) {
	if r.guest != nil {
		r.told(f)
		return
	}
	if rank >= len(r.procs) {
		return // the job has ended before it began
	}
	switch {
	case f.joined > 0:
		all := true
		for i, p := range r.procs {
			p.joined = p.joined || i >= rank && i < rank+f.joined
			all = all && (!p.remote || p.joined)
		}
		if all {
			r.late = nil
		}
	case f.exit != nil:
		if p := r.procs[rank]; !p.ended {
			r.endedSo(p, f.exit.Code, f.exit.How)
		}
	default:
		for _, p := range r.procs[rank:min(rank+f.ranks, len(r.procs))] {
			if !p.ended {
				r.endedSo(p, StatusFailure, fmt.Sprintf("its launcher at %s is gone (%v)", f.from, f.gone))
			}
		}
	}
}

// told takes what the launcher of the job says to a guest.
func (r *runner) told(f *far) {
	switch {
	case f.abort != nil:
		r.endAll(f.abort)
	case f.sig != 0:
		r.signalAll(f.sig)
	case f.kill:
		r.kill("as the launcher of the job says")
	case f.over:
		r.fail(f.code)
		r.dismissed = true
	case f.lost != nil:
		r.dismissed = true
		reason := fmt.Sprintf("the launcher of the job, at %s, is gone (%v)", r.spec.Join, f.lost)
		r.say("%s", reason)
		r.fail(StatusFailure)
		r.endAll(&launch.Abort{Rank: -1, Code: StatusFailure, Reason: reason})
	}
}

// neverStarted tells the launcher of the job that the rest of the ranks of this one will not be.
func (r *runner) neverStarted(why *Error) {
	if r.guest == nil {
		return
	}
	first, _ := r.span()
	for i := len(r.procs); i < len(r.progs); i++ {
		r.guest.Ended(first+i, why.Status, why.Error())
	}
}

// tooLate ends a job whose ranks have not all been brought.
func (r *runner) tooLate() {
	r.late = nil
	missing := 0
	for _, p := range r.procs {
		if p.remote && !p.joined {
			missing++
		}
	}
	if missing == 0 || r.state != running {
		return
	}
	reason := fmt.Sprintf("%d of %d ranks have not been brought by other launchers within %v", missing, r.spec.Elsewhere, r.spec.Wait)
	r.say("%s; ending the others", reason)
	r.fail(StatusFailure)
	r.endAll(&launch.Abort{Rank: -1, Code: StatusFailure, Reason: reason})
}

// giveUpLate is for a job that is being ended: nobody joins it any more.
func (r *runner) giveUpLate() {
	r.late = nil
	for _, p := range r.procs {
		if p.remote && !p.joined && !p.ended {
			p.ended = true
			r.live--
		}
	}
}

// dismiss sends the guests home.
func (r *runner) dismiss(status int) {
	if r.hosts != nil {
		r.hosts.DismissHosts(status)
	}
}
