// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package tampi

import (
	"runtime"
	"unsafe"

	"weft/internal/xatomic"
)

// In lint mode the race detector does not see this package's atomic operations (task.LintPackages), so the order that a binding makes is said to it: who
// completes comes before a task that finds this done.

func tell(state *xatomic.Uint32) { runtime.RaceReleaseMerge(unsafe.Pointer(state)) }
func hear(state *xatomic.Uint32) { runtime.RaceAcquire(unsafe.Pointer(state)) }
