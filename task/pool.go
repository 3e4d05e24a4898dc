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

// get appends a batch to list, if there is one.
func (p *pool) get(list []*Task) []*Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.list); n >= batch {
		last := p.list[n-batch:]
		list = append(list, last...)
		clear(last)
		p.list = p.list[:n-batch]
	}
	return list
}

// put takes a batch.
func (p *pool) put(list []*Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < poolMax {
		p.list = append(p.list, list...)
	}
}
