//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/explore"
	"weft/internal/xatomic"
)

// replayProgram is a recorded loop. A task is written as its accesses: a small letter reads that
// object, a capital letter writes it. The task releases the objects before a dot early, after it
// has used them.
type replayProgram struct {
	name   string
	tasks  []string
	rounds int64
	while  bool
	fails  bool // the run fails at some moment
	big    bool // only with -explore.big
}

var replayPrograms = []replayProgram{
	{"a writer and two readers", []string{"A", "a", "a"}, 3, false, false, false},
	{"readers around the seam", []string{"a", "A", "a"}, 2, false, false, false},
	{"two independent tasks", []string{"A", "B"}, 2, false, false, false},
	{"a row of three blocks", []string{"Ab", "aBc", "bC"}, 2, false, false, false},
	{"a gift", []string{"A.B", "a", "b"}, 2, false, false, false},
	{"a gift, and nothing else", []string{"A.", "A"}, 3, false, false, false},
	{"two gifts by one task", []string{"A.B.C", "ab", "b"}, 2, false, false, false},
	{"two gifts", []string{"A.B", "a", "B.A"}, 2, false, false, false},
	{"while", []string{"A", "a", "B"}, 2, true, false, false},
	{"while, with a gift", []string{"A.B", "a"}, 2, true, false, false},
	{"while, with a gift of all", []string{"A.", "a"}, 2, true, false, false},
	{"failure of one task", []string{"A"}, 3, false, true, false},
	{"failure of two independent tasks", []string{"A", "B"}, 2, false, true, false},
	{"failure of a writer and two readers", []string{"A", "a", "a"}, 2, false, true, false},
	{"failure of a writer and a reader, with a gift", []string{"A.B", "a"}, 2, false, true, false},
	{"failure in a while", []string{"A", "B"}, 2, true, true, false},
	{"failure of a row of three blocks", []string{"Ab", "aBc", "bC"}, 2, false, true, true},
	{"failure of three independent tasks", []string{"A", "B", "C"}, 2, false, true, true},
	{"a square of blocks", []string{"Abc", "aBd", "aCd", "bcD"}, 2, false, false, true},
}

// TestExploreReplay: the tasks see the values of the plain loop, each runs once in each round, and
// the loop's counter goes down by one for each task, also when the run fails.
func TestExploreReplay(t *testing.T) {
	for _, p := range replayPrograms {
		t.Run(p.name, func(t *testing.T) {
			if p.big && !explore.Big() {
				t.Skip("large")
			}
			explore.Test(t, explore.Config{}, p.setup)
		})
	}
}

// replayWorld is one execution of a replayProgram.
type replayWorld struct {
	*replayProgram
	r       *explore.Run
	replay  *replay
	loop    *Task
	objects [26]xatomic.Uint32 // how often each has been written
	ran     []int64            // rounds by task
}

func (p *replayProgram) setup(run *explore.Run) {
	w := &replayWorld{replayProgram: p, r: run, ran: make([]int64, len(p.tasks))}
	w.loop = &Task{}
	w.loop.run = w.newRun()
	r := &replay{tasks: len(p.tasks), control: -1, rounds: p.rounds, tellAt: p.rounds, partial: -1, unroll: 1}
	w.replay = r
	var accs []deps.Access
	var ends []int32
	for i, text := range p.tasks {
		for _, c := range text {
			switch {
			case c >= 'a':
				accs = append(accs, deps.In(&w.objects[c-'a']))
			case c >= 'A':
				accs = append(accs, deps.InOut(&w.objects[c-'A']))
			}
		}
		ends = append(ends, int32(len(accs)))
		r.parts = append(r.parts, w.part(i))
	}
	c := chain.NewCycle(accesses(accs), ends, p.while)
	if p.while {
		r.tellAt = -1
		r.control = r.tasks
		r.tasks++
		r.parts = append(r.parts, w.part(r.control))
	}
	r.link(c)
	w.loop.more = &more{replay: r}
	for i := range r.parts {
		run.Name(fmt.Sprint("part ", i), &r.parts[i])
	}
	for _, k := range r.roots {
		run.Go(fmt.Sprint("from task ", k), func() { w.drive(r.parts[k].task) })
	}
	if p.fails {
		run.Go("failure", func() { w.loop.run.stopped.Store(true) })
	}
	run.End(w.verify)
}

