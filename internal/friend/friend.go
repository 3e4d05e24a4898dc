// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package friend holds functions by which the public packages of this module reach into each other,
// hidden from users. The package that owns a type sets its functions in its initialisation, and
// they never change. A caller holds a value of that package, so the functions are set by then. All
// may be called concurrently.
package friend

import "weft/internal/event"

// The recorder of trace events of a *comm.Comm, a *comm.Request or a *rma.Win; nil if it is not
// recorded.
var (
	EventsOfComm    func(c any) *event.Shared
	EventsOfRequest func(r any) *event.Shared
	EventsOfWin     func(w any) *event.Shared
)

// Record numbers a *comm.Request made by comm.NewRequestFor, so that its completion is recorded.
// The caller must not have passed the request on yet.
var Record func(r any, events *event.Shared)
