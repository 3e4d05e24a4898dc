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

// class says how a rank has failed, the worst first.
type class uint8

// failure is how a rank has failed.
type failure struct {
	p      *process
	class  class
	status int
	how    string
	cause  int // of class led: whose failure it is due to; -1: not known whose
}

// state is that of a job; see the package comment.
type state uint8

const (
	running state = iota
	ending
	killing
)

// leftoverGrace is how long what a rank has left behind in its process group has to end, after
// SIGTERM.
const leftoverGrace = time.Second

// process is one rank. The goroutine of Run owns it.
type process struct {
	rank   int
	prog   *program
	proc   *os.Process
	ended  bool
	failed bool // it was reported
	gone   bool // its group has no process any more
	remote bool // another launcher's: there is no proc
	joined bool // of a remote one: its launcher has joined
}

// event is what the goroutine of Run hears of.
type event struct {
	rank  int
	ended *os.ProcessState // the process has ended
	abort *launch.Abort
	lost  string // its connection has ended, and how
	sink  *sink  // takes no output any more
	far   *far   // of launchers on other machines
}

// runner is a job. The goroutine of Run owns what has no other note.
type runner struct {
	// Constant after construction.
	spec   Spec
	progs  []program
	server hub
	hosts  *launch.Server // where others join; nil: nowhere
	guest  *launch.Relay  // if this launcher has joined another; nil: it has not
	sinks  [2]*sink
	words  chan string // what the launcher has to say; room for all
	events chan event
	over   chan struct{} // closed when nobody takes events any more

	mu      sync.Mutex
	streams []*stream // guarded by mu
	copying sync.WaitGroup
	noPipe  atomic.Bool           // who read the output has closed it
	noSpace atomic.Pointer[error] // it cannot be written for another reason

	procs  []*process
	live   int
	state  state
	status int              // of the first failure
	grace  <-chan time.Time // in ending, or asked: when it becomes killing
	asked  os.Signal        // SIGTERM or SIGHUP from outside, since which grace runs; nil: none
	termed bool             // the ranks have had SIGTERM
	// of a guest: it does not wait for ranks of others, because of this; nil: it does
	leaving   os.Signal
	feed      *os.File // to rank 0's input, if that is copied
	unwritten bool     // noSpace was reported
	insisted  map[os.Signal]bool
	failures  []failure        // of ranks, until it is clear which was the first
	blame     <-chan time.Time // when that is looked at
	firstAt   time.Time        // when the first of failures came
	janitor   *janitor
	late      <-chan time.Time // when those who have not joined are too late
	sets      []bind.Set       // processors of this launcher's ranks; nil: they are not bound
	dismissed bool             // of a guest: the job is over, or its launcher is gone
}

// hub is what a launcher needs for its ranks: a launch.Server, or a launch.Relay to one.
type hub interface {
	Dir() string
	Identity(rank int) *launch.Identity
	Settle(rank int)
	Blames(rank int) *launch.Blame
	Ended(rank, code int, how string) (*launch.Death, bool)
	Abort(a *launch.Abort)
	Close() error
}

// say says something, without waiting: standard error may be held up by whoever reads it, and the
// ranks are to be ended all the same.
func (r *runner) say(format string, args ...any) {
	select {
	case r.words <- fmt.Sprintf(format, args...):
	default: // more than there can be, unless a rank floods the launcher
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
