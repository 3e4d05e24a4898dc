// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/task"

// A Graph is the program of task/blocks on weft, for callers that run and time it themselves.
type Graph struct {
	blocks *blocks
	Main   func(*task.Task) error
}

// NewGraph returns the program, with side × side blocks.
func NewGraph(side int64) *Graph {
	b := newBlocks(side, blockSteps)
	return &Graph{b, b.weft()}
}

// Tasks returns the number of tasks, without the main task.
func (g *Graph) Tasks() int64 { return g.blocks.tasks() }

// Reset prepares a run. Call it before each.
func (g *Graph) Reset() { g.blocks.reset() }

// Check returns an error if the last run had a wrong answer.
func (g *Graph) Check() error { return g.blocks.check() }
