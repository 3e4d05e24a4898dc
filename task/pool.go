// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/xatomic"

// pool holds free tasks that one slot had too many of and another
// needs: a creator runs out, since its tasks end on other slots. They come and go in batches.
type pool struct {
	mu   xatomic.Mutex
	list []*Task // +checklocks:mu
}

// poolMax bounds the tasks kept; the rest is garbage (16,384 · 320 B = 5 MiB).
const poolMax = 256 * batch

// The loops below are not copies: Go's own copy of pointers is what the race detector sees in lint mode, where it shall not see the runtime.

// get moves a batch to the end of list, if there is one.
func (p *pool) get(list []*Task) []*Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < batch {
		return list
	}
	for range batch {
		last := len(p.list) - 1
		list = append(list, p.list[last])
		p.list[last] = nil
		p.list = p.list[:last]
	}
	return list
}

// put takes a batch out of list, which is as long.
func (p *pool) put(list []*Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keeps := len(p.list) < poolMax
	for i, t := range list {
		if keeps {
			p.list = append(p.list, t)
		}
		list[i] = nil
	}
}
