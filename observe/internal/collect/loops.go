// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import "weft/internal/event"

// A recorded loop runs its tasks again and again. Each time is a task of its own, with another number; its Again names the one before, which
// has either a Spawned or an Again. The two are of different sources, if another slot went on, and so they come in any order.

// records notes that t, which has been spawned, is part of a loop. +checklocks:c.mu
func (c *Collector) records(t *live) {
	t.loop = &recorded{spec: t.spec, parent: t.parent, flags: t.flags &^ event.SpawnedReady, spawned: t.spawned, accesses: t.accesses}
	t.accesses = nil
	c.repeats(t)
}

// repeats notes that t, of which all is known, is part of a loop: the next round may come, or have come. +checklocks:c.mu
func (c *Collector) repeats(t *live) {
	for {
		o := t.loop
		next, ok := c.early[t.id]
		if !ok {
			c.loops[t.id] = o
			return
		}
		delete(c.early, t.id)
		if t = c.live[next]; t == nil { // given up
			return
		}
		c.learn(t, o)
		defer c.settle(t)
	}
}

// again notes that t is what the task with number old has become. +checklocks:c.mu
func (c *Collector) again(old uint64, t *live) {
	o, ok := c.loops[old]
	if !ok {
		if len(c.early) < mostLive { // else events were lost
			c.early[old] = t.id
		}
		return
	}
	delete(c.loops, old)
	c.learn(t, o)
	c.repeats(t)
}

// learn notes where t comes from. +checklocks:c.mu
func (c *Collector) learn(t *live, o *recorded) {
	t.seen |= sawSpawned
	t.loop, t.spec, t.parent, t.flags = o, o.spec, o.parent, o.flags
	t.weight = 1
	k := c.kind(t.spec)
	k.recorded++
	k.begun++
}
