// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/deadlock"
	"weft/comm/internal/wire"
	"weft/internal/waits"
)

// Deadlocks are reported to the log, or on the standard error if there is none.
func TestDeadlockIsReported(t *testing.T) {
	ranks := []string{"rank 0 waits", "a task waits"}
	for _, logs := range []bool{false, true} {
		var log, out bytes.Buffer
		defer func(w io.Writer) { stderr = w }(stderr)
		stderr = &out
		cfg := Config{DeadlockWarnings: 3}
		if logs {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}
		_, c := amongNeighbours(t, 0, cfg)
		h := (*deadlockHost)(c.world)
		h.Remains()
		h.Suspect(ranks, time.Second)
		if logs {
			require.Contains(t, log.String(), "level=WARN")
			require.Contains(t, log.String(), `for=1s ranks="rank 0 waits\na task waits"`)
			h.Warn(2, ranks, time.Second)
			require.Contains(t, log.String(), `nothing is under way" warning=2 of=3 ranks="deadlock: all ranks wait, and nothing is under way for 1s:\nrank 0 waits\na task waits"`)
			require.Empty(t, out.String())
		} else {
			require.Equal(t, "weft: for 1s all ranks wait, and nothing is under way: a deadlock, unless a goroutine of the program acts:\nrank 0 waits\na task waits\n", out.String())
		}
		out.Reset()
		h.End(ranks, 2*time.Second)
		d := &DeadlockError{Ranks: ranks, For: 2 * time.Second}
		require.Equal(t, "deadlock: all ranks wait, and nothing is under way for 2s:\nrank 0 waits\na task waits", d.Error())
		require.Equal(t, d, c.world.aborted.Load().cause)
		h.Remains()
		require.Equal(t, map[bool]string{false: fmt.Sprintf("weft: %v\nThe run is ended, but some ranks do not return.\n", d)}[logs], out.String())
	}
	require.ErrorIs(t, &DeadlockError{}, ErrDeadlock)
	require.NotErrorIs(t, &DeadlockError{}, ErrAborted)
	require.ErrorIs(t, &remoteDeadlock{"x"}, ErrDeadlock)
	require.NotErrorIs(t, &remoteDeadlock{"x"}, ErrAborted)
	require.True(t, waits.Explained(&DeadlockError{}))
	require.True(t, waits.Explained(fmt.Errorf("it: %w", &remoteDeadlock{"x"})))
}

// A launcher ends the job, and with it the run. If the launcher cannot be reached, the run ends by
// itself.
func TestLauncherEndsTheJob(t *testing.T) {
	for _, lost := range []error{nil, errors.New("it is gone")} {
		_, c := amongNeighbours(t, 0, Config{})
		var text string
		c.world.reportDeadlock = func(s string) error { text = s; return lost }
		(*deadlockHost)(c.world).End([]string{"rank 0 waits"}, time.Second)
		require.Equal(t, "deadlock: all ranks wait, and nothing is under way for 1s:\nrank 0 waits", text)
		require.Equal(t, lost != nil, c.world.aborted.Load() != nil)
	}
}

// The frames to rank 0 and from it, which are not counted. Texts are bounded.
func TestDeadlockFrames(t *testing.T) {
	ep, c := amongNeighbours(t, 1, Config{})
	h := (*deadlockHost)(c.world)
	long := strings.Repeat("x", maxReason)
	for state, found := range []*deadlock.Inspection{nil, {Certain: true, Waits: []string{"x", "y"}, Sent: 7, Here: 9}, {Waits: []string{long[1:], "yz"}, Sent: 1 << 40, Here: 1}} {
		h.SendReport(uint64(4*state), found)
		sent := ep.take()
		require.Len(t, sent, 1)
		require.Zero(t, sent[0].dst)
		want := frameOf(wire.BlockedReport, 0, uint64(4*state))
		if found != nil {
			want = frameOf(wire.BlockedReport, 0, uint64(4*state), uint64(found.Sent), uint64(found.Here), 0, uint64(state))
			require.Equal(t, map[bool]string{true: "x\ny", false: long[1:] + "\n"}[found.Certain], string(sent[0].Data))
		}
		require.Equal(t, want.Head, sent[0].Head)
	}

	ep, c = amongNeighbours(t, 0, Config{})
	(*deadlockHost)(c.world).SendQuery(7)
	for i, f := range ep.take() {
		require.Equal(t, i+1, f.dst)
		require.Equal(t, frameOf(wire.BlockedQuery, 0, 7).Head, f.Head)
	}
	require.Zero(t, c.proc.traffic.sent.Load(), "to ask changes nothing")
	c.proc.hear(1, frameOf(wire.BlockedQuery, 0, 3))
	c.proc.hear(2, frameOf(wire.BlockedReport, 0, 3))
	require.Zero(t, c.proc.traffic.received.Load())

	_, c = amongNeighbours(t, 1, Config{DeadlockWarnings: -1})
	require.Nil(t, c.world.detector)
	c.proc.hear(0, frameOf(wire.BlockedQuery, 0, 3)) // detection is off at this rank
	c.world.startDetector()()
}
