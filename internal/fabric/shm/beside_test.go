//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

type mute struct{}

func (mute) Deliver(int, fabric.Frame) {}
func (mute) Lost(int, error)           {}

// Who waits has others' messages looked for, too; the sleeper has not.
func TestBeside(t *testing.T) {
	eps := openAll(t, 2, nil)
	woken := make(chan struct{}, 1)
	n := 0
	eps[0].Beside(func() bool {
		if n++; n == 5 {
			woken <- struct{}{} // a message of another fabric
		}
		return n == 3
	})
	eps[0].Bind(mute{})
	eps[1].Bind(mute{})
	for len(woken) == 0 { // Look looks for a short time only
		eps[0].Look(woken, false)
	}
	require.Equal(t, 5, n)
	require.True(t, eps[0].enter())
	eps[0].look(nil, 0) // as the sleeper does
	require.Equal(t, 5, n)
}

// The sleeper makes way for a goroutine that polls in a loop.
func TestSleeperMakesWay(t *testing.T) {
	eps := openAll(t, 2, nil)
	for range 20 {
		e := eps[0]
		over := make(chan struct{})
		require.True(t, e.enter())
		e.wanted.Store(false)
		e.up.Store(true)
		go func() {
			defer close(over)
			e.look(nil, time.Hour)
		}()
		for open := true; open; {
			e.Poll(1)
			select {
			case <-over:
				open = false
			default:
			}
		}
		e.up.Store(false)
	}
}
