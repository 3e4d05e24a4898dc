// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/deadlock"
	"weft/internal/waits"
)

// A goroutine of the program that waits may act later: the run goes on, and the log reports, once,
// what each rank waits for, and which goroutine that is.
func TestSuspicion(t *testing.T) {
	checkOften(t)
	var log atomic.Pointer[string]
	var records atomic.Int32
	logger := slog.New(slog.NewTextHandler(writerFunc(func(text []byte) {
		s := string(text)
		log.Store(&s)
		records.Add(1)
	}), nil))
	release := make(chan struct{})
	err := Run(context.Background(), Config{Ranks: 2, Logger: logger}, func(c *Comm) error {
		if c.Rank() == 0 {
			go func() {
				<-release // may come, as far as the detector can know
				_ = c.Send(Of([]byte{1}), 1, 0)
				_ = c.Send(Of([]byte{1}), 0, 0)
			}()
			go waits.Service(func() {
				for log.Load() == nil {
					time.Sleep(often)
				}
				time.Sleep(10 * often)
				close(release)
			})()
		}
		_, err := c.Recv(Of(make([]byte, 1)), AnySource, 0)
		return err
	})
	require.NoError(t, err)
	require.EqualValues(t, 1, records.Load(), "%s", *log.Load())
	for _, want := range []string{"level=WARN", "rank 0 waits in Recv at ", "rank 1 waits in Recv at ", "chan receive", "TestSuspicion.func2.1 at ", "suspicion_test.go:"} {
		require.Contains(t, *log.Load(), want)
	}
}

// A suspicion becomes certain when the goroutine that might have acted has ended.
func TestSuspicionBecomesCertain(t *testing.T) {
	hold := make(chan struct{})
	var seen []bool
	err := Run(context.Background(), Config{Ranks: 2, DeadlockWarnings: -1}, func(c *Comm) error {
		if c.Rank() == 0 {
			go func() { <-hold }()
			go waits.Service(func() {
				for c.world.activity() < 2 { // both ranks have posted
					runtime.Gosched()
				}
				inspect := func(certain bool) {
					var found *deadlock.Inspection
					for n := 0; n < 100 && (found == nil || found.Certain != certain); n++ {
						found = (*deadlockHost)(c.world).Inspect()
						runtime.Gosched()
					}
					if found != nil {
						seen = append(seen, found.Certain, strings.Contains(strings.Join(found.Waits, "\n"), "that may act: goroutine "))
					}
				}
				inspect(false)
				close(hold)
				inspect(true)
				c.world.end(errTest)
			})()
		}
		_, err := c.Recv(Of(make([]byte, 1)), AnySource, 0)
		return err
	})
	require.ErrorIs(t, err, errTest)
	require.Equal(t, []bool{false, true, true, false}, seen)
}
