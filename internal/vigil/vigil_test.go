// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vigil

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFromEnv(t *testing.T) {
	for text, want := range map[string]time.Duration{"": Default, "2s": Least, "1h": Most, "1500ms": 0, "61m": 0, "10": 0, "soon": 0, "-5s": 0} {
		got, err := FromEnv(func(name string) string {
			require.Equal(t, Env, name)
			return text
		})
		require.Equal(t, want, got, text)
		if want == 0 {
			require.EqualError(t, err, `WEFT_DEAD_AFTER="`+text+`"; it is how long a vanished machine goes unnoticed, a time from 2s to 1h0m0s such as 20s`)
			require.Equal(t, err, Check(text))
		} else {
			require.NoError(t, err, text)
		}
	}
}

// Whatever the time is, and whether or not the system limits silence, the end is noticed in time, but for the grain of a second; and not by one lost probe, if there
// is time for more.
func TestTimes(t *testing.T) {
	require.Equal(t, For(Default), For(0))
	for after := Least; after <= Most; after = after*21/20 + time.Millisecond {
		s := For(after)
		grain := time.Duration(0)
		if after < 8*time.Second {
			grain = time.Second
		}
		require.Less(t, s.Silence, after)
		probes := (s.Silence - s.Idle + s.Interval - 1) / s.Interval // until silence is over
		require.LessOrEqual(t, s.Idle+probes*s.Interval, after+grain, "%v: %+v", after, s)
		require.LessOrEqual(t, s.Idle+time.Duration(s.Count)*s.Interval, after+grain, "%v: %+v", after, s)
		if after >= 5*time.Second {
			require.GreaterOrEqual(t, s.Count, 3, "%v: %+v", after, s)
		}
	}
}
