// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A goroutine as a line: its head and its innermost call in the program, if there is one.
func TestGoroutineString(t *testing.T) {
	for g, want := range map[string]string{
		"goroutine 7 [select, 2 minutes]:\nnet/http.(*Server).Serve(0x1)\n\t/go/http.go:3 +0x1\nmain.serve(...)\n\t/p/main.go:5 +0x1":                                                "goroutine 7 [select, 2 minutes] main.serve at /p/main.go:5",
		"goroutine 8 [IO wait]:\ninternal/poll.wait(0x1)\n\t/go/poll.go:3 +0x1":                                                                                                      "goroutine 8 [IO wait] internal/poll.wait at /go/poll.go:3",
		"goroutine 9 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:3 +0x1\nexample.com/x.(*T).loop(0x2)\n\t/p/x.go:9 +0x1":                                                                "goroutine 9 [sleep] example.com/x.(*T).loop at /p/x.go:9",
		"goroutine 9 [sleep]:\ntime.Sleep(0x1)\n\t/go/time.go:3 +0x1\n...40 frames elided...\nmain.f(...)\n\t/p/main.go:5 +0x1":                                                      "goroutine 9 [sleep] main.f at /p/main.go:5",
		"goroutine 8 [IO wait]:\ninternal/poll.wait(0x1)\n\t/go/poll.go:3 +0x1\nnet/http.Serve(0x1)\n\t/go/http.go:3 +0x1\ncreated by main.main in goroutine 1\n\t/p/main.go:5 +0x1": "goroutine 8 [IO wait] net/http.Serve at /go/http.go:3, started by main.main at /p/main.go:5",
		"goroutine 9 [sleep]:": "goroutine 9 [sleep]",
	} {
		one := parse(g)
		require.Equal(t, want, one.String())
	}
}

// A slot that sleeps in the standard library, on a goroutine of package ants, is not the program's;
// with a body on it, it is.
func TestSlotIsNotForeign(t *testing.T) {
	const poll, slot, ants = "internal/poll.wait(0x1)\n\t/go/poll.go:3 +0x1\n", "weft/task.(*slot).run(0x1)\n\t/w/slot.go:3 +0x1\n",
		"github.com/panjf2000/ants/v2.(*goWorker).run.func1()\n\t/a/worker.go:3 +0x1"
	for body, foreign := range map[string]bool{"": false, "main.body(0x1)\n\t/p/main.go:3 +0x1\n": true} {
		g := parse("goroutine 7 [IO wait]:\n" + poll + body + slot + ants)
		require.Equal(t, foreign, g.Foreign())
	}
}
