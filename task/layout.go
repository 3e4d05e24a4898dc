// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/ants/v2"
	uatomic "go.uber.org/atomic"

	"weft/internal/chain"
	"weft/internal/race"
	"weft/internal/waits"
	"weft/internal/xatomic"
	"weft/task/internal/guests"
	"weft/task/internal/pool"
	"weft/task/internal/probe"
	"weft/task/internal/sched"
	"weft/task/internal/stuck"
)

// What a runtime is made of.

// A Runtime runs tasks on a fixed number of slots. Make one with [New], and
// close it when it is no longer needed. All methods may be called by any goroutine.
type Runtime struct {
	// Constant. Each task that ends reads probe, so no field that changes shares its cache line.
	cfg   Config
	probe *probe.Probe // of goroutines without a slot; nil if nobody observes the runtime

	slots struct {
		all []*slot
		wg  sync.WaitGroup // slots whose loop has not ended
	}
	sched        sched.Scheduler
	guests       guests.Guests
	polls        polls
	pool         pool.Pool
	throttle     throttle
	spares       spares
	life         life
	stuck        stuck.Watch
	holderChecks checkLimiter
	party        *waits.Party
	depart       func() // undoes waits.Join(party)
}

// life counts the runs, so that Close can wait for them:
//
//	open      runs begin and end
//	closing   only runs that other runs start begin; the last one that ends closes last
//	closed    no run begins; Close ends the goroutines, and then closes over
//
// A run that starts another run is counted until after the start: so in closing no run is missed,
// and none begins once last is closed.
type life struct {
	mu     sync.Mutex
	runs   int           // runs under way. +checklocks:mu
	closed bool          // closing, or closed if runs is zero. +checklocks:mu
	last   chan struct{} // closed when the last run ends after close; set with closed
	over   chan struct{} // closed by the first call of Close when it returns; set with closed
}

// enter counts a run that begins; it returns false if none may begin. ofRun: a run starts it.
func (l *life) enter(ofRun bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && (!ofRun || l.runs == 0) {
		return false
	}
	l.runs++
	return true
}

// leave counts a run that is over. It comes after all that the run has done.
func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs--; l.runs == 0 && l.closed {
		close(l.last)
	}
}

// idle reports whether no run is under way.
func (l *life) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs == 0
}

// close refuses new runs, and waits for those under way. It reports whether this call was the
// first; if not, the first call has returned.
func (l *life) close() bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		waits.Call(func() { <-l.over })
		return false
	}
	l.closed = true
	l.last, l.over = make(chan struct{}), make(chan struct{})
	if l.runs == 0 {
		close(l.last)
	}
	l.mu.Unlock()
	waits.Call(func() { <-l.last })
	return true
}

// spares are the goroutines that take over the slots of blocked tasks. They come from
// an ants pool, which is made when the first task blocks.
type spares struct {
	rt   *Runtime
	once sync.Once
	pool *ants.PoolWithFuncGeneric[*slot]
}

// polls are the functions that slots without work call before they park. The list rarely changes,
// so a change copies it.
type polls struct {
	all atomic.Pointer[[]*func() bool] // not explored: nobody relies on a poll being made
	mu  sync.Mutex                     // held while all is changed
}

// A slot is the right to run tasks. Exactly one goroutine holds it at a time, and only
// that one touches the fields below "owned"; it hands them over with the slot,
// through a channel.
type slot struct {
	rt *Runtime // constant

	// Owned by the holder.
	cur       current       // task whose body runs; the innermost one, if several are nested
	outer     *Task         // task in whose Wait cur runs, on the same stack; nil if there is none
	nested    int32         // bodies beneath cur on its stack
	flow      chain.Flow    // work list for tokens; not in use while a body runs
	free      []*chain.Node // tasks to be reused; the last one is most likely in the cache
	delayedOf *Task         // parent of delayedN children that are over and not counted yet
	delayedN  int64
	und       *undeferred // for the next undeferred task, or nil
	ran       uint32
	polling   bool         // the holder is in functions of Poll
	checks    uint32       // rt.pool.Checks() when the slot was last shrunk
	probe     *probe.Probe // nil if nobody observes the runtime; constant

	// Last: as the first field it changed the cache lines so that a task without accesses took 5 %
	// longer (bench task/independent).
	sched.Slot
}

