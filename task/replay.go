// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"math"
	"reflect"

	"weft/internal/chain"
	"weft/internal/event"
)

// replay is the body of the loop's task: it records the loop and starts it.
func (t *Task) replay(a IterAttrs, record func(*Iteration) error) error {
	m := scratches.Get().(*scratch)
	it := &Iteration{loop: t, scratch: m}
	defer func() {
		if it.loop != nil { // the recording has failed; else recorded bodies may read it by now
			it.loop = nil
		}
		clear(m.parts)
		clear(m.accs)
		m.parts, m.accs, m.ends = m.parts[:0], m.accs[:0], m.ends[:0]
		scratches.Put(m)
	}()
	for ; it.number < a.Unroll; it.number++ {
		if err := record(it); err != nil {
			return err
		}
	}
	it.number = 0
	last := it.closeReductions(a.While != nil)
	it.loop = nil
	r := &replay{
		tasks: len(it.parts), control: -1,
		tellAt: -1, partial: -1, unroll: a.Unroll, while: a.While,
	}
	r.limit(a.Iterations)
	graph := chain.NewCycle
	if t.final {
		graph = chain.NewChain
	}
	c := graph(it.accs, it.ends, a.While != nil)
	r.parts = make([]part, len(it.parts), c.Nodes()+1)
	copy(r.parts, it.parts)
	if a.While != nil {
		r.addControl(t)
	}
	r.link(c)
	r.start(t)
	if len(last) > 0 {
		return t.combineLast(last)
	}
	if a.Undeferred || t.final {
		_ = t.Wait() // the creator waits for this body
	}
	return nil
}

// limit sets the number of rounds for n iterations; n = 0 means no limit.
func (r *replay) limit(n int) {
	if n == 0 {
		r.rounds = math.MaxInt64
		return
	}
	r.rounds = int64((n-1)/r.unroll + 1)
	if rest := n % r.unroll; rest != 0 {
		r.partial, r.rest = r.rounds-1, int32(rest)
	}
	if r.while == nil {
		r.tellAt = r.rounds
	}
}

// addControl adds the control task. It runs before each round.
func (r *replay) addControl(loop *Task) {
	s := loop.slot
	c := s.newTask(loop, r.decide)
	loop.node.Register(&c.node, nil, &s.flow)
	c.setAttrs(&Attrs{Label: loop.label})
	c.pc = reflect.ValueOf(r.while).Pointer() + 1 // where an error comes from
	c.node.Flags |= flagRare | flagWait | flagRecorded | loop.node.Flags&flagLongSpawn
	c.final = loop.final
	if s.probe != nil {
		c.tellSpawned(s.probe, loop, nil, event.SpawnedLoop)
	}
	r.control = r.tasks
	r.tasks++
	r.parts = append(r.parts, part{task: c, flags: c.node.Flags})
}

// decide is the body of the control task.
func (r *replay) decide(t *Task) error {
	if r.parts[r.control].round == r.rounds {
		r.ended = true
		return nil
	}
	more, err := r.while(t)
	r.ended = !more
	return err
}

// link makes the graph.
func (r *replay) link(c *chain.Cycle) {
	own := c.Tasks()
	r.parts = append(r.parts, make([]part, c.Nodes()-own)...)
	// A node of c is a part of the same index, except that joints come after the control task.
	shift := r.tasks - own
	at := func(node int) int {
		if node < own {
			return node
		}
		return node + shift
	}
	inner := make([]bool, len(r.parts))   // the part has a predecessor in its round
	waits := make([]uint32, len(r.parts)) // number of predecessors
	here := make([]uint32, len(r.parts))  // arrivals that the first run does not wait for
	r.cycle = c
	r.next = make([]int32, 0, c.Len()+2*r.tasks*(r.tasks-own))
	for n := range c.Nodes() {
		p := &r.parts[at(n)]
		p.from = uint32(len(r.next))
		for _, e := range c.Edges(n) {
			to := at(int(e.To))
			r.next = append(r.next, int32(to))
			waits[to]++
			if e.Next {
				here[to]++
			} else {
				inner[to] = true
			}
		}
		if r.control >= 0 && n < own && uint32(len(r.next)) == p.from {
			// no part follows in its round
			r.next = append(r.next, int32(r.control))
			waits[r.control]++
			here[r.control]++
		}
		p.to = uint32(len(r.next))
	}
	if r.control >= 0 {
		p := &r.parts[r.control]
		p.from = uint32(len(r.next))
		for n := range own {
			if !inner[n] {
				r.next = append(r.next, int32(n))
				waits[n]++
			}
		}
		p.to = uint32(len(r.next))
	}
	for i := range r.parts {
		p := &r.parts[i]
		p.own = -(waits[i] * arrival)
		p.state.Init(p.own + here[i]*arrival)
		if waits[i] == here[i] {
			r.roots = append(r.roots, int32(i))
		}
	}
}

