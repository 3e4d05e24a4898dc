// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"sync"

	"weft/internal/event"
	"weft/internal/event/replay"
	"weft/observe/internal/dist"
	"weft/observe/internal/taskprof"
)

// maxLive bounds the live tasks that the collector keeps (some 300 MiB). The throttle keeps
// programs far below.
const maxLive = 1 << 20

// Kind has the statistics of the tasks of one origin. Times are in ticks, because the rate of the
// clock is known better later. A sampled task counts with its weight: the number of tasks that it
// stands for.
type Kind struct {
	Sum   taskprof.Times
	Run   dist.D
	Deps  dist.D
	Ready dist.D
	// of the tasks that were blocked, and of those that were bound
	Blocked dist.D
	Bound   dist.D
	Failed  int64
	Skipped int64

	recorded int64 // tasks whose spawn was recorded
	begun    int64 // the sum of their weights
}

// Collector is a sink. Any goroutine may call its methods, after Begin.
type Collector struct {
	rec   *event.Recorder
	begun int64 // ticks

	mu         sync.Mutex
	live       map[uint64]*live // +checklocks:mu
	recent     [4]*live         // the live tasks that were used last. +checklocks:mu
	nextRecent int              // +checklocks:mu
	free       []*live          // +checklocks:mu
	// tasks whose end has arrived before other events of theirs. +checklocks:mu
	ending []ending
	// when tasks ended that were counted before their Released arrived. +checklocks:mu
	releasePending map[uint64]int64
	incomplete     uint64 // tasks that were dropped because events are missing. +checklocks:mu
	// loops of recorded tasks, by the number of the task's last known round. +checklocks:mu
	loops map[uint64]*recorded
	// The number of a task's next round, by the number of a round that has not arrived yet. An
	// entry exists while the Again of the next round has arrived first. +checklocks:mu
	early     map[uint64]uint64
	kinds     map[uint32]*Kind   // by spec. +checklocks:mu
	slots     map[slotKey]*slot  // +checklocks:mu
	requests  map[uint64]request // requests that are not complete. +checklocks:mu
	ranks     map[uint64]int     // rank by main task. +checklocks:mu
	over      int64              // tasks that are over. +checklocks:mu
	lost      uint64             // events that were lost. +checklocks:mu
	uncounted uint64             // events of tasks beyond maxLive. +checklocks:mu
	rate      rate               // +checklocks:mu
	graph     kept               // +checklocks:mu
	end       int64              // ticks of the last flush. +checklocks:mu
	flushes   int                // +checklocks:mu
	closed    bool               // +checklocks:mu
}

type slotKey struct{ group, index int }

type ending struct {
	task    uint64
	at      int64
	flushes int // Collector.flushes when its end arrived
}

// request is what the live page says of a request that is not complete.
type request struct {
	kind event.Kind
	b, c uint64
}

// kept has the tasks that are kept for the graph.
type kept struct {
	max     int // the number of tasks to keep: the first ones; 0 keeps none
	tasks   []*live
	times   []taskprof.Times
	byID    map[uint64]*live
	leftOut int
	senders map[uint64]uint64           // task by request
	sends   map[replay.Message][]uint64 // send requests whose receive is not known, in order
	recvs   map[replay.Message][]uint64 // receive requests whose send is not known, in order
	pairs   [][2]uint64                 // send and receive of one message
}

// live is a task that is not known to be over. Its times are in ticks.
//
// Events of different sources arrive in any order, so nothing here depends on the order. A time is
// the time of one event. A duration is a sum of times: plus for an event that ends a stretch, minus
// for one that begins a stretch. The sum is a duration when both signs occur equally often and no
// event is missing: see settled.
type live struct {
	id, parent uint64
	spec       uint32
	weight     int64 // the number of tasks that it stands for
	flags      uint8 // flags of Spawned
	seen       uint8 // saw bits

	spawned, ready, started, ended, released int64

	// run is the sum of the ends of stretches of running, minus the sum of their beginnings.
	// blocked and queued are the same for being blocked and for waiting for a slot.
	run, blocked, queued int64
	running              int32 // stretches of running begun, minus those ended
	stops, goes, returns int32 // numbers of Blocked, Unblocked, Resumed
	inner                int32 // bodies begun on top of this one, minus those ended

	by       uint64 // the task whose end made it ready
	outer    uint64 // the task on top of whose body it ran
	request  uint64 // the last request that it was bound to or waited for
	reason   uint8  // reason of the last Blocked
	failed   bool
	skipped  bool
	moved    bool   // its goroutine has given up its slot, and may have got another one
	first    *slot  // the slot on which it began
	last     *slot  // the slot on which it ended
	changed  int64  // time of the last event
	marks    []mark // for the graph
	accesses []access
	loop     *recorded // the loop's task of which it is a round; nil if it is in no loop
	round    uint64    // number of the round
}

// access is an access that a task has declared.
type access struct {
	lo   uintptr
	size uintptr
	mode uint8
	weak bool
	rng  bool
}

// recorded is what all rounds of a loop's task have in common. The tasks of a loop are ordered by
// spawned.
type recorded struct {
	spec     uint32
	parent   uint64
	flags    uint8
	spawned  int64
	accesses []access
}

// slot is the state of a slot of a runtime. All its events have one source, and arrive in order.
type slot struct {
	slotKey
	parked bool
	task   uint64 // the task that it runs; zero if it runs none
	since  int64  // ticks
	weight int64  // the number of tasks that task stands for
	// Ticks in bodies since the last flush, without the current body. If tasks are sampled, the
	// ticks of each body are multiplied by its weight.
	busy  int64
	from  int64   // the last flush
	share float64 // moving average of the share of time in bodies
}

// rate has the number of tasks that were over, at some moments of the last minutes.
type rate []ratePoint

type ratePoint struct {
	at   float64 // seconds
	over int64
}

// mark is a moment in a body.
type mark struct {
	at   int64 // ticks
	what uint8
}
