//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/internal/chain"
	explorer "weft/internal/explore"
	"weft/internal/xatomic"
)

// The explored orders start in the middle of a program, at a fixed point, so that programs are
// explored to their ends that have too many tasks to explore every order from the start. The
// requirements are those of exhaust_test.go; besides, each start comes after the ends that the
// program names. The explorer is told of memory that comes free: it knows whether a goroutine could
// still use the memory when it serves another task.

// lateTask is a task of such a program.
type lateTask struct {
	name    string
	list    string // accesses, as in rangeSketches
	after   string // names of the tasks that end before it starts
	ended   bool   // the body has ended before the others go on
	spawned bool   // made, under the root, while the others go on
	parent  string // empty: the root
}

type lateRun struct {
	*lateTask
	node    chain.Node
	up      *lateRun
	live    xatomic.Int32 // the body, and children that are not over
	kids    int
	end     explorer.Mark
	started bool
	over    bool
	gone    bool
	freed   bool
}

// lateWorld is one order of a program.
type lateWorld struct {
	r     *explorer.Run
	root  lateRun
	tasks []*lateRun
	of    map[*chain.Node]*lateRun
	named map[string]*lateRun
	buf   []byte
	may   bool // the program may leave memory to the garbage collector
}

// lateBytes keep their address from order to order.
var lateBytes [16]byte

func lateProgram(list []lateTask, lingers bool) func(*explorer.Run) {
	return func(r *explorer.Run) {
		w := &lateWorld{r: r, of: map[*chain.Node]*lateRun{}, named: map[string]*lateRun{}, buf: lateBytes[:], may: lingers}
		chain.OnCheckLive(func(any) {})
		w.root.lateTask = &lateTask{name: "root"}
		w.named[""] = &w.root
		var f chain.Flow
		for i := range list {
			t := &lateRun{lateTask: &list[i], up: w.named[list[i].parent]}
			w.named[t.name] = t
			w.tasks = append(w.tasks, t)
			w.of[&t.node] = t
			if t.up != &w.root {
				t.up.kids++
			}
			if t.spawned {
				continue
			}
			t.started = w.register(t, &f)
		}
		for _, t := range w.tasks {
			t.live.Init(int32(t.kids) + 1)
			if t.ended {
				t.gone = true
				t.node.Finish(&f)
			}
		}
		chain.OnCheckLive(r.Plain)
		for _, t := range w.tasks {
			switch {
			case t.spawned || !t.started:
			case t.ended:
				t.live.Init(int32(t.kids))
			default:
				r.Go(t.name, func() { w.body(t) })
			}
		}
		r.Go("root", func() {
			var f chain.Flow
			for _, t := range w.tasks {
				if t.spawned {
					if w.register(t, &f) {
						w.start(t)
					}
					w.collect(&f)
				}
			}
			w.root.node.Finish(&f)
			w.collect(&f)
		})
		r.End(func() error {
			chain.OnCheckLive(nil)
			return w.verify()
		})
	}
}

func (w *lateWorld) register(t *lateRun, f *chain.Flow) bool {
	var list []chain.Access
	for _, word := range strings.Fields(t.list) {
		d, ok := parseRange(word)
		if !ok {
			panic("not an access: " + word)
		}
		list = append(list, rangeTo(w.buf, d))
	}
	ready := t.up.node.Register(&t.node, list, f)
	chain.NameWords(&t.node, t.name, w.r.Name)
	return ready
}

// body executes the body of a task, which is empty, and what follows its end.
func (w *lateWorld) body(t *lateRun) {
	var f chain.Flow
	t.gone, t.end = true, w.r.Now()
	t.node.Finish(&f)
	w.collect(&f)
	for t != &w.root && t.live.Add(-1) == 0 {
		t.over = true
		chain.Retire(&t.node, &f)
		w.collect(&f)
		t = t.up
	}
}

func (w *lateWorld) start(t *lateRun) {
	w.r.Check(!t.started, "%s starts twice", t.name)
	t.started = true
	for _, name := range strings.Fields(t.after) {
		o := w.named[name]
		w.r.Check(o.gone && (o.ended || w.r.Before(o.end)), "%s starts before the end of %s", t.name, name)
	}
	xatomic.Go(func() { w.body(t) })
}

