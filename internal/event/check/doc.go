// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package check replays trace records through the legal states of tasks, slots, requests and
// windows, and reports records that cannot have happened. It is the oracle of integration tests,
// and the command "weft trace check".
//
//	c := check.New(check.Options{})
//	for e := range … { c.Event(e) }
//	c.End()
//	err := c.Err()
//
// # Tasks
//
//	         ready           started, skipped           ended           completed
//	waiting ───────> ready ────────────────────> running ─────> ended ───────────> over
//	                 │   ^                       │     ^
//	        prepared │   │ ready         blocked │     │ unblocked, resumed
//	                 v   │                       v     │
//	                prepared                     blocked
//
//	waiting   from spawned or again; until ready
//	ready     from ready, or from spawned with that flag; until prepared, started or skipped
//	prepared  its OnReady has been called; until ready
//	running   on the stack of a slot; until blocked or ended. Another task may start on top of it
//	blocked   without a slot; until unblocked and resumed. unblocked may come first
//	ended     its body has returned; until completed, which needs all its events and children over
//	over      no record may refer to it any more
//
// # Slots
//
//	free      no goroutine holds it; until slot-taken
//	held      a goroutine holds it, with a stack of tasks by outer; until slot-given or parked
//	parked    it has no work; until unparked
//
// # Requests
//
//	posted    until matched, if it receives, and then request-done
//	done
//
// A matched message must have been sent, in whichever process: for each communicator, sender,
// receiver and tag, no more messages are matched than were sent. This is not checked if the file of
// the sender is missing, or if the difference of the clocks is unknown.
//
// # Windows
//
//	made      from window-made; until the fence of its Free is complete, and window-freed
//	freed     only window-removed may follow, once
//
// A window is checked at each rank. Its fences are called, and complete, in the order of the epochs
// that they close: 1, 2, … Epoch n is open from the call of fence n-1, if that fence opens it,
// until fence n is complete. An operation names an open epoch, and is done once, before the epoch
// is closed. An epoch is durable once, between the call of its fence and its completion.
//
// # Order
//
// Records arrive in the order of their times. Clocks differ, so records of different sources may be
// exchanged. So an illegal record is deferred for Slack: if another record makes it legal by then,
// it is no finding.
//
// # Losses
//
// If records were lost, the missing ones may have been legal causes. Then only two rules are
// checked: nothing follows for a task that is over, and a number is given to one task only. Files
// reports whether that is so.
//
// A Checker belongs to one goroutine.
package check
