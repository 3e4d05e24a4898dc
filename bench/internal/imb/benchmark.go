// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"fmt"
	"slices"
	"strings"

	"weft/comm"
)

// inFlight is the number of messages that Uniband and Biband have under way.
const inFlight = 64

// tag of all messages, except the acknowledgements of Uniband and Biband, which have tag+1.
const tag = 7

// kind selects the columns of a benchmark.
type kind uint8

const (
	single   kind = iota // t, bandwidth: two ranks take part
	parallel             // least, greatest and mean t, bandwidth
	band                 // bandwidth, messages per second
	collect              // least, greatest and mean t
	overlap              // both at once, operation, computation, overlap
	special              // one figure
)

// A benchmark is an operation that is repeated.
type benchmark struct {
	name    string
	kind    kind
	need    int     // ranks
	halves  float64 // operations per reported time: a ping-pong is two messages
	carried float64 // messages per operation, for the bandwidth
	parts   bool    // buffers have a part for each rank
	floats  bool    // elements are float32, and the operation adds them
	loop    bool    // measures how a rank learns of a message; comparable with PingPong
	ours    bool    // the peers' program lacks it
	op      func(r *rank) error
	start   func(r *rank) (*comm.Request, error)
}

var benchmarks = []benchmark{
	{name: "PingPong", kind: single, need: 2, halves: 2, carried: 1, op: pingPong},
	{name: "PingPing", kind: single, need: 2, halves: 1, carried: 1, op: pingPing},
	{name: "Sendrecv", kind: parallel, need: 2, halves: 1, carried: 2, op: sendrecv},
	{name: "Exchange", kind: parallel, need: 2, halves: 1, carried: 4, op: exchange},
	{name: "Uniband", kind: band, need: 2, halves: 1, carried: inFlight, op: func(r *rank) error { return bands(r, false) }},
	{name: "Biband", kind: band, need: 2, halves: 1, carried: 2 * inFlight, op: func(r *rank) error { return bands(r, true) }},
	{name: "Barrier", kind: collect, need: 1, halves: 1, op: func(r *rank) error { return r.c.Barrier() }},
	{name: "Bcast", kind: collect, need: 1, halves: 1, op: func(r *rank) error { return r.c.Bcast(r.bcastBuffer(), 0) }},
	{name: "Reduce", kind: collect, need: 1, halves: 1, floats: true, op: func(r *rank) error { return r.c.Reduce(r.sendF(), r.recvF(), comm.Sum, 0) }},
	{name: "Allreduce", kind: collect, need: 1, halves: 1, floats: true, op: func(r *rank) error { return r.c.Allreduce(r.sendF(), r.recvF(), comm.Sum) }},
	{name: "Scan", kind: collect, need: 1, halves: 1, floats: true, op: func(r *rank) error { return r.c.Scan(r.sendF(), r.recvF(), comm.Sum) }},
	{name: "Allgather", kind: collect, need: 1, halves: 1, parts: true, op: func(r *rank) error { return r.c.Allgather(r.sendPart(), r.recvAll()) }},
	{name: "Alltoall", kind: collect, need: 1, halves: 1, parts: true, op: func(r *rank) error { return r.c.Alltoall(r.sendAll(), r.recvAll()) }},
	{name: "Gather", kind: collect, need: 1, halves: 1, parts: true, op: func(r *rank) error { return r.c.Gather(r.sendPart(), r.recvAll(), 0) }},
	{name: "Scatter", kind: collect, need: 1, halves: 1, parts: true, op: func(r *rank) error { return r.c.Scatter(r.sendAll(), r.recvPart(), 0) }},
	{name: "Ibarrier", kind: overlap, need: 1, halves: 1, start: one(func(r *rank) *comm.Request { return r.c.Ibarrier() })},
	{name: "Ibcast", kind: overlap, need: 1, halves: 1, start: one(func(r *rank) *comm.Request { return r.c.Ibcast(r.bcastBuffer(), 0) })},
	{name: "Ireduce", kind: overlap, need: 1, halves: 1, floats: true, start: one(func(r *rank) *comm.Request { return r.c.Ireduce(r.sendF(), r.recvF(), comm.Sum, 0) })},
	{name: "Iallreduce", kind: overlap, need: 1, halves: 1, floats: true, start: one(func(r *rank) *comm.Request { return r.c.Iallreduce(r.sendF(), r.recvF(), comm.Sum) })},
	{name: "Iscan", kind: overlap, need: 1, halves: 1, floats: true, start: one(func(r *rank) *comm.Request { return r.c.Iscan(r.sendF(), r.recvF(), comm.Sum) })},
	{name: "Iallgather", kind: overlap, need: 1, halves: 1, parts: true, start: one(func(r *rank) *comm.Request { return r.c.Iallgather(r.sendPart(), r.recvAll()) })},
	{name: "Ialltoall", kind: overlap, need: 1, halves: 1, parts: true, start: one(func(r *rank) *comm.Request { return r.c.Ialltoall(r.sendAll(), r.recvAll()) })},
	{name: "Igather", kind: overlap, need: 1, halves: 1, parts: true, start: one(func(r *rank) *comm.Request { return r.c.Igather(r.sendPart(), r.recvAll(), 0) })},
	{name: "Iscatter", kind: overlap, need: 1, halves: 1, parts: true, start: one(func(r *rank) *comm.Request { return r.c.Iscatter(r.sendAll(), r.recvPart(), 0) })},
	{name: "Overlap", kind: overlap, need: 2, halves: 1, start: startExchange},
	{name: "TestLoop", kind: single, need: 2, halves: 2, carried: 1, loop: true, op: testLoop},
	{name: "ProbeLoop", kind: single, need: 2, halves: 2, carried: 1, loop: true, op: probeLoop},
	{name: "Asleep", kind: special, need: 2, loop: true, ours: true},
	{name: "OnDone", kind: special, need: 2, loop: true, ours: true},
	{name: "Progress", kind: special, need: 2},
	{name: "Idle", kind: special, need: 2},
	{name: "Start", kind: special, need: 1},
}

