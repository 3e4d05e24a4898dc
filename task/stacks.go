// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"reflect"
	"runtime"
	"sync"

	"weft/internal/event"
)

// spawnStacks is what a slot takes stacks of spawns with. It belongs to the holder of the slot.
type spawnStacks struct {
	cache *event.StackCache
	body  codeRange
	key   [event.StackDepth]uintptr
	raw   [rawStack]uintptr
}

// rawStack is how many frames are looked at: those that are kept, and what the runtime of tasks has on top of them.
const rawStack = event.StackDepth + 8

// codeRange are the program counters of a function.
type codeRange struct{ lo, hi uintptr }

// callsBody is the code of the only function that calls bodies. Compilers do not put it into others, since it recovers.
var callsBody = sync.OnceValue(func() codeRange {
	f := runtime.FuncForPC(reflect.ValueOf((*Task).callHere).Pointer())
	r := codeRange{f.Entry(), f.Entry() + 1}
	for g := f; g != nil && g.Entry() == f.Entry(); r.hi++ {
		g = runtime.FuncForPC(r.hi)
	}
	return r
})

func newStacks(rec *event.Recorder) *spawnStacks {
	c := rec.StackCache()
	if c == nil {
		return nil
	}
	return &spawnStacks{cache: c, body: callsBody()}
}

// stackOf returns the number of the stack of the spawn that is under way, by t, whose body has called a method that has called a function
// that has called stackOf. The frames end with the body: what has called that one has to do with the slot, not with t.
// Instead there is t's origin. If t is not recorded, as most are not where tasks are sampled, it is t's origin but for its own stack.
func (e *events) stackOf(t *Task) uint32 {
	x := e.stacks
	by := t.spec
	if t.Flags&flagUnseen != 0 || by == 0 {
		by = e.specs.Spec(t.origin())
	}
	// To walk the stack as the runtime does takes microseconds, since it looks up each function. So a stack that has been seen is known by its
	// return addresses alone, of which calls that the compiler has put into their callers have none.
	n := frames(&x.key[0], len(x.key), x.body.lo, x.body.hi)
	key := x.key[:max(n, 0)]
	if n >= 0 {
		if id := x.cache.Find(by, key); id != 0 {
			return id
		}
	}
	pcs := x.raw[:runtime.Callers(2, x.raw[:])]
	for i, pc := range pcs {
		if x.body.lo < pc && pc <= x.body.hi {
			pcs = pcs[:i]
			break
		}
	}
	if n < 0 {
		key = pcs
	}
	return x.cache.Learn(by, key, pcs)
}

// stackOfRun returns the number of the stack of a call of Run or Spawn, which has called a function that has called stackOfRun; zero if stacks are not recorded.
func (rt *Runtime) stackOfRun() uint32 {
	rec := rt.cfg.Trace
	if !rec.Stacks() {
		return 0
	}
	var raw [rawStack]uintptr
	n := runtime.Callers(2, raw[:])
	return rec.Names().Stack(0, raw[:min(n, event.StackDepth)])
}
