// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package check replays recorded events through the legal states of tasks, slots, requests and
// windows, and reports what could not have happened. Integration tests use it as their oracle;
// "weft trace check" is it.
//
//	c := check.New(check.Options{})
//	for e := range … { c.Event(e) }
//	c.End()
//	err := c.Err()
//
// # Tasks
//
//	waiting   spawned, again                 until ready
//	ready     ready, or spawned as such      until prepared, started, skipped
//	prepared  its OnReady has been called    until ready
//	running   it is what its slot runs       until blocked, ended, or another one starts on top of it
//	blocked   it has no slot                 until both unblocked and resumed; unblocked may come first
//	ended     its body is over               until completed, which needs all events and children over
//	over      nothing may name it any more
//
// # Slots
//
//	free      nobody holds it                until slot-taken
//	held      a goroutine does               until slot-given, parked; what runs on it is a stack, by outer
//	parked    it has no work                 until unparked
//
// # Requests
//
//	posted    until matched, if it receives, or done
//	done
//
// A message that is matched has been sent, by whichever process: of those with one communicator,
// sender, receiver and tag, never more are matched than were sent. Where the file of the sender is
// missing, or how its clock stands is not known, that is not checked.
//
// # Windows
//
//	made      window-made                    until the fence of its Free is complete, and window-freed
//	freed     only window-removed may follow, once
//
// A window is judged at each rank. Its fences are called, and are complete, in the order of the
// epochs that they close: 1, 2, … Epoch n is open from the call of fence n-1, if that says so,
// until fence n is complete. An operation names an epoch that is open, is done once, and is so
// before the epoch is closed. An epoch is durable once, after the call of its fence and before its
// completion.
//
// # Order
//
// Events come in the order of their times, and those of different sources may be exchanged by what
// the clocks differ. So an event that is not legal waits for what could make it so, for Slack; only
// then it is a finding.
//
// # Losses
//
// When events have been lost, what is not known may have happened: then it is only checked that
// what is over stays over and that numbers are given once. [Checker.Partial] tells.
//
// A Checker belongs to one goroutine.
package check
