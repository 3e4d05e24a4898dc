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
	// Constant. Each task that ends looks at probe, so nothing that is written shares its cache
	// line.
	cfg   Config
	probe *probe.Probe // of goroutines without a slot; nil if nobody observes the runtime

	slots struct {
		all []*slot
		wg  sync.WaitGroup // slots whose loop has not ended
	}
	sched  sched.Scheduler
	guests guests.Guests
	polls  polls
	pool   pool.Pool
	window window
	spares spares
	life   life
	still  stuck.Watch
	looked lastLook
	party  *waits.Party
	depart func() // takes party back
}

// life counts the runs, so that Close can wait for them:
//
//	open      runs begin and end
//	closing   only runs that other runs start begin; the last one that ends closes last
//	closed    no run begins; Close ends the goroutines, and then closes over
//
// A run that starts another one is counted until after that: so in closing no run is missed, and
// none begins once last is closed.
type life struct {
	mu     sync.Mutex
	runs   int           // runs under way. +checklocks:mu
	closed bool          // closing, or closed if runs is zero. +checklocks:mu
	last   chan struct{} // closed when the last run ends after close; set with closed
	over   chan struct{} // closed by the first call of Close when it is through; set with closed
}

// enter counts a run that begins; false if none may. ofRun: a run starts it.
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

// close refuses new runs, and waits for those under way. It reports whether this call
// was the first; if not, that one is through.
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

// polls are the functions that slots without work call before they park. They are rarely changed,
// and so copied.
type polls struct {
	all atomic.Pointer[[]*func() bool] // not explored: nobody relies on a poll being made
	mu  sync.Mutex                     // held by who changes all
}

// A slot is the right to run tasks. Exactly one goroutine holds it at a time, and only
// that one touches the fields below "owned"; it hands them over with the slot,
// through a channel.
type slot struct {
	rt *Runtime // constant

	// Owned by the holder.
	cur     current       // task whose body runs; the innermost one, if several are nested
	outer   *Task         // task whose Wait cur runs under, on the same stack; nil where cur is
	nested  int32         // bodies beneath cur on its stack
	flow    chain.Flow    // work list for tokens; not in use while a body runs
	free    []*chain.Node // tasks to be used again, the warmest last
	overOf  *Task         // parent of overN children that are over and not counted yet
	overN   int64
	und     *undeferred // for the next undeferred task, or nil
	ran     uint32
	polling bool         // the holder is in functions of Poll
	looks   uint32       // rt.pool.Looks() when the slot was shrunk last
	probe   *probe.Probe // nil if nobody observes the runtime; constant

	// Last: where it came first, a task without accesses took 5 % longer, as the lines fell then
	// (bench task/independent).
	sched.Slot
}

// A Task is one execution of a body. A body gets its own task as the argument and
// makes children, waits and binds events through it.
//
// Unless a method says otherwise, only the body may call it, on the goroutine that
// runs the body; a call from elsewhere panics and names both. The task must not be
// used once it is over: its memory serves another one then.
type Task struct {
	// The node's first line and the one that ends with slot are all that a task without accesses,
	// children and events touches; with accesses, the node's second line too. Flags says which of
	// the other fields are to be looked at. They and Parent, which is nil for the main task of a
	// run, are constant once the task is spawned, as run is.
	node chain.Node // must be the first field: see fromNode

	fn   func(*Task) error
	run  *run
	slot *slot // slot that the body runs on; nil while it does not run; owned as outer is

	// Owned by the body, or by whoever runs it next: the slot hands it on.
	// slot.outer, while the body has no slot, or another one runs on top of it; else nil
	outer    *Task
	spawned  int64 // children that count has not been told of; by flagLeaf
	und      *undeferred
	cost     int            // by flagRare
	holds    xatomic.Int32  // events, plus bodyOver once the body is over; by flagHeld
	block    xatomic.Uint32 // state of Block and Unblock
	nested   int32          // slot.nested, while the body has no slot
	priority int32          // by flagPriority
	spec     uint32         // its origin in a recording; zero if its spawn is not recorded
	final    bool           // Attrs.Final, of the task or of one above it; by flagRare
	phase    uint8          // what the last child does when count is armed; by flagLeaf
	unlooked uint8          // spawns since the window was looked at; by flagLeaf
	_        [8]byte        // to the end of the line

	// The last line is for what children write, and for what seldom is needed.

	// count is minus the children that are over, until it is armed by adding
	// spawned: then it is the number of live children, and whoever makes it
	// zero does what phase says. Unarmed it never becomes zero by a child.
	count xatomic.Int64

	// idle is the number of children that wait for something other than a
	// slot: blocked, or for events. The window does not count them.
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
	// somebody may unblock the task, however late: its memory is not used again
	flagBlocks
	flagWait       // Attrs.Wait
	flagPriority   // priority is not zero
	flagRare       // one of the fields is set that keep clears
	flagUndeferred // und is set
	flagResuming   // in a queue to get a slot, not to start
	flagOnReady    // more.onReady is to be called before the body
	// to spawn is more than Spawn: the task is final, has reductions, or spawns are traced
	flagLongSpawn
	// tasks are sampled, and this one is not recorded: its last line is not touched, and id is zero
	flagUnseen
	flagRecorded // a part of a recorded loop
)

