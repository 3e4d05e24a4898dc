// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft/internal/launch"
)

// endLeftovers ends the processes that the ranks have left behind in their groups. These have had
// SIGTERM.
func (r *runner) endLeftovers() {
	r.wait(leftoverGrace)
	for _, p := range r.procs {
		r.signalGroup(p, syscall.SIGKILL)
	}
	// A killed process stays in its group until its parent has reaped it, and this process cannot
	// make the parent do that.
	r.wait(leftoverGrace)
}

// wait waits until all groups are gone, or until the limit, or until a second signal.
func (r *runner) wait(limit time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for {
		some := false
		for _, p := range r.procs {
			r.signalGroup(p, syscall.Signal(0))
			some = some || !p.gone && !p.remote
		}
		if !some {
			return
		}
		select {
		case <-end:
			return
		case <-tick.C:
		case <-r.events: // events of the server, which have no effect any more
		case sig := <-r.spec.Signals:
			if r.insisted[sig] {
				return
			}
			r.insisted[sig] = sig == syscall.SIGINT || sig == syscall.SIGTERM
		}
	}
}

// drain waits until the output is written, or until a SIGINT or SIGTERM.
func (r *runner) drain() {
	r.mu.Lock()
	for _, s := range r.streams {
		s.drain()
	}
	r.mu.Unlock()
	close(r.messages)
	done := make(chan struct{})
	go func() {
		r.copying.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return
		case e := <-r.events:
			if e.sink != nil {
				r.fail(StatusFailure)
			}
		case sig := <-r.spec.Signals:
			if sig == syscall.SIGINT || sig == syscall.SIGTERM {
				r.fail(StatusSignalBase + signalNumber(sig))
				return // the reader of the output does not read
			}
		}
	}
}

// fail records the status of a failure. The first one counts.
func (r *runner) fail(status int) {
	r.status = cmp.Or(r.status, status)
}

// endAll changes a job from running to ending.
func (r *runner) endAll(a *launch.Abort) {
	if r.state != running {
		return
	}
	r.state = ending
	r.server.Abort(a)
	r.signalAll(syscall.SIGTERM)
	if r.grace == nil {
		r.grace = time.After(r.spec.Grace)
	}
	r.endUnjoined()
}

// kill changes a job to killing.
func (r *runner) kill(when string) {
	r.state, r.grace = killing, nil
	var ranks []string
	for _, p := range r.procs {
		if !p.ended && !p.remote {
			ranks = append(ranks, strconv.Itoa(p.rank))
			r.signalGroup(p, syscall.SIGKILL)
		}
	}
	if r.hosts != nil {
		r.hosts.KillHosts()
	}
	r.endUnjoined()
	if len(ranks) > 0 {
		r.say("killing rank%s %s, %s", map[bool]string{true: "s"}[len(ranks) > 1], strings.Join(ranks, ", "), when)
	}
}

// signal passes a signal from outside on to the ranks.
func (r *runner) signal(sig os.Signal) {
	if r.insisted[sig] {
		r.fail(StatusSignalBase + signalNumber(sig))
		r.kill("on a second " + signalName(sig))
		r.leave(sig)
		return
	}
	r.insisted[sig] = sig == syscall.SIGINT || sig == syscall.SIGTERM
	if r.hosts != nil {
		r.hosts.SignalHosts(signalNumber(sig))
	}
	r.signalAll(sig)
	if (sig == syscall.SIGTERM || sig == syscall.SIGHUP) && r.grace == nil && r.state == running {
		r.asked, r.grace = sig, time.After(r.spec.Grace)
	}
	if r.live == 0 && ends(sig) {
		r.leave(sig)
	}
}

// leave ends a launcher by a signal when it waits only for ranks of other launchers.
func (r *runner) leave(sig os.Signal) {
	r.leaving = sig
	if r.relay != nil && r.live == 0 {
		r.fail(StatusSignalBase + signalNumber(sig))
		r.dismissed = true
	}
}

// signalAll sends a signal to all ranks of this launcher. It sends SIGTERM only once, whatever asks
// for it: some programs end abruptly at a second one.
func (r *runner) signalAll(sig os.Signal) {
	again := sig == syscall.SIGTERM && r.termed
	r.termed = r.termed || sig == syscall.SIGTERM
	for _, p := range r.procs {
		if p.ended {
			continue
		}
		if !again {
			r.signalGroup(p, sig)
		}
		if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
			r.signalGroup(p, sigcont) // a stopped process would not handle the signal
		}
	}
}

// signalGroup sends a signal to a rank's process group.
func (r *runner) signalGroup(p *process, sig os.Signal) {
	if p.gone || p.remote {
		return
	}
	if p.ended {
		reapGroup(p.proc.Pid)
	}
	if err := sendGroup(p.proc.Pid, sig); err != nil && p.ended && errors.Is(err, os.ErrProcessDone) {
		p.gone = true
		r.janitor.forget(p.proc.Pid)
	}
}