// start makes the parts children of the loop's task t, and queues those that wait for nothing.
func (r *replay) start(t *Task) {
	t.node.Flags &^= flagLeaf
	t.rare().replay = r
	if t.slot.probe != nil {
		r.tellBegins(t.slot.probe)
	}
	if r.control >= 0 {
		t.spawned++ // the control task is over after all others
	} else {
		t.spawned += int64(r.tasks)
	}
	for i := range r.tasks {
		r.parts[i].task.node.SetNumber(int32(i))
	}
	for _, k := range r.roots {
		t.slot.ready(r.parts[k].task)
	}
}

// runOver is deepDone for a recorded task: one of its runs is over, with its descendants. It
// returns the loop's task if there will be no other run. s may be nil, as for deepDone.
func (s *slot) runOver(t *Task, f *chain.Flow) *Task {
	loop := t.parent()
	r, p := t.recorded()
	k := t.part()
	t.node.Finish(f)
	switch {
	case k == r.control:
		if r.ended || t.run.stopped.Load() {
			return loop
		}
		r.nextRound(p, t, s, f)
		return nil
	case r.control < 0 && t.run.stopped.Load():
		r.cutShort(loop)
		return loop
	}
	last := p.round+1 == r.tellAt
	if !last { //bug:E2
		p.round++
		r.again(p, t, s)
	}
	if p.early != nil && (p.early.n > 0 || p.early.holdsControl) {
		r.passRest(p, f)
	} else {
		for _, to := range r.next[p.from:p.to] {
			r.arrive(to, f)
		}
	}
	if last {
		p.gone = true
		loop.run.rt.partOver(t, s)
		return loop
	}
	// From here on the caller must not touch t, unless its own arrival makes the state zero.
	switch v := p.state.Add(p.own); { //bug:E4
	case v == 0:
		f.MakeReady(&p.task.node)
	case v&cutOff != 0:
		return loop
	}
	return nil
}

// nextRound ends a run of the control task, p, if another round follows. The own arrival (E4) comes
// before E3: from the first arrival of the round on, Release may subtract an arrival from p's
// state, and the rest must not look as if all arrivals had come.
func (r *replay) nextRound(p *part, t *Task, s *slot, f *chain.Flow) {
	p.round++
	r.again(p, t, s)
	if p.state.Add(p.own) == 0 { //bug:E3
		f.MakeReady(&p.task.node) // the loop has no other tasks
		return
	}
	for _, to := range r.next[p.from:p.to] {
		r.arrive(to, f)
	}
}

// again resets t to its state before p's run, for the next run.
func (r *replay) again(p *part, t *Task, s *slot) {
	if t.node.Flags&flagBlocks != 0 {
		old := t
		t = p.renew(t)
		old.clearForGood()
	}
	if rt := t.run.rt; rt.probe != nil {
		t.id = rt.probeOf(s).Again(t.id, p.round)
	}
	if (p.flags|t.node.Flags)&flagRare != 0 && t.more != nil {
		t.more.held = nil
		if !t.more.shares.none() {
			for p := range sharesOf(t.more).All() {
				p.released = false
			}
		}
	}
	if t.node.Flags != p.flags {
		t.clearUsed()
		t.node.Flags = p.flags
	}
	if earlyUnblocks.Load() {
		t.block.Init(blockNone)
	}
	if p.round == r.partial && p.copy >= r.rest {
		t.fn = skip
		t.node.Flags &^= flagOnReady
	}
}

// skip is the body, in the last round, of tasks of iterations that do not exist.
func skip(*Task) error { return nil }

// renew gives p another task instead of t, for which Unblock may still be called.
func (p *part) renew(t *Task) *Task {
	c := &Task{id: t.id, fn: t.fn, run: t.run, pc: t.pc}
	c.copyAttrs(t)
	c.node.Parent = t.node.Parent
	c.node.SetNumber(t.node.Number())
	if t.more != nil {
		c.more.noted, c.more.shares = t.more.noted, t.more.shares
	}
	p.task = c
	return c
}

// loopOver frees the remaining tasks of t's recorded loop, if t has been one. Tasks remain if the
// loop had a condition, or if it was cut short.
func (rt *Runtime) loopOver(t *Task, s *slot) {
	if t.more == nil || t.more.replay == nil {
		return
	}
	r := t.more.replay
	for i := range r.tasks {
		if p := &r.parts[i]; !p.gone {
			rt.partOver(p.task, s)
		}
	}
}

// partOver frees t, a recorded task that is over for good.
func (rt *Runtime) partOver(t *Task, s *slot) {
	t.id = 0
	if t.node.Flags&flagBlocks != 0 {
		t.clearForGood()
		return
	}
	t.clear()
	if s != nil {
		s.keep(t)
	} else {
		rt.keepOutside(t)
	}
}

// cutShort makes every part's current run its last, since the run has failed: parts that wait are
// over for good now, others when they end. The caller ends a part that is not yet subtracted from
// the loop's counter.
func (r *replay) cutShort(loop *Task) {
	if !r.cut.CompareAndSwap(false, true) { //bug:C1
		return
	}
	waiting := 0
	for i := range r.tasks {
		if (r.parts[i].state.Add(cutOff)-cutOff)&ownHere != 0 { //bug:C2-waits
			waiting++
		}
	}
	loop.count.Add(int64(-waiting)) // not zero: the caller's part is still counted //bug:C2-counts
}
