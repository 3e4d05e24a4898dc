// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"sync/atomic"
	"time"

	"weft/nam/internal/store"
)

// prefaultWait is how long Allocate waits for the pages of a region: the 100 ms that a person takes
// for "at once". A region of some hundred MiB is present by then.
const prefaultWait = 100 * time.Millisecond

// prefaulter makes the pages of one rank's region present, from the first to the last. The kernel
// takes 0.3 to 1.5 s per GiB for that, and several times as long on a busy machine: the rank that
// asked for it begins to work meanwhile, and its first put to a page that is not present yet pays
// for that page. One goroutine, owned by the rank's allocation and then by its backing; it ends
// with the last page, or when stop is called.
type prefaulter struct {
	stopped atomic.Bool
	done    chan struct{}
}

func startPrefault(h *store.Handle, rank int) *prefaulter {
	p := &prefaulter{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		h.Populate(rank, p.stopped.Load)
	}()
	return p
}

// wait waits for the last page, but not for long.
func (p *prefaulter) wait() {
	select {
	case <-p.done:
	case <-time.After(prefaultWait):
	}
}

// stop ends the goroutine, which must not touch the mapping after its handle is released. It may be
// called more than once, and of nil.
func (p *prefaulter) stop() {
	if p != nil {
		p.stopped.Store(true)
		<-p.done
	}
}
