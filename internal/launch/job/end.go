// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"syscall"
	"time"
)

// endLeftovers ends what the ranks have left behind in their groups, which has had SIGTERM.
func (r *runner) endLeftovers() {
	r.wait(leftoverGrace)
	for _, p := range r.procs {
		r.signalGroup(p, syscall.SIGKILL)
	}
	// A process that was killed is in its group until its parent has taken notice; ours cannot be made to.
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
		case e := <-r.events: // of the server, which are of no use any more
			_ = e
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

// cleanUp removes what the job has.
func (r *runner) cleanUp() {
	close(r.over)
	if err := r.server.Close(); err != nil {
		r.sinks[1].say("%v", err)
	}
}
