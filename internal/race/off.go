// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !weftlint || !race || explore

package race

// Lint says that the program is built for lint mode: with the race detector, of which the packages
// of the runtime are left out.
const Lint = false

// Acquire makes the caller come after all that have released p.
func Acquire[T any](*T) {}

// Release makes what the caller has done come before all that acquire p later.
func Release[T any](*T) {}

// Hide keeps what the caller does with channels, locks and the like from the race detector, until
// Show.
func Disable() {}

// Show ends that.
func Enable() {}
