//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"math"
	"time"
)

// timer calls a function once for each start.
type timer struct{ t *time.Timer }

func newTimer(f func()) timer {
	t := time.AfterFunc(math.MaxInt64, f)
	t.Stop()
	return timer{t}
}

func (t timer) start(wait time.Duration) { t.t.Reset(wait) }
func (t timer) stop()                    { t.t.Stop() }
