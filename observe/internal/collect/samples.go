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

// Samples are the tasks that are over, for the profile.
func (c *Collector) Samples() (samples []taskprof.Sample, since time.Duration, notes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := c.scaled()
	names := c.rec.Names()
	ways := ways{names: names, families: families(names, uint32(names.Specs()))}
	for _, spec := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[spec].Sum.Count == 0 {
			continue
		}
		o := names.Origin(spec)
		label, _ := c.nameLocked(spec)
		s := taskprof.Sample{Name: label, Task: taskOf(o), Spawns: ways.to(spec), Times: kinds[spec].Sum}
		s.Times.Scale(c.rateLocked())
		if len(s.Spawns) == 0 && o.Site != 0 {
			s.Spawns = []taskprof.Spawn{{Stack: []uintptr{o.Site}}}
		}
		samples = append(samples, s)
	}
	return samples, c.watchedLocked(), c.notesLocked()
}

func taskOf(o event.Origin) taskprof.Task { return taskprof.Task{Label: o.Label, Body: o.Body} }

// ways finds out by which spawns tasks have come to be.
type ways struct {
	names    *event.Names
	families map[event.Origin][]uint32
}

// to returns the spawn of the tasks of an origin, that of the task that spawned them, and so on, as
// far as it is known.
func (w *ways) to(spec uint32) (spawns []taskprof.Spawn) {
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
		if spec = s.By; len(spawns) == mostSpawns {
			break
		}
	}
	return spawns
}

// mostSpawns bounds how many tasks, one spawned by the other, a stack goes through (guess: who
// nests deeper does so by a recursion, which is folded).
const mostSpawns = 64

// stack is the number of the stack of an origin; zero if it is not known. Where tasks are sampled,
// the one that spawned is mostly not recorded, and its stack is taken to be that of others of the
// same label, line and body, if these have all come by one way.
func (w *ways) stack(spec uint32) uint32 {
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