// Values of Task.phase.
const (
	phaseBody  = iota // count is not armed
	phaseWait         // the body waits for the children
	phaseEnded        // the body and its events are over
)

// more is what few tasks have. A task keeps it when its memory is used again.
type more struct {
	onReady func(*Task) error
	held    *Mutex      // the newest one that the body has locked and not unlocked
	noted   probe.Notes // by the observers
	replay  *replay     // the loop that the body has recorded

	shares hidden // the reductions that the task takes part in
	groups hidden // those of its children that are open
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

	unhook   func() bool // takes back the function that the run has registered with its context
	hook     waitWord    // joins that function, if it has been started, with the end of the run
	hookOver func()      // what is to be done then. Set before hook.wait

	stopped xatomic.Bool  // bodies are skipped from now on
	first   uatomic.Error // why; the first one stays

	mu      xatomic.Mutex
	blocked []*Task // tasks in Block. +checklocks:mu
	late    lateRun
}

// lateRun has it written why a run does not return that has ended early: its failure, since some
// body or event of it is not over, and may never be; and after a longer time, what these are.
type lateRun struct {
	mu    sync.Mutex
	timer *time.Timer // +checklocks:mu
	// until the next look at what computes; longer than that of those who have had none.
	// +checklocks:mu
	pause time.Duration
	ended bool // the run is over. +checklocks:mu
}

// lastLook is when somebody has last looked what a run of a runtime waits for.
type lastLook struct {
	mu sync.Mutex
	at time.Time // +checklocks:mu
}

// Values of a word that somebody may block on.
const (
	blockNone  = iota
	blockToken // the wake-up came before the wait
	blocked
)

// waitWord joins one who waits with one who finishes, whichever comes first.
type waitWord struct{ v xatomic.Uint32 }

const (
	wordWaiting = 1 << iota
	wordDone
)

// wait announces the waiter. If it returns true, done will return true as
// well and the waiter is to be woken; else it is done already.
func (w *waitWord) wait() bool { return w.v.Add(wordWaiting)&wordDone == 0 } //bug:look

// done reports whether there is a waiter to wake.
func (w *waitWord) done() bool { return w.v.Add(wordDone)&wordWaiting != 0 }

// addIdle tells the parent that one more child, or one less, waits for something
// other than a slot.
func (t *Task) addIdle(d int32) {
	if p := t.parent(); p != nil {
		p.idle.Add(d)
	}
}

// given is what a recorded task has given up by Release in the run under way. It belongs to the
// run, and stays with the part.
type given struct {
	uses   []bool // by the numbers of chain.Cycle.Find
	n      int    // how many are true
	passed []bool // by successor: it has been told
	late   bool   // the control task waits for this run

	// Each edge that is not passed waits for one of its objects that are not given up: the first.
	// So an object that is given up leads to the edges that it may complete, and to no others.
	armed bool
	fresh []int32 // given up, and their edges have not been looked at
	wait  []int32 // by object: the first edge that waits for it, plus one
	next  []int32 // by edge: the next one with the same object, plus one
}

// recordedGroup is a reduction in a recorded loop: parts that contribute to the same copies. To the
// graph they are a group of Concurrent accesses, and what combines the copies is a part of its own,
// which writes the object.
type recordedGroup struct {
	r *chain.Reduced
	// for the participants' next runs; changed by the part that combines
	g     *chain.ReductionGroup
	parts []int32 // participants
	// accesses to the object in the loop; counted when the recording ends
	uses int
}

