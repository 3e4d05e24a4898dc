// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the live page: what it shows, as data, and the document that shows it, which
// needs nothing from elsewhere.
package page

import (
	_ "embed" // of the document
	"time"
)

// HTML is the document. It asks for state.json beside it, once a second.
//
//go:embed page.html
var HTML []byte

// State is what is shown. Durations are in nanoseconds.
type State struct {
	Program string        `json:"program"`
	PID     int           `json:"pid"`
	Workers int           `json:"workers"`
	Watched time.Duration `json:"watched"`
	Stopped bool          `json:"stopped"`
	Notes   []string      `json:"notes"`
	Graph   bool          `json:"graph"` // is kept
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

// Tasks is how many tasks are in which state.
type Tasks struct {
	Waiting int64 `json:"waiting"` // for accesses
	Ready   int64 `json:"ready"`   // for a slot
	Running int64 `json:"running"`
	Blocked int64 `json:"blocked"` // in the body
	Bound   int64 `json:"bound"`   // the body is over, events are pending
	Over    int64 `json:"over"`
}

// Slot is what a slot does.
type Slot struct {
	Slot  int           `json:"slot"`
	State string        `json:"state"` // running, parked or looking
	Task  uint64        `json:"task"`  // that it runs; zero: none
	Label string        `json:"label"`
	Since time.Duration `json:"since"`
	Busy  float64       `json:"busy"` // share of the last second or so in bodies
}

// Point is a rate at a time.
type Point struct {
	T float64 `json:"t"` // seconds since watching began
	N float64 `json:"n"` // tasks per second
}

// Old is a task that is not over.
type Old struct {
	Task  uint64        `json:"task"`
	Label string        `json:"label"`
	Site  string        `json:"site"`
	State string        `json:"state"`
	Age   time.Duration `json:"age"`
	Since time.Duration `json:"since"` // in this state
	Waits string        `json:"waits"` // for what, if that is known
}

// Label is what tasks with one label have done.
type Label struct {
	Label   string        `json:"label"`
	Site    string        `json:"site"` // of the first of them
	Tasks   int64         `json:"tasks"`
	Run     time.Duration `json:"run"`
	RunMean time.Duration `json:"runMean"`
	Run99   time.Duration `json:"run99"`
	Deps    time.Duration `json:"depsMean"`
	Ready   time.Duration `json:"readyMean"`
	Blocked time.Duration `json:"blockedMean"`
	Bound   time.Duration `json:"boundMean"`
}
