// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package names lists the modes of accesses, and the collectives, by their numbers. The packages
// chain and comm/internal/coll implement them; package event has the numbers in trace records and
// shows the names. So the numbers are part of the trace format: a new one is added at the end.
package names

// Modes has the names of the modes: those of the constructors in package deps.
var Modes = [...]string{"In", "Out", "InOut", "Concurrent", "Reduce", "Commutative"}

// Flow says whose contributions a rank needs before a collective is complete at this rank.
type Flow uint8

const (
	FromAll  Flow = iota // each rank needs those of all ranks
	FromRoot             // each rank needs that of the root
	ToRoot               // the root needs those of all ranks; another rank needs none
	Upward               // each rank needs those of the ranks up to its own
)

// A Collective is a collective as all parts of weft know it.
type Collective struct {
	Name string
	Flow Flow
}

// Collectives has all collectives. Number 0 is none of them.
var Collectives = [...]Collective{
	{Name: "none"},
	{"barrier", FromAll},
	{"bcast", FromRoot},
	{"reduce", ToRoot},
	{"allreduce", FromAll},
	{"scan", Upward},
	{"gather", ToRoot},
	{"scatter", FromRoot},
	{"allgather", FromAll},
	{"alltoall", FromAll},
}
