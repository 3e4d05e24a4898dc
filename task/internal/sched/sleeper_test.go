// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"testing"

	"weft/internal/xatomic"
)

// A wake-up is kept until the next sleep, and ends only that. Without a descriptor, a channel does
// the same.
func TestSleeper(t *testing.T) {
	for name, s := range map[string]sleeper{"own": newSleeper(), "channel": {ch: make(xatomic.Chan[struct{}], 1)}} {
		t.Run(name, func(t *testing.T) {
			back := newSleeper()
			for range 100 {
				s.wake()
				s.sleep()
			}
			go func() {
				for range 100 {
					s.sleep()
					back.wake()
				}
			}()
			for range 100 {
				s.wake()
				back.sleep()
			}
			s.close()
			back.close()
		})
	}
}
