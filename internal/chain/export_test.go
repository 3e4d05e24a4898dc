// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// poisonState has all bits that an access of a live task cannot have at the same time, and room
// above so that a late addition changes it without overflow.
const poisonState = 0x5EAD0000

// Poison spoils the memory of a node that came out of NextFree. A later use of it crashes, is
// reported by the race detector, or is found by Unspoiled.
func Poison(n *Node) {
	for i := range n.count {
		a := n.at(i)
		a.state.Init(poisonState)
		a.setSucc(nil)
		a.setRef(nil)
	}
	n.pending.Init(poisonState)
	n.refs.Init(poisonState)
}

// Unspoiled reports whether n has not changed since Poison.
func Unspoiled(n *Node) bool {
	for i := range n.count {
		a := n.at(i)
		if a.state.Load() != poisonState || a.succ() != nil || a.ref() != nil {
			return false
		}
	}
	return n.pending.Load() == poisonState && n.refs.Load() == poisonState
}

// OvertakeMax is the number of younger nodes that may overtake a waiter.
const OvertakeMax = overtakeMax

// Resources returns the number of objects that are held or waited for.
func Resources() (n int) {
	for i := range exclusions.shards {
		s := &exclusions.shards[i]
		s.mu.Lock()
		n += s.n
		if i == byteShard {
			n += exclusions.bytes.n
		}
		s.mu.Unlock()
	}
	return n
}

// Reserved reports whether n waits for pieces of memory that are reserved for it.
func Reserved(n *Node) (yes bool) {
	s := &exclusions.shards[byteShard]
	s.mu.Lock()
	defer s.mu.Unlock()
	exclusions.bytes.walk(0, ^uintptr(0), func(_, _ uintptr, v **resource) {
		if v != nil {
			for x := (*v).first; x != nil; x = x.next {
				yes = yes || x.w.node == n && x.w.reserved()
			}
		}
	})
	return yes
}

// TableSize returns the number of entries of the table of n's children's objects.
func TableSize(n *Node) int {
	if n.dom == nil {
		return 0
	}
	return len(n.dom.tab)
}

// Retire is Node.Retire for a caller that takes all free nodes from the flow.
func Retire(n *Node, f *Flow) {
	if n.Retire() {
		f.free.push(n)
	}
}
