//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"

	"weft/internal/explore"
)

// TestPlantedBugs: the exploration finds each step of the package comment that is left out or out
// of order.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "shm", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "W2 before W1", File: "peer.go", Test: "TestExplorePoll",
		At: "W1",
		New: `	if len(p.queue) == 0 {
		p.ringDoorbell()
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
		Name: "ringing after the lock is released", File: "peer.go", Test: "TestExploreEnd",
		At: "W1",
		New: `	if !last && len(p.queue) == 0 && p.out.put(kind, f) {
		p.mu.Unlock()
		p.ringDoorbell()
		if done != nil {
			done(nil)
		}
		return nil
	}
`,
	},
	{
		Name: "W2 without the load", File: "peer.go", Test: "TestExploreDisarmed",
		At: "W2-load",
		New: `	p.doorbell.ring()
`,
	},
	{
		Name: "W2 without the change", File: "peer.go", Test: "TestExploreDisarmed",
		At: "W2-change",
		New: `	p.doorbell.ring()
`,
	},
	{
		Name: "no R2", File: "poll.go", Test: "TestExplorePoll",
		At: "R2",
		New: `	e.arm()
	return false
`,
	},
	{
		Name: "R2 before R1", File: "poll.go", Test: "TestExplorePoll",
		At: "R2",
		New: `	here := e.flushAndCheck()
	return e.arm() == 0 && here
`,
	},
	{
		Name: "no S1", File: "poll.go", Test: "TestExplorePoll",
		At: "S1",
		New: `		e.progress.Ring(e)
`,
	},
	{
		Name: "S1 after S2", File: "poll.go", Test: "TestExplorePoll",
		At: "S1",
		New: `		e.progress.Ring(e)
		e.box.head.doorbellWord.And(^uint32(wordRung))
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
		Name: "a directly received frame stays", File: "poll.go", Test: "TestExplorePoll",
		At: "C4",
		New: `			if met {
				return true
			}
			if p.in.done(n) {
				p.ringForRoom()
			}
`,
	},
	{
		Name: "a death rings by W2", File: "peer.go", Test: "TestExploreEnd",
		At: "death",
		New: `		p.e.RingDoorbell()
`,
	},
	{
		Name: "a death before the frames of a new peer", File: "poll.go", Test: "TestExploreEnd",
		At:  "death-before-join",
		New: "",
	},
	{
		Name: "a death before the last frames", File: "poll.go", Test: "TestExploreEnd",
		At:  "death",
		New: "",
	},
	{
		Name: "closed after the byte", File: "endpoint_linux.go", Test: "TestExploreEnd",
		At: "close",
		New: `		e.doorbell.ring()
		e.closed.Store(true)
`,
	},
}
