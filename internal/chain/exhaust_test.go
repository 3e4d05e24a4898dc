//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"weft/internal/chain"
	explorer "weft/internal/explore"
	"weft/internal/xatomic"
)

// A small program is run with a goroutine for each task, which starts when the task becomes ready,
// in every order of the engine's atomic operations. Three things are required:
//
//   - A task becomes ready only when the model allows it, judged by what is ordered before that
//     moment. So an early start is found also if it happens late enough by chance.
//   - In the end exactly those tasks have started that the model allows. Bodies that never end show
//     which tasks wait for them.
//   - The memory of a task that has become free is not in use any more, and is not used later.

// exBody is a task of such a program.
type exBody struct {
	list []decl
	kids []*exBody
	// The body gives up its first access after the children.
	release bool
	// The body never ends.
	held bool
}

func (b *exBody) String() string {
	var s strings.Builder
	for _, d := range b.list {
		if d.weak {
			s.WriteString("weak")
		}
		fmt.Fprintf(&s, "%s(%c) ", strings.ToLower(d.mode.String()), 'a'+d.obj)
	}
	if b.held {
		s.WriteString("held ")
	}
	if len(b.kids) > 0 {
		s.WriteString("{ ")
		for _, k := range b.kids {
			fmt.Fprintf(&s, "%v; ", k)
		}
		s.WriteString("} ")
	}
	if b.release {
		s.WriteString("release ")
	}
	return strings.TrimSpace(s.String())
}

// exTask is a task that has been made.
type exTask struct {
	body       *exBody
	name       string
	node       chain.Node
	m          *mtask
	parent     *exTask
	live       xatomic.Int32 // the body and the children that are not over
	releasedAt map[*taskAccess]explorer.Mark
	start      bool
	over       bool // retired
	free       bool
}

// exObjects keep their addresses from run to run, since tables go by addresses.
var exObjects [2]int64

// exWorld is one run of a program.
type exWorld struct {
	r     *explorer.Run
	sums  []*chain.Reduced
	tasks []*exTask
	of    map[*chain.Node]*exTask
}

// program explores the children of a root task.
func exProgram(kids []*exBody) func(*explorer.Run) {
	return func(r *explorer.Run) {
		w := &exWorld{r: r, sums: sumsOf(exObjects[:]), of: map[*chain.Node]*exTask{}}
		chain.OnCheckLive(r.Plain)
		root := &exTask{body: &exBody{kids: kids}, name: "root", m: newModelTask(nil), start: true}
		r.Go("root", func() {
			var f chain.Flow
			w.run(root, &f)
		})
		r.End(func() error {
			chain.OnCheckLive(nil)
			return w.verify()
		})
	}
}

// run executes a body, and what follows its end.
func (w *exWorld) run(t *exTask, f *chain.Flow) {
	if len(t.body.kids) > 0 && t.parent != nil {
		t.live.Init(int32(len(t.body.kids)) + 1)
	}
	for i, b := range t.body.kids {
		w.spawn(t, fmt.Sprintf("%s.%d", t.name, i), b, f)
	}
	if t.body.release {
		u := t.m.accs[0]
		u.released, t.releasedAt[u] = true, w.r.Now()
		if err := t.node.Release(accessOrReduce(&exObjects[u.obj], w.sums[u.obj], u.decl), f); err != nil {
			w.r.Failf("release: %v", err)
		}
		w.collect(f)
	}
	if t.body.held {
		return
	}
	for _, u := range t.m.accs {
		if !u.released {
			u.released, t.releasedAt[u] = true, w.r.Now()
		}
	}
	t.node.Finish(f)
	w.collect(f)
	for t.parent != nil {
		if len(t.body.kids) > 0 && t.live.Add(-1) != 0 {
			return
		}
		t.over = true
		chain.Retire(&t.node, f)
		w.collect(f)
		t = t.parent
	}
}

func (w *exWorld) spawn(p *exTask, name string, b *exBody, f *chain.Flow) {
	t := &exTask{body: b, name: name, parent: p, m: p.m.spawn(b.list), releasedAt: map[*taskAccess]explorer.Mark{}}
	w.tasks = append(w.tasks, t)
	w.of[&t.node] = t
	accs := make([]chain.Access, len(b.list))
	for i, d := range b.list {
		accs[i] = accessOrReduce(&exObjects[d.obj], w.sums[d.obj], d)
	}
	ready := p.node.Register(&t.node, accs, f)
	chain.NameWords(&t.node, name, w.r.Name)
	if ready {
		w.start(t)
	}
	w.collect(f)
}

func (w *exWorld) collect(f *chain.Flow) {
	for n := f.NextReady(); n != nil; n = f.NextReady() {
		w.start(w.of[n])
	}
	for n := f.NextFree(); n != nil; n = f.NextFree() {
		t := w.of[n]
		w.r.Check(t.over && !t.free, "the memory of %s is free before its end, or twice", t.name)
		t.free = true
		w.r.Free(chain.Words(n)...)
	}
}

