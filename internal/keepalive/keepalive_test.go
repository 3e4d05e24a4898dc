// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"testing"
	"time"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// A vanished peer is detected in time, up to rounding to a second, whether or not the system limits
// silence. One lost probe is not enough if there is time for more.
func TestTimes(t *testing.T) {
	require.Equal(t, For(env.DefaultDeadAfter), For(0))
	for after := 2 * time.Second; after <= time.Hour; after = after*21/20 + time.Millisecond {
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
