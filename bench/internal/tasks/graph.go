// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/task"

// A Graph is the program of task/blocks on weft, for who runs it in a way of his own.
type Graph struct {
	blocks *blocks
	Main   func(*task.Task) error
}

// NewGraph returns the program, with so many blocks on a side.
func NewGraph(side int64) *Graph {
	b := newBlocks(side, blockSteps)
	return &Graph{b, b.weft()}
}

// Tasks is how many tasks it has, without the main task.
func (g *Graph) Tasks() int64 { return g.blocks.tasks() }

// Reset comes before each run.
func (g *Graph) Reset() { g.blocks.reset() }

// Check says what was wrong in the last run; nil if nothing was.
func (g *Graph) Check() error { return g.blocks.check() }
