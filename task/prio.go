// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"container/heap"

	"weft/internal/xatomic"
)

// prioQueue holds ready tasks with a priority: the largest first, the oldest of
// equals first. It is looked at only while n is not zero.
type prioQueue struct {
	n   xatomic.Int64
	mu  xatomic.Mutex
	h   prioHeap // +checklocks:mu
	seq uint64   // +checklocks:mu
}

type prioItem struct {
	t   *Task
	seq uint64
}

func (q *prioQueue) push(t *Task) {
	q.mu.Lock()
	q.seq++
	heap.Push(&q.h, prioItem{t, q.seq})
	q.n.Add(1)
	q.mu.Unlock()
}

func (q *prioQueue) pop() *Task {
	if q.n.Load() == 0 {
		return nil
	}
	return q.popIf(func(*Task) bool { return true })
}

// popIf is pop if the first task is fit, else nil.
func (q *prioQueue) popIf(fit func(*Task) bool) *Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.h) == 0 || !fit(q.h[0].t) {
		return nil
	}
	q.n.Add(-1)
	return heap.Pop(&q.h).(prioItem).t
}

type prioHeap []prioItem

func (h prioHeap) Len() int { return len(h) }
func (h prioHeap) Less(i, j int) bool {
	if h[i].t.priority != h[j].t.priority {
		return h[i].t.priority > h[j].t.priority
	}
	return h[i].seq < h[j].seq
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