func (w *lateWorld) collect(f *chain.Flow) {
	for n := f.NextReady(); n != nil; n = f.NextReady() {
		w.start(w.of[n])
	}
	for n := f.NextFree(); n != nil; n = f.NextFree() {
		t := w.of[n]
		w.r.Check(t.over && !t.freed, "the memory of %s is free before its end, or twice", t.name)
		t.freed = true
		w.r.Free(chain.Words(n)...)
	}
}

func (w *lateWorld) verify() error {
	for _, t := range w.tasks {
		switch {
		case !t.started:
			return fmt.Errorf("%s waits for ever", t.name)
		case !t.over:
			return fmt.Errorf("%s is not over", t.name)
		case !t.freed && !w.may:
			return fmt.Errorf("the memory of %s does not come free", t.name)
		}
	}
	return nil
}

var latePrograms = map[string]struct {
	list    []lateTask
	lingers bool
}{
	// Solo readers: the read token runs through them while more are linked; the write token follows
	// it, through those that are over.
	"solo readers": {list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "a", list: "in(0..4)", after: "w"},
		{name: "b", list: "in(0..4)", after: "w"},
		{name: "c", list: "in(0..4)", after: "w", spawned: true},
		{name: "n", list: "inout(0..4)", after: "w a b c", spawned: true},
	}},
	"solo readers after readers that wait": {list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "v", list: "inout(6..8)"},
		{name: "a", list: "in(0..4) in(6..8)", after: "w v"},
		{name: "b", list: "in(0..4)", after: "w", spawned: true},
		{name: "n", list: "inout(0..4)", after: "w a b", spawned: true},
	}},
	"a solo writer": {list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "a", list: "in(0..4)", after: "w"},
		{name: "n", list: "inout(0..4)", after: "w a", spawned: true},
		{name: "b", list: "in(0..4)", after: "w a n", spawned: true},
	}},
	// One goroutine has the read token of all bytes for the access of p. Another one starts c,
	// whose end brings the write token. p has no successor, so its memory comes free by that.
	"late from a sink": {lingers: true, list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "v", list: "inout(6..7)"},
		{name: "p", list: "weakinout(0..4) weakinout(6..7)", ended: true},
		{name: "c", list: "in[0:4] in[6:7]", parent: "p", after: "w v"},
	}},
	"late from a sink, and on": {lingers: true, list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "v", list: "inout(6..7)"},
		{name: "p", list: "weakinout(0..4) weakinout(6..7)", ended: true},
		{name: "c", list: "in[0:4] in[6:7]", parent: "p", after: "w v"},
		{name: "n", list: "inout(0..4)", after: "w c"},
		{name: "m", list: "inout(6..7)", after: "v c"},
	}},
	// The tokens for the bytes of the access come to the sink from several children.
	"a sink that gathers": {lingers: true, list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "p", list: "weakinout(0..4)", ended: true},
		{name: "c", list: "in[0:2]", parent: "p", after: "w"},
		{name: "d", list: "inout[1:4]", parent: "p", after: "w c"},
		{name: "n", list: "in(0..4)", after: "w d"},
	}},
	// Two accesses of p share bytes: tokens for these bytes are for both.
	"a sink for two": {lingers: true, list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "v", list: "inout(2..4)"},
		{name: "p", list: "weakinout(0..4) weakinout(2..4)", ended: true},
		{name: "c", list: "inout[1:3]", parent: "p", after: "w v"},
		{name: "n", list: "in(0..4)", after: "w v c"},
		{name: "m", list: "in(2..4)", after: "w v c"},
	}},
	// Chains of objects continue in a gate while their tokens come.
	"into a gate": {lingers: true, list: []lateTask{
		{name: "w", list: "inout(0..4)"},
		{name: "v", list: "inout(2..6)"},
		{name: "c", list: "in[1:5]", after: "w v", spawned: true},
		{name: "d", list: "inout[3:4]", after: "w v c", spawned: true},
	}},
}

// TestExploreReuse explores programs whose memory comes free while tokens are under way.
func TestExploreReuse(t *testing.T) {
	for name, p := range latePrograms {
		t.Run(name, func(t *testing.T) { explorer.Test(t, explorer.Config{}, lateProgram(p.list, p.lingers)) })
	}
}
