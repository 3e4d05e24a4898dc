// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package tampi

import (
	"runtime"
	"unsafe"
)

// In lint mode the race detector does not see this package's atomic operations (task.LintPackages), so the order that a binding makes is said to it: who
// completes comes before a task that finds this done.

func (b *binding) tell() { runtime.RaceReleaseMerge(unsafe.Pointer(b)) }
func (b *binding) hear() { runtime.RaceAcquire(unsafe.Pointer(b)) }
