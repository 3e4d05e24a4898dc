//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import "weft/internal/xatomic"

// Bounds are small so that programs of the exploration exceed them.
const (
	Width          = 2
	DataMax        = 24
	stagingSize    = 16
	elemMax        = 8
	pollFlat       = 1
	pollSpread     = 1
	pollLarge      = 1
	steadyPolls    = 1 << 10
	spreadInterval = 1 << 12
	yields         = 1
)

type signal = xatomic.Chan[struct{}]

// newWaiter makes a new waiter each time: reuse would depend on earlier orders of steps.
func newWaiter() *waiter { return makeWaiter() }

func (w *waiter) free() {}
