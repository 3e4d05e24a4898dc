// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"container/heap"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// inject is the queue for the tasks of goroutines without a slot: first in, first out.
type inject struct {
	n    xatomic.Int64 // length, readable without the lock
	mu   xatomic.Mutex
	ring []*chain.Node // the length is a power of two. +checklocks:mu
	head int           // index of the oldest task. +checklocks:mu
	size int           // +checklocks:mu
}

// injectMin is the shortest ring (guess).
const injectMin = 64

func (q *inject) push(n *chain.Node) {
	q.mu.Lock()
	if q.size == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.size)&(len(q.ring)-1)] = n
	q.size++
	q.n.Add(1)
	q.mu.Unlock()
}

// grow doubles the ring, which is full. It does not use copy: in lint mode the race detector sees
// Go's own copy of pointers, and must not see the runtime.
//
// +checklocks:q.mu
func (q *inject) grow() {
	ring := make([]*chain.Node, max(injectMin, 2*len(q.ring)))
	for i := range q.ring {
		ring[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
	}
	q.ring, q.head = ring, 0
}

// pop takes the oldest task; nil if there is none. An empty queue keeps only the shortest ring.
func (q *inject) pop() *chain.Node {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size == 0 {
		return nil
	}
	n := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	if q.size--; q.size == 0 && len(q.ring) > injectMin {
		q.ring, q.head = nil, 0
	}
	q.n.Add(-1)
	return n
}

// prioQueue holds ready tasks with a priority: the largest first, of equal ones the oldest first.
// Slots lock it only while n is not zero.
type prioQueue struct {
	n   xatomic.Int64
	mu  xatomic.Mutex
	h   prioHeap // +checklocks:mu
	seq uint64   // +checklocks:mu
}

type prioItem struct {
	n        *chain.Node
	seq      uint64
	priority int32
}

func (q *prioQueue) push(n *chain.Node, priority int32) {
	q.mu.Lock()
	q.seq++
	heap.Push(&q.h, prioItem{n, q.seq, priority})
	q.n.Add(1)
	q.mu.Unlock()
}

func (q *prioQueue) pop() *chain.Node {
	if q.n.Load() == 0 {
		return nil
	}
	return q.popIf(func(*chain.Node) bool { return true })
}

// popIf takes the first task if it is fit; nil if it is not, or there is none.
func (q *prioQueue) popIf(fit func(*chain.Node) bool) *chain.Node {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.h) == 0 || !fit(q.h[0].n) {
		return nil
	}
	q.n.Add(-1)
	return heap.Pop(&q.h).(prioItem).n
}

type prioHeap []prioItem

func (h prioHeap) Len() int { return len(h) }
func (h prioHeap) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	return a.priority > b.priority || a.priority == b.priority && a.seq < b.seq
}
func (h prioHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *prioHeap) Push(x any)   { *h = append(*h, x.(prioItem)) }
func (h *prioHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = prioItem{}
	*h = old[:n]
	return x
}
