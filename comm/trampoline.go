// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "sync"

// Callbacks may start operations, which complete other requests, which have callbacks: without care, a chain
// of messages between two ranks would be a recursion as deep as the chain is long. A trampoline bounds it. At
// most depthLimit calls of run are active in it at a time, nested in each other or side by side;
// what comes on top is appended to its backlog, which the active ones work off before they return. So the
// depth of a stack is at most shards*depthLimit callbacks, and a callback waits only while depthLimit others are
// running, which, as they do not block, is short.
const (
	shards     = 8 // requests are spread by rank; a guess that suits small machines
	depthLimit = 8 // nested calls per shard; a guess: deep enough to be rare
)

type trampoline struct {
	mu      sync.Mutex
	active  int        // guarded by mu: calls of run under way
	backlog []deferred // guarded by mu: callbacks that found depthLimit active
	_       [64]byte   // shards do not share a cache line
}

// deferred is a list of callbacks and what they are to be told.
type deferred struct {
	list *node
	err  error
}

var trampolines [shards]trampoline

// run calls the callbacks of the list, now or soon. No lock is held while they run.
func (t *trampoline) run(list *node, err error) {
	t.mu.Lock()
	if t.active >= depthLimit {
		t.backlog = append(t.backlog, deferred{list, err})
		t.mu.Unlock()
		return
	}
	t.active++
	t.mu.Unlock()
	t.work(list, err)
}

// work runs callbacks until there are none left, then gives up the active place. If one panics, the others
// still run before the panic goes on.
func (t *trampoline) work(list *node, err error) {
	returned := false
	defer func() {
		if !returned {
			t.work(list, err)
		}
	}()
	for {
		for list != nil {
			n := list
			list = n.next
			n.fn(err)
		}
		t.mu.Lock()
		if len(t.backlog) == 0 {
			t.active--
			t.backlog = nil
			t.mu.Unlock()
			break
		}
		// Oldest first: what was deferred goes in the order in which it was completed.
		d := t.backlog[0]
		t.backlog[0] = deferred{}
		t.backlog = t.backlog[1:]
		t.mu.Unlock()
		list, err = d.list, d.err
	}
	returned = true
}
