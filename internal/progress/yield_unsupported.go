//go:build !linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import "runtime"

// yield yields the processor to other goroutines: Go knows no other processes.
func yield() { runtime.Gosched() }
