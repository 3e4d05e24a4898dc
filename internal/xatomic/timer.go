//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"math"
	"sync"
	"time"
)

// VisibleMutex is a Mutex that the race detector sees in lint mode, too.
type VisibleMutex = sync.Mutex

// Timer calls a function once for each start.
type Timer struct{ t *time.Timer }

// NewTimer returns a timer that calls f.
func NewTimer(f func()) Timer {
	t := time.AfterFunc(math.MaxInt64, f)
	t.Stop()
	return Timer{t}
}

// Start has the function called after a wait.
func (t Timer) Start(wait time.Duration) { t.t.Reset(wait) }

// Stop takes Start back, if it is not too late.
func (t Timer) Stop() { t.t.Stop() }