// one makes a start function of a function that fails only through its request.
func one(f func(r *rank) *comm.Request) func(r *rank) (*comm.Request, error) {
	return func(r *rank) (*comm.Request, error) { return f(r), nil }
}

// Names lists the benchmarks in the order in which they are measured.
func Names() []string {
	var names []string
	for _, b := range benchmarks {
		names = append(names, b.name)
	}
	return names
}

// sets are names for several benchmarks.
var sets = map[string]func(b *benchmark) bool{
	"P2P":   func(b *benchmark) bool { return b.kind <= band && !b.loop },
	"Coll":  func(b *benchmark) bool { return b.kind == collect },
	"NBC":   func(b *benchmark) bool { return b.kind == overlap },
	"Loops": func(b *benchmark) bool { return b.loop },
	"Extra": func(b *benchmark) bool { return b.kind == special && !b.loop },
	"all":   func(*benchmark) bool { return true },
}

// Find returns the names of the benchmarks and sets in asked, in the order of the table. It ignores
// the case of benchmarks. Without a name it returns the blocking ones.
func Find(asked []string) ([]string, error) {
	if len(asked) == 0 {
		asked = []string{"P2P", "Coll"}
	}
	wanted := map[string]bool{}
	for _, a := range asked {
		found := false
		for i := range benchmarks {
			b := &benchmarks[i]
			if set := sets[a]; strings.EqualFold(a, b.name) || set != nil && set(b) {
				wanted[b.name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no benchmark %q; there are %s, and the sets P2P, Coll, NBC, Loops, Extra and all", a, strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(Names(), func(n string) bool { return !wanted[n] }), nil
}

// OursOnly reports whether the peers' program lacks a benchmark.
func OursOnly(name string) bool { return find(name).ours }

// Need returns how many ranks a benchmark needs.
func Need(name string) int { return find(name).need }

func find(name string) *benchmark {
	i := slices.IndexFunc(benchmarks, func(b benchmark) bool { return b.name == name })
	if i < 0 {
		panic("imb: bug: no benchmark " + name)
	}
	return &benchmarks[i]
}

// takes reports whether a benchmark can be measured with a size: barriers have none, and sums need
// whole floats.
func (b *benchmark) takes(size int64) bool {
	switch {
	case b.name == "Barrier" || b.name == "Ibarrier" || b.name == "Idle" || b.name == "Start" || b.name == "Asleep" || b.name == "OnDone":
		return size == 0
	case b.floats:
		return size%4 == 0
	}
	return true
}

// sizesOf returns the sizes of a benchmark among those of a run.
func (b *benchmark) sizesOf(sizes []int64) []int64 {
	if b.takes(0) && !b.takes(1) && !b.takes(4) {
		return []int64{0}
	}
	if b.name == "Progress" || b.name == "Overlap" { // a short message leaves nothing to hide
		return []int64{1 << 20}
	}
	return slices.DeleteFunc(slices.Clone(sizes), func(s int64) bool { return !b.takes(s) })
}

// operation returns the operation of a benchmark in small letters: that of Iscan is scan.
func (b *benchmark) operation() string {
	name := strings.ToLower(b.name)
	if b.kind == overlap {
		return strings.TrimPrefix(name, "i")
	}
	return name
}
