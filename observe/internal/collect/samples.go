// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"maps"
	"slices"
	"time"

	"weft/internal/event"
	"weft/observe/internal/taskprof"
)

// Samples returns the tasks that are over, for the profile.
func (c *Collector) Samples() (samples []taskprof.Sample, since time.Duration, notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := c.scaled()
	names := c.rec.Names()
	stacks := spawnStacks{names: names, families: families(names, uint32(names.Specs()))}
	for _, spec := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[spec].Sum.Count == 0 {
			continue
		}
		o := names.Origin(spec)
		label, _ := c.nameLocked(spec)
		s := taskprof.Sample{Name: label, Task: taskOf(o), Spawns: stacks.of(spec), Times: kinds[spec].Sum}
		s.Times.Scale(c.rateLocked())
		if len(s.Spawns) == 0 && o.Site != 0 {
			s.Spawns = []taskprof.Spawn{{Stack: []uintptr{o.Site}}}
		}
		samples = append(samples, s)
	}
	return samples, c.watchedLocked(), c.notesLocked()
}

func taskOf(o event.Origin) taskprof.Task { return taskprof.Task{Label: o.Label, Body: o.Body} }

// spawnStacks finds the chain of spawns that led to a task.
type spawnStacks struct {
	names    *event.Names
	families map[event.Origin][]uint32
}

// of returns the spawn of the tasks of an origin, then the spawn of the task that spawned them, and
// so on, as far as they are known.
func (w *spawnStacks) of(spec uint32) (spawns []taskprof.Spawn) {
	for spec != 0 {
		s := w.names.StackOf(w.stack(spec))
		if s.PCs == nil {
			break
		}
		x := taskprof.Spawn{Stack: s.PCs}
		if s.By != 0 {
			x.By = taskOf(w.names.Origin(s.By))
		}
		spawns = append(spawns, x)
		if spec = s.By; len(spawns) == maxSpawns {
			break
		}
	}
	return spawns
}

// maxSpawns bounds the chain of spawns in a stack. It is a guess: deeper nesting comes from
// recursion, which is folded.
const maxSpawns = 64

// stack returns the number of the stack of an origin; zero if it is not known. If tasks are
// sampled, the task that spawned is usually not recorded. Its stack is then assumed to be that of
// recorded tasks with the same label, line and body, if they all have one stack.
func (w *spawnStacks) stack(spec uint32) uint32 {
	o := w.names.Origin(spec)
	if o.Stack != 0 {
		return o.Stack
	}
	only := uint32(0)
	for _, s := range w.families[o] {
		switch stack := w.names.Origin(s).Stack; {
		case stack == 0 || stack == only:
		case only == 0:
			only = stack
		default:
			return 0
		}
	}
	return only
}
