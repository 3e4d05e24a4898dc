//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: each step of the package comment, left out or out of order, is found by the
// exploration.
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
		Name: "no R2", File: "poll.go", Test: "TestExploreLook",
		At: "R2",
		New: `	e.asleep()
	return false
`,
	},
	{
		Name: "R2 before R1", File: "poll.go", Test: "TestExploreLook",
		At: "R2",
		New: `	here := e.ready()
	return e.asleep() == 0 && here
`,
	},
	{
		Name: "no S1", File: "poll.go", Test: "TestExploreLook",
		At: "S1",
		New: `		e.progress.Ring(e)
`,
	},
	{
		Name: "S1 behind S2", File: "poll.go", Test: "TestExploreLook",
		At: "S1",
		New: `		e.progress.Ring(e)
		e.box.head.look.And(^uint32(lookRung))
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
		Name: "no C4", File: "poll.go", Test: "TestExploreFull",
		At: "C4",
		New: `			p.in.done(n)
			if met {
				return true
			}
`,
	},
	{
		Name: "a picked frame stays", File: "poll.go", Test: "TestExploreLook",
		At: "C4",
		New: `			if met {
				return true
			}
			if p.in.done(n) {
				p.rouse()
			}
`,
	},
	{
		Name: "a death is told by W2", File: "peer.go", Test: "TestExploreEnd",
		At: "death",
		New: `		p.e.Knock()
`,
	},
	{
		Name: "a death before a stranger's frames", File: "poll.go", Test: "TestExploreEnd",
		At:  "death-of-stranger",
		New: "",
	},
	{
		Name: "a death before the last frames", File: "poll.go", Test: "TestExploreEnd",
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
