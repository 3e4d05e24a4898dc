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

// mostLive bounds the tasks that are followed at a time (some 300 MiB; a window per task keeps
// programs far below).
const mostLive = 1 << 20

// Kind is what is known of the tasks of one origin, in ticks: the rate of the clock is known the
// better the later it is asked for. A task that was chosen by chance counts as often as it stands
// for others.
type Kind struct {
	Sum   taskprof.Times
	Run   dist.D
	Deps  dist.D
	Ready dist.D
	// Of tasks that were blocked, and that were bound.
	Blocked dist.D
	Bound   dist.D
	Failed  int64
	Skipped int64

	recorded int64 // tasks whose spawn was recorded
	begun    int64 // tasks that those whose spawn was recorded stand for
}

// Collector is a sink. Its methods may be called by any goroutine, after Attach.
type Collector struct {
	rec   *event.Recorder
	begun int64 // ticks

	mu     sync.Mutex
	live   map[uint64]*live // +checklocks:mu
	recent [4]*live         // of these, those looked up last. +checklocks:mu
	turn   int              // +checklocks:mu
	free   []*live          // +checklocks:mu
	// tasks whose end has come before some of their other events. +checklocks:mu
	ending []ending
	// tasks that were counted without waiting for their Released. +checklocks:mu
	passed map[uint64]int64
	broken uint64 // tasks that events of were missing. +checklocks:mu
	// of recorded tasks, which run again under other numbers: those that have not. +checklocks:mu
	loops map[uint64]*recorded
	// of these, those of which it came that they run again before they themselves; under which
	// number. +checklocks:mu
	early    map[uint64]uint64
	kinds    map[uint32]*Kind   // by spec. +checklocks:mu
	slots    map[place]*slot    // +checklocks:mu
	requests map[uint64]request // not complete. +checklocks:mu
	ranks    map[uint64]int     // of main tasks. +checklocks:mu
	over     int64              // tasks. +checklocks:mu
	lost     uint64             // events. +checklocks:mu
	crowded  uint64             // tasks that were not followed. +checklocks:mu
	rate     rate               // +checklocks:mu
	graph    kept               // +checklocks:mu
	end      int64              // ticks of the last flush. +checklocks:mu
	flushes  int                // +checklocks:mu
	closed   bool               // +checklocks:mu
}

type place struct{ group, index int }

type ending struct {
	task    uint64
	at      int64
	flushes int // that there had been when its end came
}

// request is what the live page says of one.
type request struct {
	kind event.Kind
	b, c uint64
}

// kept is what is kept for the graph.
type kept struct {
	most    int // tasks: the first ones. 0 keeps none
	tasks   []*live
	times   []taskprof.Times
	byID    map[uint64]*live
	cut     int
	senders map[uint64]uint64           // task by request
	sends   map[replay.Message][]uint64 // requests of messages whose receipt is not known, in order
	recvs   map[replay.Message][]uint64 // the same, the other way round
	pairs   [][2]uint64                 // send and receive of one message
}

// live is a task that is not known to be over. Its times are in ticks.
//
// Events of different sources come in any order, so nothing here depends on it: what is a time is
// the time of an event, and what is a duration is a sum in which each event counts with its time,
// once with a plus and once with a minus. The sum means something when there are as many of either
// sign, and none is missing: see settled.
type live struct {
	id, parent uint64
	spec       uint32
	weight     int64 // of how many tasks it is one
	flags      uint8 // of Spawned
	seen       uint8

	spawned, ready, started, ended, released int64

	// run is what has ended a stretch of running, less what has begun one. blocked and queued are
	// the same for what follows.
	run, blocked, queued int64
	running              int32 // stretches begun, less those ended
	stops, goes, returns int32 // Blocked, Unblocked, Resumed
	inner                int32 // bodies begun on top of this one, less those ended

	by       uint64 // whose end made it ready
	outer    uint64 // whose body it ran on top of
	request  uint64 // that it is bound to, or waits for; the last one
	reason   uint8  // of the last Blocked
	failed   bool
	skipped  bool
	moved    bool   // its goroutine was without a slot, and may have another one since
	first    *slot  // that it began on
	last     *slot  // that it ended on
	changed  int64  // time of the last event
	marks    []mark // for the graph
	accesses []access
	loop     *recorded // that it is part of; nil: none
	round    uint64    // of that loop
}

// access is one that a task has declared.
type access struct {
	lo   uintptr
	size uintptr
	mode uint8
	weak bool
	rng  bool
}

// recorded is what all rounds of a part have in common. Its order among the parts is that of their
// spawns.
type recorded struct {
	spec     uint32
	parent   uint64
	flags    uint8
	spawned  int64
	accesses []access
}

// slot is what is known of a slot of a runtime. All its events come from one source, in their
// order.
type slot struct {
	place
	parked bool
	task   uint64 // that it runs; zero: none
	since  int64  // ticks
	stands int64  // of how many tasks it is one
	// ticks in bodies since the last flush, without the body that is under way; where tasks are
	// sampled, what those ticks stand for
	busy  int64
	from  int64 // the last flush
	share float64
}

// rate is how many tasks were over at some moments of the last minutes.
type rate []ratePoint

type ratePoint struct {
	at   float64 // seconds
	over int64
}

// mark is something that happened in a body.
type mark struct {
	at   int64 // ticks
	what uint8
}
