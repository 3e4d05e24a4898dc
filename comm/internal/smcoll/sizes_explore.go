//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import "weft/internal/xatomic"

// Bounds are small, so that what is behind them is soon reached.
const (
	Width       = 2
	DataMax     = 24
	windowSize  = 16
	elemMax     = 8
	watchFlat   = 1
	watchParted = 1
	watchLarge  = 1
	longFound   = 1 << 10
	seldom      = 1 << 12
	yields      = 1
)

type signal = xatomic.Chan[struct{}]

// Waiters are not used again, so that each order of the same steps has the same ones.
func newWaiter() *waiter { return makeWaiter() }

func (w *waiter) free() {}
