// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"sync"
	"time"
)

// Dump has the goroutines of the process, as they were a moment ago. To write them down stops the
// program and takes the longer the more there are; so runs that one context ends, which all say who
// waits for what, share one. Any goroutine may use it.
type Dump struct {
	fresh time.Duration
	list  func() []Goroutine

	mu   sync.Mutex
	all  map[uint64]*Goroutine // guarded by mu: by number; nil: none that is fresh
	made int                   // guarded by mu: dumps so far
}

// NewDump returns a Dump whose lists are shared for a time; list is [Goroutines], or stands for it.
func NewDump(fresh time.Duration, list func() []Goroutine) *Dump {
	return &Dump{fresh: fresh, list: list}
}

// Shared returns all goroutines by number, from a list that is new, or was when the last moment began.
func (d *Dump) Shared() map[uint64]*Goroutine {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = d.Now()
		d.made++
		n := d.made
		time.AfterFunc(d.fresh, func() { d.forget(n) })
	}
	return d.all
}

// forget drops list number n, unless there is a later one.
func (d *Dump) forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == n {
		d.all = nil
	}
}

// Now returns all goroutines by number, as they are now.
func (d *Dump) Now() map[uint64]*Goroutine {
	all := map[uint64]*Goroutine{}
	for _, g := range d.list() {
		all[g.ID] = &g
	}
	return all
}
