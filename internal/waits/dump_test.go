// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A list is shared until its time is over, and then dropped. The end of one list's time does not
// drop a later list.
func TestDump(t *testing.T) {
	made := 0
	d := NewDump(time.Hour, func() []Goroutine {
		made++
		return Goroutines()
	})
	fresh := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.all != nil
	}
	me := ID()
	for range 3 {
		require.Equal(t, me, d.Shared()[me].ID)
		require.Equal(t, 1, made)
	}
	require.Equal(t, me, d.Now()[me].ID)
	require.Equal(t, 2, made)
	d.forget(1)
	require.False(t, fresh())
	require.NotEmpty(t, d.Shared())
	require.Equal(t, 3, made)
	d.forget(1) // its time is over, and another list has been made since
	require.True(t, fresh())
	d.forget(2)
	require.False(t, fresh())

	d.fresh = time.Microsecond
	require.NotEmpty(t, d.Shared())
	for fresh() {
		runtime.Gosched()
	}
}
