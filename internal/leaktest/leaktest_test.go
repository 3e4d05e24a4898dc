// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package leaktest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// tests is a fake of the tests of a package.
type tests func() int

func (f tests) Run() int { return f() }

func TestGoroutineThatIsLeft(t *testing.T) {
	stop := make(chan struct{})
	over := make(chan struct{})
	start := func() int {
		go func() {
			defer close(over)
			<-stop
		}()
		return 0
	}
	require.Equal(t, 1, Main(tests(start)))
	require.Equal(t, 0, Main(tests(func() int { return 0 })), "a goroutine that was there before")
	require.Equal(t, 3, Main(tests(func() int { return 3 })), "the tests' own failure")
	close(stop)
	<-over
}

func TestAlone(t *testing.T) {
	if Alone(t) {
		go func() { select {} }() // nothing ends it
	}
}
