// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"encoding/binary"
	"slices"
)

// Stack is the call stack of a spawn: the frames of the body that called it, and the origin of that
// body's task.
type Stack struct {
	// By is the number of the origin of the spawning task; 0 if no task spawned. The stack of that
	// origin, if it has one, continues this stack outwards.
	By uint32
	// PCs are the frames, innermost first, as runtime.Callers returns them. With fewer than
	// StackDepth frames, the outermost one is the body.
	PCs []uintptr
}

// StackDepth is the largest number of frames of one body in a stack.
const StackDepth = 24

// mostStacks bounds the stacks of a recording (guess: programs have some tens; a program that
// spawns at every depth of an ordinary recursion has more).
const mostStacks = 1 << 14

// stacks are the distinct stacks of a recording. Guarded by Names.mu.
type stacks struct {
	list []Stack // number 1 is at 0
	ids  map[string]uint32
	full uint64 // calls of Stack for which there was no room
}

// Stack returns the number of a stack; 0 if there is no room for another stack. Equal stacks have
// equal numbers. If by's own chain of stacks already contains these frames, Stack returns the
// number of that outer stack. So a recursion of tasks has one stack for each cycle in the program,
// not one for each depth.
func (n *Names) Stack(by uint32, pcs []uintptr) uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := make([]byte, 0, 4+8*len(pcs))
	key = binary.LittleEndian.AppendUint32(key, by)
	for _, pc := range pcs {
		key = binary.LittleEndian.AppendUint64(key, uint64(pc))
	}
	if id, ok := n.stacks.ids[string(key)]; ok {
		return id
	}
	for outer := by; outer != 0; { // ends: each step leads to an older origin
		s := n.specs[outer-1].Stack
		if s == 0 {
			break
		}
		x := &n.stacks.list[s-1]
		if x.By != 0 && slices.Equal(x.PCs, pcs) {
			n.learnLocked(key, s)
			return s
		}
		outer = x.By
	}
	if len(n.stacks.list) >= mostStacks {
		n.stacks.full++
		return 0
	}
	n.stacks.list = append(n.stacks.list, Stack{by, slices.Clone(pcs)})
	id := uint32(len(n.stacks.list))
	n.learnLocked(key, id)
	return id
}

// learnLocked adds the number of a stack to the table, unless the table is full.
// +checklocks:n.mu
func (n *Names) learnLocked(key []byte, id uint32) {
	if n.stacks.ids == nil {
		n.stacks.ids = map[string]uint32{}
	}
	if len(n.stacks.ids) < 4*mostStacks {
		n.stacks.ids[string(key)] = id
	}
}

// StackOf returns the stack with a number; the zero Stack if there is none. The caller must not
// change its frames.
func (n *Names) StackOf(id uint32) Stack {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id == 0 || int(id) > len(n.stacks.list) {
		return Stack{}
	}
	return n.stacks.list[id-1]
}

// Unstacked returns how many times Stack had no room.
func (n *Names) Unstacked() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stacks.full
}

// StackCache is a writer's cache of numbers of stacks. It belongs to one goroutine at a time.
type StackCache struct {
	names *Names
	slots [128]stackSlot
}

type stackSlot struct {
	by, id uint32 // id is zero in an empty slot
	n      int
	key    [StackDepth]uintptr
}

// Stacks reports whether the recording has the stacks of spawns.
func (r *Recorder) Stacks() bool { return r.opt.Stacks }

// StackCache returns a cache for a writer; nil if the recording has no stacks.
func (r *Recorder) StackCache() *StackCache {
	if !r.opt.Stacks {
		return nil
	}
	return &StackCache{names: &r.names}
}

// Find returns the number that Learn stored under by and key; 0 if it is not in the cache. A key
// has at most StackDepth elements.
func (c *StackCache) Find(by uint32, key []uintptr) uint32 {
	s := c.slot(by, key)
	if s.by != by || !slices.Equal(s.key[:s.n], key) {
		return 0
	}
	return s.id
}

// Learn calls Names.Stack with the innermost frames of pcs, and stores the number under by and key.
// Equal keys must belong to equal stacks.
func (c *StackCache) Learn(by uint32, key, pcs []uintptr) uint32 {
	key = key[:min(len(key), StackDepth)]
	s := c.slot(by, key)
	s.by, s.n = by, copy(s.key[:], key)
	s.id = c.names.Stack(by, pcs[:min(len(pcs), StackDepth)])
	return s.id
}

func (c *StackCache) slot(by uint32, key []uintptr) *stackSlot {
	h := uint64(by)
	for _, pc := range key {
		h = (h ^ uint64(pc)) * 0x9e3779b97f4a7c15
	}
	return &c.slots[h>>57]
}
