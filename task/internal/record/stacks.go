// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"runtime"

	"weft/internal/event"
)

// spawnStacks is what a slot takes stacks of spawns with. It belongs to the holder of the slot.
type spawnStacks struct {
	cache  *event.StackCache
	lo, hi uintptr // of the code of what calls bodies
	key    [event.StackDepth]uintptr
	raw    [rawStack]uintptr
}

// rawStack is how many frames are looked at: those that are kept, and what the runtime of tasks has on top of them.
const rawStack = event.StackDepth + 12

func newStacks(rec *event.Recorder, lo, hi uintptr) *spawnStacks {
	c := rec.StackCache()
	if c == nil {
		return nil
	}
	return &spawnStacks{cache: c, lo: lo, hi: hi}
}

// stack returns the number of the stack of the spawn that is under way. The frames end with the body of the parent: what has called
// that one has to do with the slot, not with the parent. Instead there is the number of the parent's origin, by.
func (x *spawnStacks) stack(by uint32) uint32 {
	// To walk the stack as the runtime does takes microseconds, since it looks up each function. So a stack that has been seen is known by its
	// return addresses alone, of which calls that the compiler has put into their callers have none.
	n := frames(&x.key[0], len(x.key), x.lo, x.hi)
	key := x.key[:max(n, 0)]
	if n >= 0 {
		if id := x.cache.Find(by, key); id != 0 {
			return id
		}
	}
	pcs := x.raw[:runtime.Callers(2, x.raw[:])]
	for i, pc := range pcs {
		if x.lo < pc && pc <= x.hi {
			pcs = pcs[:i]
			break
		}
	}
	if n < 0 {
		key = pcs
	}
	return x.cache.Learn(by, key, pcs)
}

// stackOfRun returns the number of the stack of a call of Run or Spawn, that is under way; zero if stacks are not recorded.
func stackOfRun(rec *event.Recorder) uint32 {
	if !rec.Stacks() {
		return 0
	}
	var raw [rawStack]uintptr
	n := runtime.Callers(2, raw[:])
	return rec.Names().Stack(0, raw[:min(n, event.StackDepth)])
}