// A Task is one execution of a body. A body gets its own task as the argument and
// spawns children, waits and binds events through it.
//
// Unless a method says otherwise, only the body may call it, on the goroutine that
// runs the body; a call from elsewhere panics and names both tasks. The task must not be
// used once it is over: its memory then serves another task.
type Task struct {
	// A task without accesses, children and events touches two cache lines: the node's first line
	// and the line that ends with slot. A task with accesses touches the node's second line too.
	// Flags says which of the other fields are set. node.Parent, which is nil for the main task of
	// a run, and run are constant once the task is spawned.
	node chain.Node // must be the first field: see fromNode

	fn   func(*Task) error
	run  *run
	slot *slot // slot that the body runs on; nil while it does not run; owned as outer is

	// Owned by the body, or by the goroutine that runs it next: ownership passes with the slot.
	// slot.outer, while the body has no slot, or while another body runs on top of it; else nil
	outer     *Task
	spawned   int64 // children not yet added to count; by flagLeaf
	und       *undeferred
	cost      int            // by flagRare
	holds     xatomic.Int32  // events, plus bodyOver once the body is over; by flagHeld
	block     xatomic.Uint32 // state of Block and Unblock
	nested    int32          // slot.nested, while the body has no slot
	priority  int32          // by flagPriority
	spec      uint32         // its origin in a recording; zero if its spawn is not recorded
	final     bool           // Attrs.Final, of the task or of one above it; by flagRare
	phase     uint8          // what the last child does when count is armed; by flagLeaf
	unchecked uint8          // spawns since the last check of the throttle; by flagLeaf
	_         [8]byte        // to the end of the line

	// The last line has what children write, and what is rarely needed.

	// count is minus the number of children that are over, until it is armed by adding spawned.
	// Then it is the number of live children, and the operation that makes it zero is followed by
	// what phase says. Unarmed, a child never makes it zero.
	count xatomic.Int64

	// idle is the number of live children that need no slot: blocked, waiting, or over except for
	// events. The throttle does not count them.
	idle xatomic.Int32

	// By flagRare.
	pc     uintptr // spawn site, if traced
	label  string
	parker *parker
	more   *more
	id     uint64 // in a recording; zero if not recorded
}

// parent returns the task that has spawned t; nil if t is the main task of a run.
func (t *Task) parent() *Task { return fromNode(t.node.Parent) }

// Values of Node.Flags.
const (
	flagLeaf = 1 << iota // no child has been spawned
	flagHeld             // the body or OnReady may have bound an event
	flagMain             // a main task: its memory has not come from a slot
	// Unblock may be called for the task, however late: its memory is not reused
	flagBlocks
	flagWait       // Attrs.Wait
	flagPriority   // priority is not zero
	flagRare       // a field is set that clearRest clears under this flag
	flagUndeferred // und is set
	flagResuming   // in a queue to get a slot, not to start
	flagOnReady    // more.onReady is to be called before the body
	// Spawn takes the long way: the task is final, has reductions, or spawns are traced
	flagLongSpawn
	// tasks are sampled, and this one is not traced: its last line is not touched, and id is zero
	flagUnseen
	flagRecorded // a part of a recorded loop
)

// Values of Task.phase.
const (
	phaseBody  = iota // count is not armed
	phaseWait         // the body waits for the children
	phaseEnded        // the body and its events are over
)

// more has the fields that few tasks need. A task keeps its more when its memory is reused.
type more struct {
	onReady func(*Task) error
	held    *Mutex      // the newest one that the body has locked and not unlocked
	noted   probe.Notes // what the observers keep of the task
	replay  *replay     // the loop that the body has recorded

	shares hidden // the reductions that the task takes part in
	groups hidden // the open reduction groups of its children
}

// run is one call of Runtime.Run: a main task and its descendants.
type run struct {
	// Constant after construction.
	rt     *Runtime
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the main task is over
	handle *Detached     // nil for Run
	id     uint64        // of the main task in a recording

	unhook   func() bool // unregisters contextEnds from the context
	hook     waitWord    // joins contextEnds, if it has been started, with the end of the run
	hookOver func()      // called when both are over. Set before hook.wait

	stopped xatomic.Bool  // bodies are skipped from now on
	first   uatomic.Error // the first error, which is why

	mu      xatomic.Mutex
	blocked []*Task // tasks in Block. +checklocks:mu
	overdue overdueReport
}