func (w *replayWorld) newRun() *run { return &run{rt: new(Runtime), ctx: context.Background()} }

func (w *replayWorld) part(k int) part {
	t := &Task{run: w.loop.run, fn: func(*Task) error { return nil }}
	t.node.Parent, t.node.Flags = &w.loop.node, flagWait|flagRecorded
	t.node.SetNumber(int32(k))
	return part{task: t, flags: t.node.Flags}
}

// drive runs t and the tasks that become ready: the first ready task here, each other one on a
// separate goroutine.
func (w *replayWorld) drive(t *Task) {
	var f chain.Flow
	for t != nil {
		if !t.run.stopped.Load() {
			w.body(t, &f)
		}
		if loop := (*slot)(nil).runOver(t, &f); loop != nil {
			loop.count.Add(-1)
		}
		t = nil
		for n := f.NextReady(); n != nil; n = f.NextReady() {
			if x := fromNode(n); t == nil {
				t = x
			} else {
				xatomic.Go(func() { w.drive(x) })
			}
		}
	}
}

func (w *replayWorld) body(t *Task, f *chain.Flow) {
	r, k := w.replay, t.part()
	p := &r.parts[k]
	w.r.Check(p.task == t, "task %d is not its part's", k)
	t.node.Flags &^= flagLeaf
	t.spawned = -1 // a mark that only the reset for the next run removes
	defer func() {
		w.r.Check(t.spawned == -1, "task %d was reset while it ran", k)
		t.spawned = 0
	}()
	if k == r.control {
		for i, n := range w.ran {
			w.r.Check(n == p.round, "task %d has run %d times before round %d", i, n, p.round)
		}
		for o := range w.objects {
			if c := byte('a' + o); slices.ContainsFunc(w.tasks, func(s string) bool { return strings.Contains(s, string(c-0x20)) }) {
				w.use(0, p.round, 0, c) // as a reader that runs before all others would
			}
		}
		r.ended = p.round == r.rounds
		return
	}
	w.r.Check(w.ran[k] == p.round, "task %d runs for round %d after %d runs", k, p.round, w.ran[k])
	defer func() { w.ran[k]++ }()
	text := w.tasks[k]
	uses, gave := 0, 0
	for i, c := range text {
		if c == '.' {
			g := r.beginRelease(p, k)
			g.mark(gave, uses)
			gave = uses
			r.passReleased(p, k, f)
			for n := f.NextReady(); n != nil; n = f.NextReady() {
				x := fromNode(n)
				xatomic.Go(func() { w.drive(x) })
			}
			continue
		}
		uses++
		w.use(k, p.round, i, byte(c))
	}
}

// use reads or writes an object, and checks that it has the value of the plain loop.
func (w *replayWorld) use(k int, round int64, at int, c byte) {
	o := c | 0x20
	perRound, before := 0, 0
	for i, text := range w.tasks {
		for j := range len(text) {
			if text[j] == o&^0x20 {
				perRound++
				if i < k || i == k && j < at {
					before++
				}
			}
		}
	}
	want := uint32(int(round)*perRound + before)
	x := &w.objects[o-'a']
	got := x.Load()
	w.r.Check(got == want, "task %d finds %c at %d in round %d, not %d", k, o, got, round, want)
	if c != o {
		x.Store(want + 1)
	} else {
		got = x.Load()
		w.r.Check(got == want, "task %d finds %c at %d in round %d, after %d", k, o, got, round, want)
	}
}

func (w *replayWorld) verify() error {
	told := int64(len(w.tasks))
	if w.while {
		told = 1
	}
	if n := -w.loop.count.Load(); n != told {
		return fmt.Errorf("the loop was told of %d tasks, not %d", n, told)
	}
	for k, n := range w.ran {
		if n != w.rounds && !w.fails {
			return fmt.Errorf("task %d ran %d times", k, n)
		}
	}
	return nil
}
