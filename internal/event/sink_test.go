// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// failingSink fails at one of its calls, and counts them.
type failingSink struct {
	at   string
	err  error
	idle int
}

func (k *failingSink) result(at string) error {
	if k.at == at {
		return k.err
	}
	return nil
}

func (k *failingSink) Begin(*Recorder)          {}
func (k *failingSink) Events(*Source, []Record) {}
func (k *failingSink) Flush(Moment) error       { return k.result("flush") }
func (k *failingSink) Idle() error              { k.idle++; return k.result("idle") }
func (k *failingSink) Close() error             { return k.result("close") }

// The first error of a sink is kept, whichever call returned it: from then on, Flush and Close
// return it each time. A recording is idle when the last part of the program has detached.
func TestSinksThatFail(t *testing.T) {
	for _, at := range []string{"", "flush", "idle", "close"} {
		k := &failingSink{at: at, err: errors.New(at)}
		rec, err := New(Options{Sinks: []Sink{k}, Every: 1 << 40})
		require.NoError(t, err)
		rec.Attach()
		rec.Attach()
		rec.Detach()
		require.Zero(t, k.idle, "one part of two is attached")
		rec.Detach()
		require.Equal(t, 1, k.idle)
		require.Equal(t, at == "flush" || at == "idle", errors.Is(rec.Flush(), k.err), at)
		for range 2 {
			require.Equal(t, at != "", errors.Is(rec.Close(), k.err), at)
		}
		require.Equal(t, at != "", errors.Is(rec.Flush(), k.err), "after the end, %s", at)
		rec.Attach()
		rec.Detach()
		require.Equal(t, 1, k.idle, "the recording is over")
	}
}

// Parts of the program that attach and detach concurrently are all counted: the recording is idle
// when none is left.
func TestUsersHammer(t *testing.T) {
	const parts, times = 4, 1000
	k := &failingSink{}
	rec, err := New(Options{Sinks: []Sink{k}, Every: 1 << 40})
	require.NoError(t, err)
	rec.Attach()
	var wg sync.WaitGroup
	for range parts {
		wg.Go(func() {
			for range times {
				rec.Attach()
				rec.Detach()
			}
		})
	}
	wg.Wait()
	require.Zero(t, k.idle, "one part is attached")
	rec.Detach()
	require.Equal(t, 1, k.idle)
	require.NoError(t, rec.Close())
}