// overdueReport writes why a run that has ended early does not return: some body or event of the
// run is not over, and may never be. After overdueAfter it writes the failure, and holdersAfter
// later which bodies and events the run waits for. If the context has ended the run, it writes only
// the latter.
type overdueReport struct {
	mu    sync.Mutex
	timer *time.Timer // +checklocks:mu
	// until the next check if bodies compute; it doubles with each check. +checklocks:mu
	pause time.Duration
	ended bool // the run is over. +checklocks:mu
}

// checkLimiter limits how often the runs of a runtime check what they wait for.
type checkLimiter struct {
	mu sync.Mutex
	at time.Time // of the last check. +checklocks:mu
}

// Values of a word that a task may block on.
const (
	blockNone  = iota
	blockWoken // the wake-up came before the wait
	blocked
)

// waitWord joins a waiter with a finisher, in either order.
type waitWord struct{ v xatomic.Uint32 }

const (
	wordWaiting = 1 << iota
	wordDone
)

// wait announces the waiter. If it returns true, done will return true too, and the caller of done
// has to wake the waiter. If it returns false, done has been called.
func (w *waitWord) wait() bool { return w.v.Add(wordWaiting)&wordDone == 0 } //bug:announce

// done reports whether there is a waiter to wake.
func (w *waitWord) done() bool { return w.v.Add(wordDone)&wordWaiting != 0 }

// addIdle adds d to the parent's number of children that need no slot.
func (t *Task) addIdle(d int32) {
	if p := t.parent(); p != nil {
		p.idle.Add(d)
	}
}

// earlyRelease is what a recorded task has released before its end, in the run under way. It is
// owned by the run, and its memory stays with the part.
type earlyRelease struct {
	released     []bool // by access: the index of chain.Cycle.Find
	n            int    // how many of released are true
	passed       []bool // by successor: it has got this run's arrival
	holdsControl bool   // the control task waits for this run

	// Each edge that is not passed waits for the first of its accesses that is not released. So a
	// released access leads to the edges that it may complete, and to no others.
	armed bool
	fresh []int32 // released accesses whose edges have not been checked yet
	wait  []int32 // by access: the first edge that waits for it, plus one
	next  []int32 // by edge: the next edge that waits for the same access, plus one
}

// recordedGroup is a reduction group in a recorded loop: the parts that contribute to the same
// copies. In the graph their accesses are Concurrent. A separate part, which writes the object,
// combines the copies.
type recordedGroup struct {
	r     *chain.Reduced
	g     *chain.ReductionGroup // for the participants' next runs; changed by the combining part
	parts []int32               // participants
	// accesses to the object in the loop; counted when the recording ends
	accesses int
}

// parked is what other goroutines may read of a task that waits without a slot. The deadlock
// detector counts these tasks, and a run that ends early names its own. The body publishes itself
// just before it sleeps, and retracts that just after. So a task that is found here does not change
// while mu is held.
type parked struct {
	mu      sync.Mutex
	t       *Task     // nil: no task waits. +checklocks:mu
	state   parkState // +checklocks:mu
	what    waiting   // +checklocks:mu
	changes uint64    // changes with state. +checklocks:mu
	_       [64]byte

	// released by a body that publishes itself, acquired by a goroutine that reports what it waits
	// for
	clock race.Clock
}

// parkState is what wakes the goroutine of a task that waits.
type parkState uint8

const (
	parkAsleep  parkState = iota // a slot, which another goroutine has to send
	parkTimed                    // the same, or a timer
	parkOutside                  // the end of Blocking's function
)

// replay is a recorded loop: a graph of parts that runs again and again until the last round is
// over. README.md, "Recorded loops", has the protocol. It belongs to the loop's task, of which the
// parts are children.
type replay struct {
	// Constant while parts run.
	parts   []part // tasks, then the control task, if there is one, then joints
	next    []int32
	roots   []int32      // parts that wait for nothing in the first round
	cycle   *chain.Cycle // what Release needs
	tasks   int          // tasks that are children of the loop: all but joints
	control int          // index of the control task; -1 if there is none
	rounds  int64        // number of rounds; with a control task, at most
	tellAt  int64        // rounds after which a task is over for good; -1 with a control task
	partial int64        // the last round, if not all unrolled iterations are in it; else -1
	rest    int32        // number of iterations in round partial
	unroll  int
	while   func(*Task) (bool, error)

	ended bool         // owned by the control task: there is no further round
	cut   xatomic.Bool // the run has failed, and cutShort has been called
}

