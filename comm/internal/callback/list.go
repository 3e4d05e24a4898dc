// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"runtime"
	"sync/atomic"
)

// List has the callbacks and waiting goroutines of one request. It is one word: nil or a list of
// nodes (pending, newest first), &taken (a goroutine changes the list or writes the result, for a
// few instructions), or &ended (complete; final).
//
//	nil, nodes ──Push, Remove──→ nil, nodes ──End, Close──→ &ended
//	                  └─Take→ &taken ─Put─┘
type List struct{ head atomic.Pointer[Node] }

var taken, ended Node

// Done reports whether the request is complete.
func (l *List) Done() bool { return l.head.Load() == &ended }

// Take takes the word and returns the list, or false if the request is complete. Put or End gives
// the word back. Only a few instructions may come between, which do not block, since contenders
// yield instead of parking.
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

// Put gives the word back, with a list.
func (l *List) Put(list *Node) { l.head.Store(list) }

// End gives the word back and makes the request complete.
func (l *List) End() { l.head.Store(&ended) }

// Close is Take and End in one step. The caller is the only one that may complete the request, and
// has written its result.
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

// Push adds n, or returns false if the request is complete.
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

// Remove removes n. It returns false if the request is complete; then n is notified by Tell.
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

// Tell wakes the waiting goroutines of a complete list and runs the callbacks, oldest first. It
// does not touch the request any more, since a woken goroutine may reuse that.
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