// start runs a task that has become ready.
func (w *exWorld) start(t *exTask) {
	w.r.Check(!t.start, "%s starts twice", t.name)
	t.start = true
	w.asSeen(func() {
		w.r.Check(t.m.mayStart(), "%s starts too early", t.name)
	})
	xatomic.Go(func() {
		var f chain.Flow
		w.run(t, &f)
	})
}

// asSeen calls f while the model knows only releases that come before the present moment in every
// order.
func (w *exWorld) asSeen(f func()) {
	var hidden []*taskAccess
	for _, t := range w.tasks {
		for u, m := range t.releasedAt {
			if !w.r.Before(m) {
				u.released = false
				hidden = append(hidden, u)
			}
		}
	}
	f()
	for _, u := range hidden {
		u.released = true
	}
}

func (w *exWorld) verify() error {
	for _, t := range w.tasks {
		switch may := t.m.mayStart(); {
		case may && !t.start:
			return fmt.Errorf("%s waits, but nothing requires it", t.name)
		case !may && t.start:
			return fmt.Errorf("%s has started, but something requires it to wait", t.name)
		case t.over && !t.free && w.neverLingers():
			return fmt.Errorf("the memory of %s does not come free", t.name)
		}
	}
	return nil
}

// neverLingers reports whether all memory has to become free: there are only strong accesses, no
// runs and no children, and all bodies end.
func (w *exWorld) neverLingers() bool {
	return !slices.ContainsFunc(w.tasks, func(t *exTask) bool {
		return t.body.held || len(t.body.kids) > 0 ||
			slices.ContainsFunc(t.body.list, func(d decl) bool { return d.weak || d.mode == chain.ModeConcurrent || d.mode == chain.ModeReduce })
	})
}

// exForms are the accesses to one object: three that order differently, strong and weak.
func exForms(obj int) (list []decl) {
	for _, m := range []chain.Mode{chain.ModeIn, chain.ModeInOut, chain.ModeConcurrent} {
		list = append(list, decl{obj: obj, mode: m}, decl{obj: obj, mode: m, weak: true})
	}
	return list
}

// exShape makes programs from lists of accesses, one for each task.
type exShape struct {
	name  string
	tasks int
	both  bool // each task may use either object or both; else object a
	big   bool
	build func(t []*exBody) []*exBody // nests them
	holds bool                        // also with each set of bodies that never end
	forms func(obj int) []decl        // accesses to one object; nil means exForms
}

func flat(t []*exBody) []*exBody { return t }

// in makes the tasks rest children of task p.
func in(p int, rest ...int) func([]*exBody) []*exBody {
	return func(t []*exBody) []*exBody {
		var top []*exBody
		for i, x := range t {
			switch {
			case slices.Contains(rest, i):
				t[p].kids = append(t[p].kids, x)
			default:
				top = append(top, x)
			}
		}
		return top
	}
}

func released(build func([]*exBody) []*exBody, p int) func([]*exBody) []*exBody {
	return func(t []*exBody) []*exBody {
		t[p].release = true
		return build(t)
	}
}

var exShapes = []exShape{
	{name: "two tasks, two objects", tasks: 2, both: true, build: flat, holds: true},
	{name: "three tasks", tasks: 3, build: flat, holds: true},
	{name: "a nest and a task", tasks: 3, build: in(0, 1), holds: true},
	{name: "a task and a nest", tasks: 3, build: in(1, 2), holds: true},
	{name: "a nest of two", tasks: 3, build: in(0, 1, 2), holds: true},
	{name: "release", tasks: 2, build: released(flat, 0), holds: true},
	{name: "release, nested", tasks: 3, build: released(in(0, 1), 0), holds: true},
	{name: "four tasks", tasks: 4, build: flat, big: true},
	{name: "a task, a nest, a task", tasks: 4, build: in(1, 2), big: true},
	{name: "a nest of two and a task", tasks: 4, build: in(0, 1, 2), big: true},
	{name: "two nests", tasks: 4, build: func(t []*exBody) []*exBody {
		t[0].kids, t[2].kids = t[1:2], t[3:4]
		return []*exBody{t[0], t[2]}
	}, big: true},
	{name: "a nest in a nest, and a task", tasks: 4, build: func(t []*exBody) []*exBody {
		t[0].kids, t[1].kids = t[1:2], t[2:3]
		return []*exBody{t[0], t[3]}
	}, big: true},
	{name: "three tasks, two objects", tasks: 3, both: true, build: flat, big: true},
}

