//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// The exclusion table is explored by itself: each task is a goroutine that takes bytes and objects,
// uses them, and gives them back, perhaps in parts. Four things are required:
//
//   - No byte and no object is used by two tasks at a time.
//   - Each task gets its bytes and objects. The explorer reports goroutines that wait for ever.
//   - A task that has waited for long is not overtaken.
//   - The table is empty in the end.
//
// The table's locks are the steps. The checks use only state that the locks order: the steps of all
// tasks that share a byte are on one lock, so every order of taking and giving back is run.

// exclTask is a task of such a program.
type exclTask struct {
	name  string
	bytes []extent
	objs  []int    // of exclObjects
	parts []extent // the parts in which it gives the bytes back; nil: all at once
	began bool     // it holds all before the others begin
	// if not 0, it waits before the others begin, and has been overtaken so often
	waits int
}

// exclObjects keep their addresses from order to order. They are in two shards.
var exclObjects = func() (list [2]object) {
	things := make([]int64, 2*shardCount)
	list[0] = object(unsafe.Pointer(&things[0]))
	for i := range things {
		if list[1] = object(unsafe.Pointer(&things[i])); shardOf(list[1]) != shardOf(list[0]) {
			return list
		}
	}
	panic("all objects are in one shard")
}()

// exclRun is a task that is being run.
type exclRun struct {
	exclTask
	node      Node
	wake      xatomic.Chan[int]
	has       bool // in the beginning
	came      bool
	over      bool
	overtaken int // number of younger tasks that started before this one
}

// exclWorld is one run of a program.
type exclWorld struct {
	r     *explore.Run
	tasks []*exclRun
	of    map[*Node]*exclRun
	user  map[uintptr]*exclRun // of bytes
	owner map[int]*exclRun     // of objects
}

func exclProgram(list []exclTask) func(*explore.Run) {
	return func(r *explore.Run) {
		exclusions = exclusion{} // an order that ends early leaves entries in the table
		r.Name("bytes", &exclusions.shards[byteShard])
		w := &exclWorld{r: r, of: map[*Node]*exclRun{}, user: map[uintptr]*exclRun{}, owner: map[int]*exclRun{}}
		for _, x := range list {
			t := &exclRun{exclTask: x, wake: make(xatomic.Chan[int], 1)}
			w.tasks = append(w.tasks, t)
			w.of[&t.node] = t
			if !x.began && x.waits == 0 {
				continue
			}
			if t.has = w.acquire(t); t.has {
				w.enter(t)
			}
			if x.waits > 0 {
				w.waited(t, x.waits)
			}
		}
		for _, t := range w.tasks {
			r.Go(t.name, func() { w.run(t) })
		}
		r.End(w.verify)
	}
}

func (w *exclWorld) acquire(t *exclRun) bool {
	var keys []object
	set := uint64(0)
	if len(t.bytes) > 0 {
		set = 1 << byteShard
	}
	for _, k := range t.objs {
		keys = append(keys, exclObjects[k])
		set |= 1 << shardOf(exclObjects[k])
	}
	return exclusions.acquire(&t.node, keys, t.bytes, set)
}

// waited sets t, which waits, as overtaken n times.
func (w *exclWorld) waited(t *exclRun, n int) {
	exclusions.bytes.walk(0, ^uintptr(0), func(_, _ uintptr, v **resource) {
		if v == nil {
			return
		}
		for x := (*v).first; x != nil; x = x.next {
			if x.w.node == &t.node {
				x.w.passed.Store(int32(n))
			}
		}
	})
}

func (w *exclWorld) run(t *exclRun) {
	if !t.has {
		if t.waits > 0 || !w.acquire(t) {
			t.wake.Recv()
		}
		w.enter(t)
	}
	var f Flow
	parts := t.parts
	if parts == nil {
		parts = t.bytes
	}
	for i, x := range parts {
		w.leave(t, x)
		f.locks.dropBytes(x.lo, x.hi, &t.node)
		if t.parts != nil && i < len(parts)-1 {
			w.giveBack(&f)
		}
	}
	for _, k := range t.objs {
		delete(w.owner, k)
		f.locks.drop(exclObjects[k], &t.node)
	}
	t.over = true
	w.giveBack(&f)
}

func (w *exclWorld) giveBack(f *Flow) {
	f.giveBack()
	for n := f.NextReady(); n != nil; n = f.NextReady() {
		w.r.Check(n.rested == exclHolds, "%s comes out without what it waits for", w.of[n].name)
		w.of[n].wake.Send(1)
	}
}

// enter checks and marks that t starts to use its bytes and objects.
func (w *exclWorld) enter(t *exclRun) {
	for _, x := range t.bytes {
		for b := x.lo; b < x.hi; b++ {
			w.r.Check(w.user[b] == nil, "%s uses byte %d, which another task uses", t.name, b)
			w.user[b] = t
		}
	}
	for _, k := range t.objs {
		w.r.Check(w.owner[k] == nil, "%s uses object %d, which another task uses", t.name, k)
		w.owner[k] = t
	}
	t.came = true
	for _, o := range w.tasks {
		// only the older ones: tasks that wait in the beginning do so in the order of the list
		if o == t {
			break
		}
		if o.waits > 0 && !o.came {
			o.overtaken++
			w.r.Check(o.overtaken <= overtakeMax-o.waits, "%s is overtaken once too often", o.name)
		}
	}
}

