// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package processors

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpare(t *testing.T) {
	old, set := os.LookupEnv("GOMAXPROCS")
	t.Cleanup(func() {
		if set {
			_ = os.Setenv("GOMAXPROCS", old)
		}
	})
	n := runtime.GOMAXPROCS(0)

	t.Setenv("GOMAXPROCS", "7") // the environment prevails
	Spare()
	require.Equal(t, n, runtime.GOMAXPROCS(0))
	require.Equal(t, n, Count())
	Return()
	require.Equal(t, n, runtime.GOMAXPROCS(0))
	require.NoError(t, os.Unsetenv("GOMAXPROCS"))

	for range 2 { // the second call adds nothing
		Spare()
		require.Equal(t, n+1, runtime.GOMAXPROCS(0))
		require.Equal(t, n, Count())
	}
	for range 2 {
		Return()
		require.Equal(t, n, runtime.GOMAXPROCS(0))
		require.Equal(t, n, Count())
	}

	Spare()
	runtime.GOMAXPROCS(n + 3) // set by the program
	require.Equal(t, n+3, Count())
	Return()
	require.Equal(t, n+3, runtime.GOMAXPROCS(0))
	runtime.GOMAXPROCS(n)
}
