// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race && !explore

package race

import (
	"runtime"
	"unsafe"
)

// Lint reports whether the program is built for lint mode.
const Lint = true

// Acquire orders the caller after everything that was released with p.
func Acquire[T any](p *T) { runtime.RaceAcquire(unsafe.Pointer(p)) }

// Release orders the caller's actions so far before all later acquires of p.
func Release[T any](p *T) { runtime.RaceReleaseMerge(unsafe.Pointer(p)) }

// Disable hides the caller's operations on channels, locks and the like from the race detector,
// until Enable.
func Disable() { runtime.RaceDisable() }

// Enable ends Disable.
func Enable() { runtime.RaceEnable() }
