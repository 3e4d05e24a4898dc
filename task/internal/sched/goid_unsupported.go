// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package sched

// Goid returns zero: on this machine goroutines are not distinguished. So misuse from a foreign
// goroutine is not detected, and tasks that a body makes ready go through the injection queue.
func Goid() uintptr { return 0 }
