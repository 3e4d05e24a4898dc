// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/xatomic"

// pool holds batches of free tasks that one slot had too many of and another
// needs: a creator runs out, since its tasks end on other slots.
type pool struct {
	mu   xatomic.Mutex
	list []*Task // +checklocks:mu
}

// poolMax bounds the batches kept; the rest is garbage (24 KiB · 256 = 6 MiB).
const poolMax = 256

func (p *pool) get() *Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.list)
	if n == 0 {
		return nil
	}
	l := p.list[n-1]
	p.list[n-1] = nil
	p.list = p.list[:n-1]
	return l
}

func (p *pool) put(l *Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < poolMax {
		p.list = append(p.list, l)
	}
}
