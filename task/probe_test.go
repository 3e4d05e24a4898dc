// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/event"
	"weft/trace"
)

// All observers watch one program at once, and each reports what it reports alone.
func TestAllObserversAtOnce(t *testing.T) {
	k := &kept{}
	rec, err := event.New(event.Options{Sinks: []event.Sink{k}})
	require.NoError(t, err)
	rt := newTestRuntime(t, Config{Workers: 1, Debug: true, Watchdog: time.Minute, Trace: (*trace.Recorder)(rec)})
	var x, y, rounds int
	var list []TaskInfo
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.SpawnWith(Attrs{Label: "gives"}, func(t *Task) error {
			x++
			if err := t.Release(deps.In(&x)); err == nil {
				return errors.New("a Release that names another mode is not refused")
			}
			t.Uses(deps.InOut(&x)) // it has x still
			if err := t.Release(deps.InOut(&x)); err != nil {
				return err
			}
			if panicOf(func() { t.Uses(deps.InOut(&x)) }) == "" {
				return errors.New("debug mode does not know of the Release")
			}
			return nil
		}, deps.InOut(&x))
		t.Iterate(3, func(it *Iteration) error {
			it.Spawn(func(*Task) error { rounds++; return nil }, deps.InOut(&y))
			return nil
		}, deps.InOut(&y))
		if panicOf(func() { t.Spawn(nothing, deps.In(&x), deps.Access{}) }) == "" {
			return errors.New("an access of nothing is not refused")
		}
		if err := t.WaitOn(deps.In(&x)); err != nil {
			return err
		}
		list, _ = rt.Tasks()
		return t.Wait()
	}))
	require.Equal(t, []int{1, 3}, []int{x, rounds})
	require.NotEmpty(t, list)
	require.Equal(t, TaskRunning, list[0].State)
	require.NoError(t, rt.Close())
	require.NoError(t, rec.Close())
	seen := map[event.Kind]int{}
	for _, recs := range k.recs {
		for _, r := range recs {
			seen[r.Kind()]++
		}
	}
	require.Equal(t, 1, seen[event.Refused])
	require.Equal(t, 2, seen[event.Again], "of three rounds")
	require.Equal(t, seen[event.Started]+seen[event.Skipped], seen[event.Ended])
}
