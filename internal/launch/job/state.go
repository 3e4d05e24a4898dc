// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weft/internal/launch"
	"weft/internal/launch/bind"
)

// class is the kind of a rank's failure, the worst first.
type class uint8

// failure is a failure of a rank.
type failure struct {
	p      *process
	class  class
	status int
	how    string
	cause  int // of class caused: the rank whose failure is the cause; -1: not known
}

// state is the state of a job; see the package comment.
type state uint8

const (
	running state = iota
	ending
	killing
)

// leftoverGrace is the time from SIGTERM to SIGKILL for processes that a rank has left behind in
// its process group.
const leftoverGrace = time.Second

// process is the process of one rank. The goroutine of Run owns it.
type process struct {
	rank   int
	prog   *program
	proc   *os.Process
	ended  bool
	failed bool // its failure was reported
	gone   bool // its group has no process any more
	remote bool // another launcher has started it, and proc is nil
	joined bool // remote: its launcher has joined
}

// event is an event that the goroutine of Run handles.
type event struct {
	rank  int
	ended *os.ProcessState // the process has ended
	abort *launch.Abort
	lost  string     // its connection has ended, and how
	sink  *sink      // it is broken
	host  *hostEvent // of a launcher on another machine
}

// runner runs a job. The goroutine of Run owns the fields without another note.
type runner struct {
	// Constant after construction.
	spec     Spec
	progs    []program
	server   rankServer
	hosts    *launch.Server // server, if other launchers may join it; else nil
	relay    *launch.Relay  // server, if this launcher is a joining one; else nil
	sinks    [2]*sink
	messages chan string // lines of the launcher itself; with room for all
	events   chan event
	over     chan struct{} // closed when events are not handled any more

	mu      sync.Mutex
	streams []*stream // guarded by mu
	copying sync.WaitGroup
	noPipe  atomic.Bool           // the reader of the output has closed it
	noSpace atomic.Pointer[error] // output cannot be written for another reason

	procs  []*process
	live   int // processes that have not ended
	state  state
	status int              // of the first failure
	grace  <-chan time.Time // if ending, or asked is set: when the job becomes killing
	asked  os.Signal        // the SIGTERM or SIGHUP from outside that began grace; nil: none
	termed bool             // the ranks have had SIGTERM
	// leaving is the signal because of which a joining launcher does not wait for ranks of other
	// launchers; nil: it waits.
	leaving   os.Signal
	feed      *os.File           // to rank 0's input, if that is copied
	unwritten bool               // noSpace was reported
	insisted  map[os.Signal]bool // SIGINT and SIGTERM that have come once
	failures  []failure          // of ranks, kept until it is clear which was the first
	blame     <-chan time.Time   // when to judge failures
	firstAt   time.Time          // when the first of failures came
	janitor   *janitor
	late      <-chan time.Time // when launchers that have not joined are too late
	sets      []bind.Set       // processors of this launcher's ranks; nil: they are not bound
	dismissed bool             // of a joining launcher: the job is over, or its launcher is gone
}

// rankServer is the rendezvous of a launcher's ranks: a launch.Server, or a launch.Relay to one.
type rankServer interface {
	Dir() string
	Identity(rank int) *launch.Identity
	Settle(rank int)
	Blames(rank int) *launch.Blame
	Ended(rank, code int, how string) (*launch.Death, bool)
	Abort(a *launch.Abort)
	Close() error
}

// say queues a line of the launcher without waiting: the reader of standard error may be slow, and
// the launcher must be able to end the ranks meanwhile.
func (r *runner) say(format string, args ...any) {
	select {
	case r.messages <- fmt.Sprintf(format, args...):
	default: // the queue has room for all lines, unless a rank floods the launcher
	}
}

// post hands an event to the goroutine of Run.
func (r *runner) post(e event) {
	select {
	case r.events <- e:
	case <-r.over:
	}
}

// ends reports whether a signal asks for the end of the job.
func ends(sig os.Signal) bool {
	return sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGHUP
}
