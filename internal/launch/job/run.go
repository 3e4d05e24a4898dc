// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"weft/internal/env"
	"weft/internal/launch"
)

// Run runs a job and returns its exit status: 0, or that of the first failure. It writes a line to
// Stderr for each failure when it occurs. An error means that the job was not started.
func Run(spec Spec) (int, error) {
	if !supported {
		return 0, &Error{Status: StatusFailure, Err: fmt.Errorf("%w: ranks as processes need Unix", launch.ErrUnsupported)}
	}
	progs, err := spec.check()
	if err != nil {
		return 0, err
	}
	// The kernel sends the parent-death signal when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &runner{spec: spec, progs: progs, events: make(chan event), over: make(chan struct{}), insisted: map[os.Signal]bool{}}
	r.sinks = newSinks(spec.Stdout, spec.Stderr, r.sinkBroken)
	r.messages = make(chan string, 4*len(progs)+64)
	adoptOrphans()
	launch.Sweep()
	if spec.Janitor {
		if r.janitor, err = startJanitor(); err != nil { // before there is anything to clean up
			return 0, &Error{Status: StatusFailure, Err: err}
		}
	}
	defer r.janitor.stop()
	if err := r.open(); err != nil {
		return 0, err
	}
	defer func() { // removes what the job has
		close(r.over)
		if err := r.server.Close(); err != nil {
			r.sinks[1].say("%v", err)
		}
	}()
	r.copying.Go(func() { // writes the launcher's messages until drain closes the channel
		for text := range r.messages {
			r.sinks[1].say("%s", text)
		}
	})
	if err := r.start(); err != nil {
		r.neverStarted(err)
		r.endAll(&launch.Abort{Rank: -1, Code: err.Status, Reason: err.Error()})
		r.loop()
		r.dismiss(err.Status)
		return 0, err
	}
	r.addRemote()
	r.loop()
	r.dismiss(r.status)
	return r.status, nil
}

// start starts all ranks.
func (r *runner) start() *Error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return &Error{StatusFailure, err}
	}
	defer null.Close()
	if d := r.spec.OutputDir; d != "" {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return &Error{StatusUsage, fmt.Errorf("directory for output %s: %w", d, cause(err))}
		}
	}
	if err := r.divide(); err != nil {
		return err
	}
	first, size := r.span()
	width := len(strconv.Itoa(size - 1))
	for rank := first; rank < first+len(r.progs); rank++ {
		label := ""
		if r.spec.Label {
			label = fmt.Sprintf("[%*d]", width, rank)
		}
		if err := r.startRank(rank, label, null); err != nil {
			return err
		}
	}
	if r.feed != nil {
		// The goroutine ends with the input, or with the launcher: a read of a terminal cannot be
		// interrupted.
		go feedInput(r.feed, r.spec.Stdin)
	}
	return nil
}

// startRank starts one rank.
func (r *runner) startRank(rank int, label string, null *os.File) *Error {
	first, _ := r.span()
	p := &r.progs[rank-first]
	var mine []*os.File // the child's ends
	defer func() {
		for _, f := range mine {
			_ = f.Close()
		}
	}()
	files := []*os.File{null, nil, nil}
	switch {
	case rank != 0 || r.spec.Stdin == nil:
	case r.spec.CopyStdin:
		in, feed, err := os.Pipe()
		if err != nil {
			return &Error{StatusFailure, err}
		}
		mine = append(mine, in)
		files[0], r.feed = in, feed
	default:
		files[0] = r.spec.Stdin
	}
	for i := range 2 {
		f, err := r.outputFile(rank, i, label)
		if err != nil {
			return &Error{StatusFailure, err}
		}
		mine = append(mine, f)
		files[1+i] = f
	}
	vars := environ(env.All(), p.env)
	if p.dir != "" {
		vars = environ(vars, []string{"PWD=" + p.dir})
	}
	binding, restore, failed := r.bindRank(rank, rank-first)
	if failed != nil {
		return failed
	}
	proc, err := os.StartProcess(p.path, p.args, &os.ProcAttr{
		Dir: p.dir, Env: environ(vars, append(binding, r.server.Identity(rank).Environ()...)), Files: files, Sys: rankAttr(),
	})
	restore()
	if err != nil {
		return &Error{StatusCannotRun, fmt.Errorf("rank %d: %s: cannot be run: %w", rank, p.name, cause(err))}
	}
	r.janitor.watch(proc.Pid)
	r.procs = append(r.procs, &process{rank: rank, prog: p, proc: proc})
	r.live++
	go func() {
		st, _ := proc.Wait() // fails only if called twice
		r.server.Settle(rank)
		r.post(event{rank: rank, ended: st})
	}()
	return nil
}

