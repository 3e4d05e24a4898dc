// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/xatomic"

// inject is the queue for work from outside: first in, first out, linked through the tasks.
type inject struct {
	n          xatomic.Int64 // length, to look without the lock
	mu         xatomic.Mutex
	head, tail *Task // +checklocks:mu
}

func (q *inject) push(t *Task) {
	q.mu.Lock()
	t.next = nil
	if q.tail == nil {
		q.head = t
	} else {
		q.tail.next = t
	}
	q.tail = t
	q.n.Add(1)
	q.mu.Unlock()
}

func (q *inject) pop() *Task {
	if q.n.Load() == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.head
	if t != nil {
		if q.head, t.next = t.next, nil; q.head == nil {
			q.tail = nil
		}
		q.n.Add(-1)
	}
	return t
}
