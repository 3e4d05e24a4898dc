// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

// A recorded loop runs its tasks again and again. Each time is a task of its own, with another number; its Again names the one before, which
// has either a Spawned or an Again. The two are of different sources, if another slot went on, and so they come in any order.

// repeats notes that t, of which all is known, is part of a loop: the next round may come, or have come. +checklocks:c.mu
func (c *Collector) repeats(t *live) {
	for {
		o := origin{t.spec, t.parent}
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
		if t.settled() {
			defer c.done(t)
		}
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
func (c *Collector) learn(t *live, o origin) {
	t.seen |= sawSpawned
	t.spec, t.parent = o.spec, o.parent
	c.kind(t.spec).begun++
}
