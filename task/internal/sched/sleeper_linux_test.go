//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A wake-up or a sleep that fails panics. Otherwise the slot would never wake, or never sleep.
func TestSleeperWithoutItsDescriptor(t *testing.T) {
	s := newSleeper()
	if s.f == nil {
		t.Skip("slots sleep in channels here")
	}
	s.close()
	require.PanicsWithValue(t, "task: bug: waking a slot: write weft slot: file already closed", s.wake)
	require.PanicsWithValue(t, "task: bug: a parked slot: read weft slot: file already closed", s.sleep)
}