// parked is what others may see of a task that waits without a slot: how many do, for deadlocks,
// and which, where a run ends while they wait. The body shows it just before it sleeps, and takes
// it back just after; so a task that is seen here stays what it is while mu is held.
type parked struct {
	mu    sync.Mutex
	t     *Task     // nil: nobody waits. +checklocks:mu
	state parkState // +checklocks:mu
	what  waiting   // +checklocks:mu
	turns uint64    // changes with state. +checklocks:mu
	_     [64]byte

	// released by the bodies that show themselves, acquired by a goroutine that says what they wait
	// for
	told race.Clock
}

// parkState is what wakes the goroutine of a task that waits.
type parkState uint8

const (
	parkAsleep  parkState = iota // somebody, by a slot
	parkTimed                    // a time, too
	parkOutside                  // it is in the function of Blocking
)

// replay is a recorded loop: a graph of parts that is gone round until the last round is over.
// README.md, "Recorded loops", has the protocol. It belongs to the task of the loop, whose children
// the parts are.
type replay struct {
	// Constant while parts run.
	parts   []part // tasks, then the control task, if there is one, then joints
	next    []int32
	roots   []int32      // parts that wait for nothing in the first round
	cycle   *chain.Cycle // what Release needs
	tasks   int          // tasks that are children of the loop: all but joints
	control int          // its index; -1 if there is none
	rounds  int64        // rounds that there are, or the most
	tellAt  int64        // rounds after which a task is over for good; -1 with a control task
	partial int64        // the last round, if not all unrolled iterations are in it; else -1
	rest    int32        // the iterations in that round
	unroll  int
	while   func(*Task) (bool, error)

	ended bool         // owned by the control task: there is no further round
	cut   xatomic.Bool // the run has failed, and somebody looks after the parts that wait
}

// A part is a node of the graph. It fills a cache line, the only one that its
// predecessors touch.
type part struct {
	// state counts what has arrived for the part's next run: an arrival from each predecessor, and
	// its own when the run before is over. All together make it zero again.
	state xatomic.Uint32

	// Constant while parts run.
	own      uint32 // the part's own arrival: what all others lack to zero
	from, to uint32 // successors, in replay.next
	copy     int32  // iteration within the round
	flags    uint16 // of the task, before each run

	// Owned by the run: whoever makes state zero, then the body, then whoever ends the run.
	task  *Task // nil for a joint
	round int64
	given *given // what Release has given up; nil until it is called
	gone  bool   // the task is over for good, and its memory perhaps another's
	_     [7]byte
}

const (
	cutOff  = 1       // in part.state: the part does not run any more
	arrival = 2       // of a predecessor
	ownHere = 1 << 31 // in part.state: the part's own arrival has come, and it waits for others
)

// Workers returns the number of slots.
func (rt *Runtime) Workers() int { return len(rt.slots.all) }

// undeferred is how the creator of an undeferred task learns that its body is over.
type undeferred struct {
	creator *Task
	state   waitWord
}

// parker is where the goroutine of a task waits for a slot.
type parker struct {
	wake xatomic.Chan[*slot]
	at   int             // place in run.blocked; -1 if not in it
	word *xatomic.Uint32 // what the task is blocked on
	what waiting         // owned by the body

	parked parked
}

// The methods in which a body waits, as a report names them.
const (
	opWait     = "Wait"
	opWaitOn   = "WaitOn"
	opChild    = "an undeferred Spawn"
	opWindow   = "Spawn, since the window is full"
	opBlock    = "Block"
	opBlockFor = "BlockFor"
	opSleep    = "Sleep"
	opAwait    = "Await"
	opBlocking = "Blocking"
	opLock     = "Mutex.Lock"
	opJoin     = "Detached.Join"
)

// waiting is what a body waits for.
type waiting struct {
	op   string      // the method
	what any         // that the caller has named, or what the method is about
	on   probe.Notes // of a task that it waits for, if that is known
	lock *Mutex      // that it waits for
	due  time.Time   // when it ends by itself; zero: never
}

// window holds the creators that wait because they have too many live children.
type window struct {
	rt    *Runtime
	n     xatomic.Int32 // creators in list
	mu    xatomic.Mutex
	list  []*Task      // +checklocks:mu
	eased xatomic.Bool // since the last stall, children were over, and so creators went on
	later later
}

// later resumes the creators of a stall that may end by itself, if it does not end soon. README.md,
// "The window", has the argument.
type later struct {
	// Constant after construction.
	timer    xatomic.Timer
	min, max time.Duration

	armed xatomic.Bool  // the timer runs
	wait  time.Duration // owned by who has armed it
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
	calls []func(error) // to be called at the end. +checklocks:mu
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

	next *Mutex // the holder's list of what it has locked; owned by its body
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
