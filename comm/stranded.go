// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"time"
)

// newsWait is how long one waits to hear why a rank has closed its end.
const newsWait = 2 * time.Second

// stranded decides what becomes of an operation that a fabric has ended with err, because rank dst of the run does not take part any more. It returns
// true if the operation waits; end, which may be nil, is then called with the error, once.
//
// Where a run survives losses, or the run has ended, nothing waits. Elsewhere a rank that does not take part is the end of the run, and why is
// told by a frame or by the launcher, perhaps on another way than the one that has just failed: who fails at once, with the loss as
// its reason, hides the cause from its user. If there are no such news for a while, the loss is the cause.
func (p *proc) stranded(dst int, err error, end func(error)) bool {
	if err == nil || p.world.survive || known(err) {
		return false
	}
	f := &p.far
	f.mu.Lock()
	if f.dead != nil {
		f.mu.Unlock()
		return false
	}
	if end != nil {
		f.stranded = append(f.stranded, end)
	}
	first := !f.waits
	f.waits = true
	f.mu.Unlock()
	if first {
		lost := &RankError{Rank: dst, Err: &LostError{Rank: dst, Err: err}}
		time.AfterFunc(newsWait, func() { p.world.end(lost) }) // which does nothing if the run has ended
	}
	return true
}
