//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each step of the package comment, left out or out of order, is found by the exploration.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "shm", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "W2 before W1", File: "peer.go", Test: "TestExploreLook",
		Old: sends,
		New: `	if len(p.queue) == 0 {
		p.knock()
	}
	if !last && len(p.queue) == 0 && p.out.put(kind, f) {
		p.mu.Unlock()
		if done != nil {
			done(nil)
		}
		return nil
	}
`,
	},
	{
		Name: "a knock behind the lock", File: "peer.go", Test: "TestExploreEnd",
		Old: sends,
		New: `	if !last && len(p.queue) == 0 && p.out.put(kind, f) {
		p.mu.Unlock()
		p.knock()
		if done != nil {
			done(nil)
		}
		return nil
	}
`,
	},
	{
		Name: "W2 does not look", File: "peer.go", Test: "TestExploreAwake",
		Old: `	for range knockSpin {
		if p.look.Load() != 0 {
			return
		}
	}
`,
		New: `	p.rope.ring()
`,
	},
	{
		Name: "W2 without the claim", File: "peer.go", Test: "TestExploreAwake",
		Old: `	if p.look.CompareAndSwap(0, 1) {
		p.rope.ring()
	}
`,
		New: `	p.rope.ring()
`,
	},
	{
		Name: "no R2", File: "look.go", Test: "TestExploreLook",
		Old: leaves,
		New: `	look.Add(^uint32(1))
	e.looking.Store(false)
`,
	},
	{
		Name: "a poll delivers without saying so", File: "look.go", Test: "TestExploreLook",
		Old: `		e.box.head.look.Add(2) // as enter does
`,
		New: "",
	},
	{
		Name: "a poll that finds nothing goes on looking", File: "look.go", Test: "TestExploreLook",
		Old: `		e.looking.Store(false)
		e.work()
`,
		New: `		e.work()
`,
	},
	{
		Name: "R2 before R1", File: "look.go", Test: "TestExploreLook",
		Old: leaves,
		New: `	if e.ready() {
		e.poll()
	}
	look.Add(^uint32(1))
	e.looking.Store(false)
`,
	},
	{
		Name: "R2 gives up without W2", File: "look.go", Test: "TestExploreLook",
		Old: leaves,
		New: `	for n := 0; look.Add(^uint32(1)) == 0 && e.ready(); n++ {
		if n == leaveAfter {
			break
		}
		look.Add(2)
		e.poll()
	}
	e.looking.Store(false)
`,
	},
	{
		Name: "R2 by one who does not look any more", File: "look.go", Test: "TestExploreLook",
		Old: leaves,
		New: `	e.looking.Store(false)
	for n := 0; look.Add(^uint32(1)) == 0 && e.ready(); n++ {
		if n == leaveAfter {
			e.wake()
			break
		}
		look.Add(2)
		e.poll()
	}
`,
	},
	{
		Name: "no S1", File: "look.go", Test: "TestExploreLook",
		Old: wakesUp,
		New: `		for !e.enter() {
			if look.Load() >= 2 {
				continue sleep // who looks now will see, when leaving, that the word is even
			}
			// Who looked has taken its 2 back while the word was odd, so has left to this goroutine what came meanwhile, and is about to make way.
			pause()
		}
`,
	},
	{
		Name: "S1 behind S2", File: "look.go", Test: "TestExploreLook",
		Old: wakesUp,
		New: `		for !e.enter() {
			if look.Load() >= 2 {
				continue sleep // who looks now will see, when leaving, that the word is even
			}
			// Who looked has taken its 2 back while the word was odd, so has left to this goroutine what came meanwhile, and is about to make way.
			pause()
		}
		look.And(^uint32(1))
`,
	},
	{
		Name: "S2 counts on one who leaves", File: "look.go", Test: "TestExploreLook",
		Old: wakesUp,
		New: `		look.And(^uint32(1))
		if !e.enter() {
			continue sleep
		}
`,
	},
	{
		Name: "F2 without F3", File: "peer.go", Test: "TestExploreFull",
		Old: queued,
		New: `	if n < len(p.queue) {
		p.out.ctl.waiting.Store(1)
	}
`,
	},
	{
		Name: "F3 before F2", File: "peer.go", Test: "TestExploreFull",
		Old: queued,
		New: `	write()
	if n < len(p.queue) {
		p.out.ctl.waiting.Store(1)
	}
`,
	},
	{
		Name: "no C4", File: "look.go", Test: "TestExploreFull",
		Old: takes,
		New: `			p.in.done(n)
			if picked {
				return true, true
			}
`,
	},
	{
		Name: "a picked frame stays", File: "look.go", Test: "TestExploreLook",
		Old: takes,
		New: `			if picked {
				return true, true
			}
			if p.in.done(n) {
				p.rouse()
			}
`,
	},
	{
		Name: "a death is told by W2", File: "peer.go", Test: "TestExploreEnd",
		Old: `		p.e.bell.ring()
`,
		New: `		p.e.wake()
`,
	},
	{
		Name: "a death before a stranger's frames", File: "look.go", Test: "TestExploreEnd",
		Old: `			if !p.joined {
				e.join(e.box.head.joins.Load()) // it may have come, and sent, since poll has looked
			}
`,
		New: "",
	},
	{
		Name: "a death before the last frames", File: "look.go", Test: "TestExploreEnd",
		Old: `			if p.joined && !p.gone.Load() && p.in.ready() {
				continue // poll comes again
			}
`,
		New: "",
	},
	{
		Name: "closed behind the byte", File: "endpoint_linux.go", Test: "TestExploreEnd",
		Old: `		e.closed.Store(true)
		e.bell.ring() // the sleeper ends
`,
		New: `		e.bell.ring()
		e.closed.Store(true)
`,
	},
}

// Places of several bugs.
const (
	sends = `	if !last && len(p.queue) == 0 && p.out.put(kind, f) {
		p.knock()
		p.mu.Unlock()
		if done != nil {
			done(nil)
		}
		return nil
	}
`
	leaves = `	for n := 0; look.Add(^uint32(1)) == 0 && e.ready(); n++ {
		if n == leaveAfter {
			e.wake()
			break
		}
		look.Add(2)
		e.poll()
	}
	e.looking.Store(false)
`
	wakesUp = `		look.And(^uint32(1))
		for !e.enter() {
			if look.Load() >= 2 {
				continue sleep // who looks now will see, when leaving, that the word is even
			}
			// Who looked has taken its 2 back while the word was odd, so has left to this goroutine what came meanwhile, and is about to make way.
			pause()
		}
`
	takes = `			if p.in.done(n) {
				p.rouse()
			}
			if picked {
				return true, true
			}
`
	queued = `	if n < len(p.queue) {
		p.out.ctl.waiting.Store(1)
		write()
	}
`
)
