// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package sched

// Goid returns zero: on this machine a goroutine is not told from another one.
// Misuse from a foreign goroutine goes unnoticed, and work that a
// worker makes ready from inside a body goes through the injection queue.
func Goid() uintptr { return 0 }
