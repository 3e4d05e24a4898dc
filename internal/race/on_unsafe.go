// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race && !explore

package race

import (
	"runtime"
	"unsafe"
)

// Lint says that the program is built for lint mode.
const Lint = true

// Acquire makes the caller come after all that have released p.
func Acquire[T any](p *T) { runtime.RaceAcquire(unsafe.Pointer(p)) }

// Release makes what the caller has done come before all that acquire p later.
func Release[T any](p *T) { runtime.RaceReleaseMerge(unsafe.Pointer(p)) }

// Hide keeps what the caller does with channels, locks and the like from the race detector, until
// Show.
func Disable() { runtime.RaceDisable() }

// Show ends that.
func Enable() { runtime.RaceEnable() }