// A part is a node of the graph. It fills a cache line, the only one that its
// predecessors touch.
type part struct {
	// state counts the arrivals for the part's next run: one from each predecessor, and the part's
	// own when the run before is over. When all have come, state is zero again.
	state xatomic.Uint32

	// Constant while parts run.
	own      uint32 // the part's own arrival: minus the sum of all others
	from, to uint32 // successors, in replay.next
	copy     int32  // iteration within the round
	flags    uint16 // of the task, before each run

	// Owned by the run: the goroutine that makes state zero, then the body, then the goroutine that
	// ends the run.
	task  *Task // nil for a joint
	round int64
	early *earlyRelease // nil until Release is called
	gone  bool          // the task is over for good, and its memory may serve another task
	_     [7]byte
}

const (
	cutOff  = 1       // in part.state: the part does not run any more
	arrival = 2       // of a predecessor
	ownHere = 1 << 31 // in part.state: the part's own arrival has come; others are missing
)

// Workers returns the number of slots.
func (rt *Runtime) Workers() int { return len(rt.slots.all) }

// undeferred joins the creator of an undeferred task with the end of that task's body.
type undeferred struct {
	creator *Task
	state   waitWord
}

// parker is where the goroutine of a task waits for a slot.
type parker struct {
	wake xatomic.Chan[*slot]
	at   int             // index in run.blocked; -1 if not in it
	word *xatomic.Uint32 // what the task is blocked on
	what waiting         // owned by the body

	parked parked
}

// The methods in which a body waits, as a report names them.
const (
	opWait      = "Wait"
	opWaitOn    = "WaitOn"
	opChild     = "an undeferred Spawn"
	opThrottled = "Spawn, throttled by Config.Window"
	opBlock     = "Block"
	opBlockFor  = "BlockFor"
	opSleep     = "Sleep"
	opAwait     = "Await"
	opBlocking  = "Blocking"
	opLock      = "Mutex.Lock"
	opJoin      = "Detached.Join"
)

// waiting is what a body waits for.
type waiting struct {
	op   string      // the method
	what any         // the thing that the caller has named, or that the method is about; or nil
	on   probe.Notes // of the task that the body waits for, if it is known
	lock *Mutex      // the Mutex that the body waits for, or nil
	due  time.Time   // when the wait ends by itself; zero: never
}

// throttle holds the creators that wait because they have more than Config.Window live children.
type throttle struct {
	rt           *Runtime
	n            xatomic.Int32 // creators in list
	mu           xatomic.Mutex
	list         []*Task      // +checklocks:mu
	resetBackoff xatomic.Bool // creators went on since the last backoff because children ended
	backoff      backoff
}

// backoff delays the resumption of throttled creators when all slots are parked: what their
// children wait for may come soon. README.md, "The throttle", has the argument.
type backoff struct {
	// Constant after construction.
	timer    xatomic.Timer
	min, max time.Duration

	armed xatomic.Bool  // the timer runs
	wait  time.Duration // owned by the caller that has armed the timer
}

// A Detached is a run that was started by [Runtime.Spawn]: a task without a parent, with
// a dependency domain, errors and a context of its own, and its descendants. Any
// goroutine may use it.
type Detached struct {
	rt   *Runtime
	done chan struct{} // closed when it is over
	main probe.Notes   // of the main task

	mu    xatomic.VisibleMutex
	over  bool          // +checklocks:mu
	err   error         // +checklocks:mu
	calls []func(error) // called at the end. +checklocks:mu
}

// A Mutex makes a critical section of tasks (OmpSs-2's critical). A task that waits
// for it gives up its slot and uses no CPU. Tasks get it in the order in which they
// asked. The zero value is unlocked; a Mutex must not be copied after its first use. It may be
// shared by the tasks of several runs and runtimes.
//
// What the holder does in the section it does without the others: a task must not
// wait, in the section, for a task that needs the Mutex.
type Mutex struct {
	mu     xatomic.Mutex
	holder *Task   // +checklocks:mu
	queue  waiters // +checklocks:mu

	next *Mutex // in the holder's list of locked Mutexes; owned by the holder's body
}

// waiter is a task that waits in Lock. A waiter that is off the queue and not withdrawn has
// the Mutex.
type waiter struct {
	t          *Task
	word       xatomic.Uint32
	prev, next *waiter // guarded by Mutex.mu
	queued     bool    // guarded by Mutex.mu
}

// waiters is a queue, first in, first out.
type waiters struct{ first, last *waiter }
