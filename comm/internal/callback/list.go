// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"runtime"
	"sync/atomic"
)

// List is those that want to know of one completion. Its one word decides everything: nil or a list
// of nodes (pending, newest first), &taken (somebody rearranges the list or writes a result; a few
// instructions), &ended (complete; final).
type List struct{ head atomic.Pointer[Node] }

var taken, ended Node

// Done reports whether it is complete.
func (l *List) Done() bool { return l.head.Load() == &ended }

// Take takes the word and returns the list, or false if it is complete. Put and End give it back;
// between, a few instructions that do not block, so contenders yield rather than park.
func (l *List) Take() (*Node, bool) {
	for {
		h := l.head.Load()
		if h == &ended {
			return nil, false
		}
		if h == &taken {
			runtime.Gosched()
			continue
		}
		if l.head.CompareAndSwap(h, &taken) {
			return h, true
		}
	}
}

// Put gives the word back.
func (l *List) Put(list *Node) { l.head.Store(list) }

// End makes it complete.
func (l *List) End() { l.head.Store(&ended) }

// Close is Take and End at once, for a caller that alone has the right to complete it, and has
// written its result.
func (l *List) Close() *Node {
	for {
		h := l.head.Load()
		if h == &taken {
			runtime.Gosched()
			continue
		}
		if h == &ended {
			panic("comm: bug: an operation was completed twice")
		}
		if l.head.CompareAndSwap(h, &ended) {
			return h
		}
	}
}

// Push registers n, or returns false if it is complete.
func (l *List) Push(n *Node) bool {
	for {
		h := l.head.Load()
		if h == &ended {
			return false
		}
		if h == &taken {
			runtime.Gosched()
			continue
		}
		n.Next = h
		if l.head.CompareAndSwap(h, n) {
			return true
		}
	}
}

// Remove takes n back, and returns false if it is complete (then n's owner will have been told).
func (l *List) Remove(n *Node) bool {
	list, ok := l.Take()
	if !ok {
		return false
	}
	for at := &list; *at != nil; at = &(*at).Next {
		if *at == n {
			*at = n.Next
			break
		}
	}
	l.Put(list)
	return true
}

// Tell wakes the waiting goroutines of a complete list and runs the callbacks, oldest first. What
// was completed is not touched any more, since a goroutine that is woken may reuse it.
func (s *Set) Tell(list *Node, err error) {
	if list == nil {
		return
	}
	if list.Next == nil && list.Func == nil { // one waiting goroutine: the common case
		list.Wake()
		return
	}
	var first *Node
	for n := list; n != nil; {
		next := n.Next
		if n.Func == nil {
			n.Wake()
		} else {
			n.Next, first = first, n
		}
		n = next
	}
	if first != nil {
		s.Run(first, err)
	}
}
