//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "time"

// VisibleMutex is a Mutex that the race detector sees in lint mode, too.
type VisibleMutex = Mutex

// Timer calls a function once for each start, at any time after.
type Timer struct{ f func() }

// NewTimer returns a timer that calls f.
func NewTimer(f func()) Timer { return Timer{f} }

// Start has the function called.
func (t Timer) Start(time.Duration) { Go(t.f) }

// Stop does nothing.
func (t Timer) Stop() {}
