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

// A job on several machines has a launcher on each. The one that listens is the launcher of the
// job. It treats the ranks of the others like its own, except that it hears of their processes'
// ends from their launchers. The others are joining launchers: they start processes, end them when
// the launcher of the job orders that, and decide nothing.

// hostEvent is an event of a launcher on another machine.
type hostEvent struct {
	// At the launcher of the job.
	joined int           // a launcher has joined with so many ranks, from event.rank on
	exit   *launch.Death // the process of event.rank has ended: code and how
	gone   error         // the launcher of ranks from event.rank on is gone
	ranks  int           // with gone: its number of ranks
	from   string        // with joined and gone: its address

	// At a joining launcher.
	abort *launch.Abort
	sig   syscall.Signal
	kill  bool
	over  bool
	code  int   // with over: exit status of the job
	lost  error // the launcher of the job is gone
}

// open makes the rendezvous of this launcher's ranks: a Server, or a Relay to one.
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
			return len(s.Parts) // ranks of other launchers
		},
		OnDir:     r.janitor.clean,
		OnAbort:   func(a *launch.Abort) { r.post(event{rank: a.Rank, abort: a}) },
		OnLost:    func(rank int, how string) { r.post(event{rank: rank, lost: how}) },
		Elsewhere: s.Elsewhere, Listen: s.Listen, Key: key, DeadAfter: s.DeadAfter,
		Hosts: launch.HostEvents{
			Joined: func(from string, first, ranks int) {
				r.post(event{rank: first, host: &hostEvent{joined: ranks, from: from}})
			},
			Ended: func(rank, code int, how string) {
				r.post(event{rank: rank, host: &hostEvent{exit: &launch.Death{Code: code, How: how}}})
			},
			Lost: func(from string, first, ranks int, err error) {
				r.post(event{rank: first, host: &hostEvent{gone: err, ranks: ranks, from: from}})
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

// join brings this launcher's ranks to the job of another launcher.
func (r *runner) join(key *launch.Key) error {
	s := &r.spec
	first := s.First
	if first == 0 {
		first = -1
	}
	post := func(h *hostEvent) { r.post(event{host: h}) }
	ctx, done := r.untilSignal()
	relay, err := launch.JoinJob(ctx, launch.RelayConfig{
		Addr: s.Join, Key: key, Ranks: len(r.progs), First: first, Wait: s.Wait, DeadAfter: s.DeadAfter,
		OnDir:    r.janitor.clean,
		OnAbort:  func(a *launch.Abort) { post(&hostEvent{abort: a}) },
		OnSignal: func(n int) { post(&hostEvent{sig: syscall.Signal(n)}) },
		OnKill:   func() { post(&hostEvent{kill: true}) },
		OnOver:   func(status int) { post(&hostEvent{over: true, code: status}) },
		OnLost:   func(err error) { post(&hostEvent{lost: err}) },
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
	r.server, r.relay = relay, relay
	return nil
}

// untilSignal returns a context that ends with the first signal that asks for the end of the job.
// done ends the context too, and returns the signal, or nil if there was none. Other signals are
// dropped: they are for ranks, and no rank has been started yet.
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

// span returns the number of this launcher's first rank, and the number of ranks of the job.
func (r *runner) span() (first, size int) {
	if r.relay != nil {
		return r.relay.First(), r.relay.Identity(0).Ranks
	}
	return 0, len(r.progs) + r.spec.Elsewhere
}

// process returns a rank's process. Precondition: it has been started, or added by addRemote.
func (r *runner) process(rank int) *process {
	first, _ := r.span()
	return r.procs[rank-first]
}

// addRemote adds the ranks of other launchers, after the launcher's own ranks have been started.
func (r *runner) addRemote() {
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

// handleHost handles an event of a launcher on another machine.
func (r *runner) handleHost(rank int, h *hostEvent) {
	if r.relay != nil {
		r.handleOrder(h)
		return
	}
	if rank >= len(r.procs) {
		return // the job has failed before addRemote
	}
	switch {
	case h.joined > 0:
		all := true
		for i, p := range r.procs {
			p.joined = p.joined || i >= rank && i < rank+h.joined
			all = all && (!p.remote || p.joined)
		}
		if all {
			r.late = nil
		}
	case h.exit != nil:
		if p := r.procs[rank]; !p.ended {
			r.rankEnded(p, h.exit.Code, h.exit.How)
		}
	default:
		for _, p := range r.procs[rank:min(rank+h.ranks, len(r.procs))] {
			if !p.ended {
				r.rankEnded(p, StatusFailure, fmt.Sprintf("its launcher at %s is gone (%v)", h.from, h.gone))
			}
		}
	}
}

// handleOrder handles an order of the launcher of the job at a joining launcher.
func (r *runner) handleOrder(h *hostEvent) {
	switch {
	case h.abort != nil:
		r.endAll(h.abort)
	case h.sig != 0:
		r.signalAll(h.sig)
	case h.kill:
		r.kill("as the launcher of the job says")
	case h.over:
		r.fail(h.code)
		r.dismissed = true
	case h.lost != nil:
		r.dismissed = true
		reason := fmt.Sprintf("the launcher of the job, at %s, is gone (%v)", r.spec.Join, h.lost)
		r.say("%s", reason)
		r.fail(StatusFailure)
		r.endAll(&launch.Abort{Rank: -1, Code: StatusFailure, Reason: reason})
	}
}

// neverStarted tells the launcher of the job that this launcher will not start the rest of its
// ranks.
func (r *runner) neverStarted(why *Error) {
	if r.relay == nil {
		return
	}
	first, _ := r.span()
	for i := len(r.procs); i < len(r.progs); i++ {
		r.relay.Ended(first+i, why.Status, why.Error())
	}
}

// tooLate ends a job if other launchers have not brought all its ranks in time.
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

// endUnjoined marks ranks whose launchers have not joined as ended: no launcher joins a job that is
// being ended.
func (r *runner) endUnjoined() {
	r.late = nil
	for _, p := range r.procs {
		if p.remote && !p.joined && !p.ended {
			p.ended = true
			r.live--
		}
	}
}

// dismiss tells the joining launchers that the job is over.
func (r *runner) dismiss(status int) {
	if r.hosts != nil {
		r.hosts.DismissHosts(status)
	}
}
