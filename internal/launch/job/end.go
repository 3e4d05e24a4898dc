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

// endLeftovers ends what the ranks have left behind in their groups, which has had SIGTERM.
func (r *runner) endLeftovers() {
	r.wait(leftoverGrace)
	for _, p := range r.procs {
		r.signalGroup(p, syscall.SIGKILL)
	}
	// A process that was killed is in its group until its parent has taken notice; ours cannot be
	// made to.
	r.wait(leftoverGrace)
}

// wait waits for the end of all groups, or for a time.
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
		case <-r.events: // of the server, which are of no use any more
		case sig := <-r.spec.Signals:
			if r.insisted[sig] {
				return
			}
			r.insisted[sig] = sig == syscall.SIGINT || sig == syscall.SIGTERM
		}
	}
}

// drain waits until the output is written, or somebody insists.
func (r *runner) drain() {
	r.mu.Lock()
	for _, s := range r.streams {
		s.drain()
	}
	r.mu.Unlock()
	close(r.words)
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
				return // nobody takes the output, and nobody will
			}
		}
	}
}

// fail records the first failure's status.
func (r *runner) fail(status int) {
	r.status = cmp.Or(r.status, status)
}

// endAll makes a running job an ending one.
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
	r.giveUpLate()
}

// kill makes it a killing one.
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
	r.giveUpLate()
	if len(ranks) > 0 {
		r.say("killing rank%s %s, %s", map[bool]string{true: "s"}[len(ranks) > 1], strings.Join(ranks, ", "), when)
	}
}

// signal passes a signal on.
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

// leave ends a launcher by a signal when it only waits for ranks of others.
func (r *runner) leave(sig os.Signal) {
	r.leaving = sig
	if r.guest != nil && r.live == 0 {
		r.fail(StatusSignalBase + signalNumber(sig))
		r.dismissed = true
	}
}

// signalAll sends a signal to all ranks of this launcher; SIGTERM once, whoever asks for it: for
// some programs, a second one means to end without order.
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
			r.signalGroup(p, sigcont) // one that is stopped would not notice
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
