// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Waiter and finisher agree, whichever comes first.
func TestWaitWord(t *testing.T) {
	var a waitWord
	require.True(t, a.wait())
	require.True(t, a.done())
	var b waitWord
	require.False(t, b.done())
	require.False(t, b.wait())
	for range 1000 {
		var w waitWord
		var waits, wakes bool
		var wg sync.WaitGroup
		wg.Go(func() { waits = w.wait() })
		wg.Go(func() { wakes = w.done() })
		wg.Wait()
		require.Equal(t, waits, wakes)
	}
}
