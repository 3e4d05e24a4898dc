// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

const counterName = "tsc"

// counter reads the time-stamp counter.
func counter() int64

// invariant reports whether the counter runs at one rate in all states of the processor (CPUID
// 80000007H, EDX bit 8).
func invariant() bool

var counterIsGood = invariant()
