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
		At: "W1",
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
		At: "W1",
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
		At: "W2-look",
		New: `	p.rope.ring()
`,
	},
	{
		Name: "W2 without the claim", File: "peer.go", Test: "TestExploreAwake",
		At: "W2-claim",
		New: `	p.rope.ring()
`,
	},
	{
		Name: "no R2", File: "look.go", Test: "TestExploreLook",
		At: "R2",
		New: `	look.Add(^uint32(1))
	e.looking.Store(false)
`,
	},
	{
		Name: "a poll delivers without saying so", File: "look.go", Test: "TestExploreLook",
		At:  "says-so",
		New: "",
	},
	{
		Name: "a poll that finds nothing goes on looking", File: "look.go", Test: "TestExploreLook",
		At: "found-nothing",
		New: `		e.work()
`,
	},
	{
		Name: "R2 before R1", File: "look.go", Test: "TestExploreLook",
		At: "R2",
		New: `	if e.ready() {
		e.poll()
	}
	look.Add(^uint32(1))
	e.looking.Store(false)
`,
	},
	{
		Name: "R2 gives up without W2", File: "look.go", Test: "TestExploreLook",
		At: "R2",
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
		At: "R2",
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
		At: "S1",
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
		At: "S1",
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
		At: "S1",
		New: `		look.And(^uint32(1))
		if !e.enter() {
			continue sleep
		}
`,
	},
	{
		Name: "F2 without F3", File: "peer.go", Test: "TestExploreFull",
		At: "F3",
		New: `	if n < len(p.queue) {
		p.out.ctl.waiting.Store(1)
	}
`,
	},
	{
		Name: "F3 before F2", File: "peer.go", Test: "TestExploreFull",
		At: "F3",
		New: `	write()
	if n < len(p.queue) {
		p.out.ctl.waiting.Store(1)
	}
`,
	},
	{
		Name: "no C4", File: "look.go", Test: "TestExploreFull",
		At: "C4",
		New: `			p.in.done(n)
			if picked {
				return true, true
			}
`,
	},
	{
		Name: "a picked frame stays", File: "look.go", Test: "TestExploreLook",
		At: "C4",
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
		At: "death",
		New: `		p.e.wake()
`,
	},
	{
		Name: "a death before a stranger's frames", File: "look.go", Test: "TestExploreEnd",
		At:  "death-of-stranger",
		New: "",
	},
	{
		Name: "a death before the last frames", File: "look.go", Test: "TestExploreEnd",
		At:  "death",
		New: "",
	},
	{
		Name: "closed behind the byte", File: "endpoint_linux.go", Test: "TestExploreEnd",
		At: "close",
		New: `		e.bell.ring()
		e.closed.Store(true)
`,
	},
}