func (w *exclWorld) leave(t *exclRun, x extent) {
	for b := x.lo; b < x.hi; b++ {
		w.r.Check(w.user[b] == t, "%s does not use byte %d any more", t.name, b)
		delete(w.user, b)
	}
}

func (w *exclWorld) verify() error {
	for _, t := range w.tasks {
		if !t.over {
			return fmt.Errorf("%s is not over", t.name)
		}
	}
	for i := range exclusions.shards {
		if exclusions.shards[i].n != 0 {
			return errors.New("an object stays in the table")
		}
	}
	if exclusions.bytes.n != 0 {
		return errors.New("a piece stays in the table")
	}
	return nil
}

// ext returns the bytes from lo to hi.
func ext(lo, hi uintptr) extent { return extent{lo, hi} }

var exclPrograms = map[string][]exclTask{
	// The bad schedule of P2: b waits for all bytes of a, and c cuts them.
	"cut under a waiter": {
		{name: "a", bytes: []extent{ext(1, 9)}},
		{name: "b", bytes: []extent{ext(1, 9)}},
		{name: "c", bytes: []extent{ext(5, 13)}},
	},
	"cut in three": {
		{name: "a", bytes: []extent{ext(1, 9)}},
		{name: "b", bytes: []extent{ext(3, 5)}},
		{name: "c", bytes: []extent{ext(1, 9)}},
	},
	"cut twice": {
		{name: "a", bytes: []extent{ext(1, 9)}, began: true},
		{name: "b", bytes: []extent{ext(1, 5), ext(7, 9)}},
		{name: "c", bytes: []extent{ext(3, 8)}},
		{name: "d", bytes: []extent{ext(1, 9)}},
	},
	"given back in parts": {
		{name: "a", bytes: []extent{ext(1, 9)}, parts: []extent{ext(1, 5), ext(5, 9)}},
		{name: "b", bytes: []extent{ext(3, 7)}},
		{name: "c", bytes: []extent{ext(6, 9)}},
	},
	"given back in descending order": {
		{name: "a", bytes: []extent{ext(1, 9)}, parts: []extent{ext(5, 9), ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}},
		{name: "c", bytes: []extent{ext(4, 6)}},
	},
	"two that are apart": {
		{name: "a", bytes: []extent{ext(1, 3), ext(7, 9)}},
		{name: "b", bytes: []extent{ext(2, 8)}},
		{name: "c", bytes: []extent{ext(1, 2), ext(8, 10)}},
	},
	"a neighbour": {
		{name: "a", bytes: []extent{ext(1, 5)}},
		{name: "b", bytes: []extent{ext(5, 9)}},
		{name: "c", bytes: []extent{ext(4, 6)}},
	},
	// b needs a lock that the goroutine which gives the bytes back does not have.
	"bytes and an object": {
		{name: "a", bytes: []extent{ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, objs: []int{0}},
		{name: "c", objs: []int{0}},
	},
	// While a relocks for b, c takes the bytes and gives them back, and b gets its bytes from c.
	"bytes, between locks": {
		{name: "a", bytes: []extent{ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, objs: []int{0}, waits: 1},
		{name: "c", bytes: []extent{ext(1, 5)}},
	},
	"bytes and two objects": {
		{name: "a", bytes: []extent{ext(1, 5)}, objs: []int{1}, began: true},
		{name: "b", bytes: []extent{ext(1, 5)}, objs: []int{0}},
		{name: "c", bytes: []extent{ext(3, 5)}, objs: []int{0, 1}},
	},
	// b may be overtaken once more: by c or by d, not by both.
	"kept": {
		{name: "a", bytes: []extent{ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, waits: overtakeMax - 1},
		{name: "c", bytes: []extent{ext(5, 9)}},
		{name: "d", bytes: []extent{ext(5, 9)}},
	},
	"kept and cut": {
		{name: "a", bytes: []extent{ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, waits: overtakeMax - 1},
		{name: "c", bytes: []extent{ext(6, 12)}},
		{name: "d", bytes: []extent{ext(4, 7)}},
	},
	// While b and d wait for what f and g have, c and e overtake them.
	"two that are refused": {
		{name: "a", bytes: []extent{ext(1, 5)}, began: true},
		{name: "f", bytes: []extent{ext(5, 9)}, began: true},
		{name: "g", bytes: []extent{ext(9, 13)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, waits: 1},
		{name: "c", bytes: []extent{ext(1, 5)}, waits: 1},
		{name: "d", bytes: []extent{ext(1, 5), ext(9, 13)}, waits: 1},
		{name: "e", bytes: []extent{ext(1, 5)}, waits: 1},
	},
	"kept, in parts": {
		{name: "a", bytes: []extent{ext(1, 9)}, parts: []extent{ext(5, 9), ext(1, 5)}, began: true},
		{name: "b", bytes: []extent{ext(1, 9)}, waits: overtakeMax - 1},
		{name: "c", bytes: []extent{ext(5, 9)}},
		{name: "d", bytes: []extent{ext(7, 9)}},
	},
}

// TestExploreExclusion explores the exclusion of bytes, and of bytes and objects.
func TestExploreExclusion(t *testing.T) {
	for name, p := range exclPrograms {
		t.Run(name, func(t *testing.T) { explore.Test(t, explore.Config{}, exclProgram(p)) })
	}
}