// lists returns all access lists that a task of the shape may have.
func (s *exShape) lists() (out [][]decl) {
	forms := s.forms
	if forms == nil {
		forms = exForms
	}
	for _, d := range forms(0) {
		out = append(out, []decl{d})
	}
	if !s.both {
		return out
	}
	for _, d := range forms(1) {
		out = append(out, []decl{d})
		for _, e := range forms(0) {
			out = append(out, []decl{e, d})
		}
	}
	return out
}

// TestExploreAll explores all programs of each shape.
func TestExploreAll(t *testing.T) {
	for i := range exShapes {
		s := &exShapes[i]
		t.Run(s.name, func(t *testing.T) {
			if s.big && !explorer.Big() {
				t.Skip("large")
			}
			s.explore(t)
		})
	}
}

func (s *exShape) explore(t *testing.T) {
	programs, orders, most := 0, 0, 0
	s.each(func(kids []*exBody) {
		res := explorer.Explore(explorer.Config{}, exProgram(kids))
		if res.Failure != nil {
			t.Fatalf("%v, order %d: %v", kids, res.Runs, res.Failure)
		}
		programs++
		orders += res.Runs
		most = max(most, res.Runs)
	})
	t.Logf("%d programs, %d orders, at most %d for one", programs, orders, most)
}

// each calls f with all programs of the shape.
func (s *exShape) each(f func(kids []*exBody)) {
	lists := s.lists()
	mirror := mirrors(lists)
	at := make([]int, s.tasks)
	for {
		holds := 1
		if s.holds && !testing.Short() {
			holds = 1 << s.tasks
		}
		if slices.CompareFunc(at, at, func(x, y int) int { return x - mirror[y] }) > 0 {
			holds = 0 // the same program with the two objects exchanged has been run
		}
		for held := range holds {
			if bits.OnesCount(uint(held)) > 1 && !explorer.Big() {
				continue // several that never end tell little more
			}
			f(s.program(lists, at, held))
		}
		i := 0
		for i < s.tasks && at[i] == len(lists)-1 {
			at[i] = 0
			i++
		}
		if i == s.tasks {
			return
		}
		at[i]++
	}
}

// mirrors returns, for each list, the index of the list with the two objects exchanged.
func mirrors(lists [][]decl) []int {
	out := make([]int, len(lists))
	for i, l := range lists {
		m := slices.Clone(l)
		for k := range m {
			if slices.ContainsFunc(lists, func(l []decl) bool { return l[0].obj == 1 }) {
				m[k].obj = 1 - m[k].obj
			}
		}
		slices.SortFunc(m, func(a, b decl) int { return a.obj - b.obj })
		out[i] = slices.IndexFunc(lists, func(x []decl) bool { return slices.Equal(x, m) })
	}
	return out
}

func (s *exShape) program(lists [][]decl, at []int, held int) []*exBody {
	bodies := make([]*exBody, s.tasks)
	for i := range bodies {
		bodies[i] = &exBody{list: lists[at[i]], held: held>>i&1 != 0}
	}
	return s.build(bodies)
}

// body is the sketch as a program of a goroutine for each task.
func (s sketch) body() *exBody {
	b := &exBody{}
	for _, a := range strings.Fields(s.list) {
		m := accessForm.FindStringSubmatch(a)
		b.list = append(b.list, decl{int(m[3][0] - 'a'), modes[m[2]], m[1] != ""})
	}
	for _, k := range s.kids {
		b.kids = append(b.kids, k.body())
	}
	return b
}

// TestExploreAllSketches explores the sketches, which are made for late messages. Those whose
// orders are too many for a quick test are left to -explore.big, and to the random schedules of
// TestExploreSketches.
func TestExploreAllSketches(t *testing.T) {
	most := 2000
	if explorer.Big() {
		most = 300_000
	}
	for _, name := range slices.Sorted(maps.Keys(sketches)) {
		t.Run(name, func(t *testing.T) {
			res := explorer.Explore(explorer.Config{MaxRuns: most}, exProgram(sketches[name].body().kids))
			if res.Failure != nil {
				t.Fatalf("order %d: %v", res.Runs, res.Failure)
			}
			t.Log(res)
		})
	}
}

// exPrograms are like sketches, but bodies may never end.
var exPrograms = map[string]func() []*exBody{
	// A reader below the first member of the run lets the read token pass and never ends. The last
	// member is linked while the token comes, and the run is opened meanwhile: the last member's
	// child must get the token too.
	"read token to a member": func() []*exBody {
		p := program(leaf("in(a)"), nest("weakconcurrent(a)", leaf("in(a)")), leaf("weakconcurrent(a)"), nest("concurrent(a)", leaf("in(a)"))).body().kids
		p[1].kids[0].held = true
		return p
	},
}

func TestExploreAllPrograms(t *testing.T) {
	for name, p := range exPrograms {
		t.Run(name, func(t *testing.T) {
			if !explorer.Big() {
				t.Skip("large")
			}
			explorer.Test(t, explorer.Config{}, exProgram(p()))
		})
	}
}
