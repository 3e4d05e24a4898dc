// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race && !explore

package task

import (
	"runtime"
	"unsafe"
)

// lintBuild says that the program is built for lint mode: with the race detector, of which LintPackages are left out.
const lintBuild = true

// acquire makes the caller come after all who have released p.
func acquire[T any](p *T) { runtime.RaceAcquire(unsafe.Pointer(p)) }

// release makes what the caller has done come before all who acquire p later.
func release[T any](p *T) { runtime.RaceReleaseMerge(unsafe.Pointer(p)) }

// hide keeps what the caller does with channels, locks and the like from the race detector, until show.
func hide() { runtime.RaceDisable() }

func show() { runtime.RaceEnable() }
