// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !weftlint || !race || explore

package race

// Lint reports whether the program is built for lint mode: with the race detector, which leaves out
// the packages of the runtime.
const Lint = false

// Acquire orders the caller after everything that was released with p.
func Acquire[T any](*T) {}

// Release orders the caller's actions so far before all later acquires of p.
func Release[T any](*T) {}

// Disable hides the caller's operations on channels, locks and the like from the race detector,
// until Enable.
func Disable() {}

// Enable ends Disable.
func Enable() {}
