// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"sync"
	"time"

	"weft/internal/waits"
)

// sharedDump has the goroutines of the process, as they were a moment ago. To write them down stops
// the program and takes the longer the more there are; so runs that one context ends, which all say
// who waits for what, share one.
type sharedDump struct {
	mu   sync.Mutex
	all  map[uint64]*waits.Goroutine // guarded by mu: by number; nil: none that is fresh
	made int                         // guarded by mu: dumps so far
}

var dump sharedDump

// dumpFresh is for how long a dump is shared (guess). Tests have another.
var dumpFresh = 10 * time.Millisecond

// get returns a dump that is new, or was when the last moment began.
func (d *sharedDump) get() map[uint64]*waits.Goroutine {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = numbered()
		d.made++
		n := d.made
		time.AfterFunc(dumpFresh, func() { d.forget(n) })
	}
	return d.all
}

// forget drops dump number n, unless there is a later one.
func (d *sharedDump) forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == n {
		d.all = nil
	}
}

// listGoroutines lists all of the process. Tests count the calls.
var listGoroutines = waits.Goroutines

// numbered returns all goroutines by number, as they are now.
func numbered() map[uint64]*waits.Goroutine {
	all := map[uint64]*waits.Goroutine{}
	for _, g := range listGoroutines() {
		all[g.ID] = &g
	}
	return all
}
