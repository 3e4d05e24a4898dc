// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package friend has the doors between the public packages of this module that users do not have.
// The package that owns a thing sets its functions when the program starts, and never again; a
// caller has a value of that package, so they are set by then. All may be called concurrently.
package friend

import "weft/internal/event"

// Where a *comm.Comm, a *comm.Request or a *rma.Win records what happens to it: nil if it is not
// recorded.
var (
	EventsOfComm    func(c any) *event.Shared
	EventsOfRequest func(r any) *event.Shared
	EventsOfWin     func(w any) *event.Shared
)

// Record gives a *comm.Request of comm.NewRequestFor, which nobody else has yet, a number, so that
// its completion is recorded.
var Record func(r any, events *event.Shared)