// outputFile returns the file that becomes a rank's descriptor 1 (which = 0) or 2 (which = 1).
func (r *runner) outputFile(rank, which int, label string) (*os.File, error) {
	if r.spec.OutputDir != "" {
		name := fmt.Sprintf("rank.%d.%s", rank, [...]string{"out", "err"}[which])
		return os.Create(filepath.Join(r.spec.OutputDir, name))
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := &stream{sink: r.sinks[which], label: label, r: rd}
	r.mu.Lock()
	r.streams = append(r.streams, s)
	r.mu.Unlock()
	r.copying.Go(s.copy)
	return wr, nil
}

// sinkBroken is called when output cannot be written any more, for example because its reader has
// ended, as in "weft run ... | head". It closes the ranks' pipes, so that the ranks notice in the
// same way.
func (r *runner) sinkBroken(k *sink, err error) {
	// Record the reason before closing the pipes, of which the ranks may die.
	if isBrokenPipe(err) {
		r.noPipe.Store(true)
	} else if r.noSpace.CompareAndSwap(nil, &err) {
		// in a goroutine, since Run's, which takes the event, may be the caller
		go r.post(event{sink: k})
	}
	r.mu.Lock()
	for _, s := range r.streams {
		if s.sink == k {
			_ = s.r.Close()
		}
	}
	r.mu.Unlock()
}

// loop handles events until the end of the job.
func (r *runner) loop() {
	var limit <-chan time.Time
	if r.spec.Timeout > 0 {
		limit = time.After(r.spec.Timeout)
	}
	for r.live > 0 || r.relay != nil && !r.dismissed {
		select {
		case <-r.late:
			r.tooLate()
		case e := <-r.events:
			r.handle(e)
		case sig := <-r.spec.Signals:
			r.signal(sig)
		case <-limit:
			if r.state == running {
				r.say("the time limit of %v is over; ending all ranks", r.spec.Timeout)
				r.fail(StatusTimeout)
				r.endAll(&launch.Abort{Rank: -1, Code: StatusTimeout, Reason: "the time limit is over"})
			}
		case <-r.blame:
			r.judge()
		case <-r.grace:
			r.expired()
		}
	}
	r.endLeftovers()
	r.drain()
}

// handle handles an event.
func (r *runner) handle(e event) {
	if err := r.noSpace.Load(); err != nil && !r.unwritten {
		r.unwritten = true
		r.say("output cannot be written: %v", *err)
		r.failRank(nil, StatusFailure, "output cannot be written: "+(*err).Error())
	}
	switch {
	case e.host != nil:
		r.handleHost(e.rank, e.host)
	case e.ended != nil:
		code, how := exitStatus(e.ended)
		r.rankEnded(r.process(e.rank), code, how)
	case r.state != running: // the events below end the job, or were handled above
	case e.abort != nil:
		if e.abort.Rank < 0 {
			r.say("%s", e.abort.Reason)
		} else {
			r.say("rank %d ends the job: %s", e.rank, e.abort.Reason)
		}
		r.fail(e.abort.Code)
		r.endAll(e.abort)
	case e.sink == nil:
		r.failed(failure{p: r.process(e.rank), class: broken, status: StatusFailure, how: e.lost + ", without its leaving the job"})
	}
}

// rankEnded records the end of a rank's process.
func (r *runner) rankEnded(p *process, code int, how string) {
	p.ended = true
	r.live--
	d, orderly := r.server.Ended(p.rank, code, how)
	r.signalGroup(p, syscall.SIGTERM) // to processes that it has left behind
	if r.relay != nil {               // the launcher of the job decides what the end means
		if r.leaving != nil && d.Clean {
			r.leave(r.leaving)
		}
		return
	}
	if d.Clean {
		if r.live == 0 {
			r.report()
		}
		return
	}
	r.failed(r.failureOf(p, code, d.How, orderly))
}

// failRank reports a failure of a rank, or of the launcher (p is nil), and ends the job unless
// KeepGoing is set.
func (r *runner) failRank(p *process, status int, how string) {
	r.fail(status)
	a := &launch.Abort{Rank: -1, Code: status, Reason: how}
	if p != nil {
		if p.failed {
			return
		}
		p.failed = true
		a.Rank = p.rank
		next := "; ending the others"
		switch {
		case r.live == 0 || len(r.procs) == 1:
			next = ""
		case r.spec.KeepGoing:
			next = "; the others go on"
		}
		// A shell does not report a SIGPIPE after the reader has gone either.
		if !r.noPipe.Load() || status != StatusSignalBase+int(syscall.SIGPIPE) {
			r.say("rank %d (%s): %s%s", p.rank, p.prog.name, how, next)
		}
	}
	if !r.spec.KeepGoing {
		r.endAll(a)
	}
}

// expired handles the end of the grace period.
func (r *runner) expired() {
	asked, name := r.state == running, "SIGTERM"
	if asked {
		r.fail(StatusSignalBase + signalNumber(r.asked))
		if r.asked == syscall.SIGHUP {
			name = "SIGHUP"
		}
	}
	r.kill(fmt.Sprintf("%v after %s", r.spec.Grace, name))
	if asked {
		r.leave(r.asked)
	}
}
