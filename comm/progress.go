// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math"
	"runtime"
	"sync/atomic"

	"weft/internal/fabric"
	"weft/internal/processors"
)

// progress is how a call makes progress on its own goroutine. A call that waits looks (looker.Look); a call that does not
// wait and has found nothing tries: Test, Done and Iprobe. README.md, "Progress without waiting", has the argument.
type progress struct {
	// Constant after construction.
	looker     fabric.Looker // nil: nothing comes from other processes in a way that can be looked at
	yieldEvery uint32        // tries until other goroutines get the processor

	_     [cacheLine]byte // loops of ranks that share a process count in lines of their own
	tries atomic.Uint32   // tries in a row that have delivered nothing, of all goroutines of the rank
	_     [cacheLine]byte
}

// How many tries it takes until other goroutines get the processor. Guesses, but for the first.
const (
	// yieldCrowded is for ranks that share a processor of Go's: the one that is waited for cannot run otherwise. Ranks that
	// have one each yield after as many tries as there are processors: two may be on one processor all the same, and all
	// that yield take one lock of Go's.
	yieldCrowded = 1
	// yieldSingle is for the rank of a process with one processor of Go's, which other goroutines need as well.
	yieldSingle = 64
	// yieldAlone is for the rank of a process with more, some 50 µs: a yield wakes a thread for a processor that is idle.
	yieldAlone = 1024
)

// newProgress returns the progress of one of so many ranks of this process.
func newProgress(ep fabric.Endpoint, ranks int) *progress {
	g := &progress{}
	g.looker, _ = ep.(fabric.Looker)
	switch n := processors.Count(); {
	case n < ranks:
		g.yieldEvery = yieldCrowded
	case ranks > 1:
		g.yieldEvery = uint32(n)
	case n == 1:
		g.yieldEvery = yieldSingle
	default:
		g.yieldEvery = yieldAlone
	}
	return g
}

// anyProgress is for requests that are tied to no rank: where frames come to the rank that began last. That is a hint; such
// a request is completed all the same.
var anyProgress atomic.Pointer[progress]

func init() { anyProgress.Store(&progress{yieldEvery: yieldSingle}) }

// try delivers what has come. If nothing has, it now and then gives the processor to others: a loop around Test must not
// starve the goroutine, or the process, that it waits for. It never waits. Whoever finds that another goroutine delivers
// leaves it to that one, so it may be called anywhere, also in a callback. It runs the callbacks of what it completes. It
// reports whether this call has delivered anything.
func (g *progress) try() (delivered bool) {
	n := g.tries.Add(1)
	if g.looker != nil && g.looker.Poll(int(n&math.MaxInt32)) {
		g.tries.Store(0)
		return true
	}
	if n%g.yieldEvery == 0 {
		runtime.Gosched()
	}
	return false
}

// poll is try for who has other work if there is nothing, and sees to the others' processors itself.
func (g *progress) poll() bool { return g.looker.Poll(0) }

// look looks for what ends the wait on ch, for a short time. entered: the caller looks already.
func (g *progress) look(ch <-chan struct{}, entered bool) {
	if g.looker != nil {
		g.looker.Look(ch, entered)
	}
}
