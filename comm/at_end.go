// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"sync"
)

// AtEnd has f called, on a goroutine of its own, when the run aborts or ends, as
// [context.AfterFunc] of Context does; but Run returns only when f has. It is for packages that
// build on communicators, and give back what the program has not. stop is that of AfterFunc. f must
// not wait for Run, and finds all operations complete or failing.
func (c *Comm) AtEnd(f func()) (stop func() bool) {
	e := &c.world.ends
	e.add(1)
	unhook := context.AfterFunc(c.world.ctx, func() {
		defer e.add(-1)
		f()
	})
	return func() bool {
		stopped := unhook()
		if stopped {
			e.add(-1)
		}
		return stopped
	}
}

// ends counts the functions of AtEnd that are to be called or are under way. It is no WaitGroup: a
// goroutine that outlives its rank may still add some.
type ends struct {
	mu    sync.Mutex
	count int           // guarded by mu
	none  chan struct{} // guarded by mu: closed when count is zero; nil if nobody waits
}

func (e *ends) add(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count += n
	if e.count == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait returns when none is to be called or under way. Precondition: the run has ended.
func (e *ends) wait() {
	e.mu.Lock()
	if e.count == 0 {
		e.mu.Unlock()
		return
	}
	none := make(chan struct{})
	e.none = none
	e.mu.Unlock()
	<-none
}
