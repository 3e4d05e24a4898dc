// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the live page: its data, and the document that shows the data. The document loads
// nothing from other servers.
package page

import (
	_ "embed" // of the document
	"time"
)

// HTML is the document. It requests state.json, relative to its own path, once a second.
//
//go:embed page.html
var HTML []byte

// State is the data of the page. Durations are in nanoseconds.
type State struct {
	Program string        `json:"program"`
	PID     int           `json:"pid"`
	Workers int           `json:"workers"`
	Watched time.Duration `json:"watched"`
	Stopped bool          `json:"stopped"`
	Notes   []string      `json:"notes"`
	Graph   bool          `json:"graph"` // tasks are kept for the graph
	Rank    int           `json:"rank"`  // of this process, if there are Ports
	Ports   []int         `json:"ports"` // of the pages of all ranks, if they are known

	Tasks  Tasks   `json:"tasks"`
	Slots  []Slot  `json:"slots"`
	Rate   []Point `json:"rate"`
	From   float64 `json:"rateFrom"` // seconds since watching began
	To     float64 `json:"rateTo"`
	Oldest []Old   `json:"oldest"`
	Labels []Label `json:"labels"`
}

// Tasks is the number of tasks in each state.
type Tasks struct {
	Waiting int64 `json:"waiting"` // for accesses
	Ready   int64 `json:"ready"`   // for a slot
	Running int64 `json:"running"`
	Blocked int64 `json:"blocked"` // in the body
	Bound   int64 `json:"bound"`   // the body is over, events are pending
	Over    int64 `json:"over"`
}

// Slot is the state of a slot.
type Slot struct {
	Slot  int           `json:"slot"`
	State string        `json:"state"` // running, parked, or why the slot is idle
	Task  uint64        `json:"task"`  // the task that it runs; zero if it runs none
	Label string        `json:"label"`
	Since time.Duration `json:"since"`
	Busy  float64       `json:"busy"` // share of the last second or so in bodies
}

// Point is a rate at a time.
type Point struct {
	T float64 `json:"t"` // seconds since watching began
	N float64 `json:"n"` // tasks per second
}

// Old is one of the oldest tasks that are not over.
type Old struct {
	Task  uint64        `json:"task"`
	Label string        `json:"label"`
	Site  string        `json:"site"`
	State string        `json:"state"`
	Age   time.Duration `json:"age"`
	Since time.Duration `json:"since"` // in this state
	Waits string        `json:"waits"` // what the task waits for; empty if that is not known
}

// Label has the statistics of the tasks with one label.
type Label struct {
	Label   string        `json:"label"`
	Site    string        `json:"site"` // of the first task
	Tasks   int64         `json:"tasks"`
	Run     time.Duration `json:"run"`
	RunMean time.Duration `json:"runMean"`
	Run99   time.Duration `json:"run99"`
	Deps    time.Duration `json:"depsMean"`
	Ready   time.Duration `json:"readyMean"`
	Blocked time.Duration `json:"blockedMean"`
	Bound   time.Duration `json:"boundMean"`
}
