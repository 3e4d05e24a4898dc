// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A goroutine in a line: its head, and where it waits, in the program if that can be told.
func TestGoroutineString(t *testing.T) {
	for g, want := range map[string]string{
		"goroutine 7 [select, 2 minutes]:\nnet/http.(*Server).Serve(0x1)\n\t/go/http.go:3 +0x1\nmain.serve(...)\n\t/p/main.go:5 +0x1": "goroutine 7 [select, 2 minutes] main.serve at /p/main.go:5",
		"goroutine 8 [IO wait]:\ninternal/poll.wait(0x1)\n\t/go/poll.go:3 +0x1":                                                       "goroutine 8 [IO wait] internal/poll.wait at /go/poll.go:3",
		"goroutine 9 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:3 +0x1\nexample.com/x.(*T).loop(0x2)\n\t/p/x.go:9 +0x1":                 "goroutine 9 [sleep] example.com/x.(*T).loop at /p/x.go:9",
		"goroutine 9 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:3 +0x1\n...40 frames elided...\nmain.f(...)\n\t/p/main.go:5 +0x1":       "goroutine 9 [sleep] main.f at /p/main.go:5",
		"goroutine 9 [sleep]:": "goroutine 9 [sleep]",
	} {
		one := parse(g)
		require.Equal(t, want, one.String())
	}
}
