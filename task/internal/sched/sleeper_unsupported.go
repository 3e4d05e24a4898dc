//go:build !linux || explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import "weft/internal/xatomic"

// sleeper is what the holder of a parked slot sleeps on. At most one wake-up is pending: before
// each, the waker has taken the slot off the list of parked slots.
type sleeper struct{ ch xatomic.Chan[struct{}] }

func newSleeper() sleeper { return sleeper{make(xatomic.Chan[struct{}], 1)} }

// wake ends the sleep under way, or the next one.
func (s *sleeper) wake() { s.ch.Send(struct{}{}) }

// sleep returns when wake has been called.
func (s *sleeper) sleep() { s.ch.Recv() }
func (s *sleeper) close() {}
