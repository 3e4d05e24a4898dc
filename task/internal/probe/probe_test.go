// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/leaktest"
	"weft/internal/race"
)

func TestMain(m *testing.M) { os.Exit(leaktest.Main(m)) }

// A runtime has a probe if there is an observer, and only the observers that are on keep notes.
func TestNew(t *testing.T) {
	if race.Lint {
		t.Skip("lint mode is one more observer in each case")
	}
	rec, err := event.New(event.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rec.Close()) }()
	var x int
	accs := []chain.Access{chain.Object(&x, chain.ModeInOut)}
	for name, row := range map[string]struct {
		cfg                      Config
		watched, audited, traced bool
	}{
		"none":      {},
		"watchdog":  {Config{Watchdog: time.Hour, Reports: new(bytes.Buffer), Acquire: func() {}}, true, false, false},
		"debug":     {Config{Debug: true, Logger: slog.Default()}, false, true, false},
		"recording": {Config{Trace: rec, Bounds: func() (lo, hi uintptr) { return 1, 2 }}, false, false, true},
	} {
		row.cfg.Slots = 3
		off, slots := New(row.cfg)
		require.Equal(t, !row.watched && !row.audited && !row.traced, off == nil, name)
		if off == nil {
			require.Empty(t, slots)
			continue
		}
		require.Len(t, slots, 3, name)
		off.Open()
		require.Nil(t, off.Ev, "a probe without a slot")
		require.Equal(t, row.traced, off.NewID() != 0, name)
		for _, p := range slots {
			require.Equal(t, row.traced, p.Ev != nil, name)
			require.Equal(t, row.traced, p.NewID() != 0, name)
			require.Equal(t, row.watched || row.audited, p.Keeps(), name)
			require.Equal(t, row.audited, p.Audits(), name)
			if !p.Keeps() {
				continue
			}
			main := p.Enter(Notes{}, &Spawn{At: -1}, nil)
			child := p.Enter(main, &Spawn{At: 1}, accs)
			last := p.Enter(main, &Spawn{At: 1, NoBody: true}, accs)
			for _, n := range []Notes{main, child, last} {
				require.Equal(t, row.watched, n.Watched != nil, name)
			}
			require.Equal(t, row.audited, child.Audited != nil, name)
			require.Nil(t, last.Audited, "debug mode keeps nothing of a task without a body")
			require.NoError(t, p.MayRun(child))
			require.NoError(t, p.Begins(child))
			other := []chain.Access{chain.Object(new(int), chain.ModeIn)}
			require.Empty(t, p.CheckUse(child, accs))
			require.Equal(t, row.audited, p.CheckUse(child, other) != "", name)
			if row.watched {
				require.Len(t, p.Watch.Tasks(), 3)
			}
			p.Returns(child)
			p.Finishes(child, false)
			for _, n := range []Notes{child, last, main} {
				p.Over(n, false)
			}
			if row.watched {
				require.Empty(t, p.Watch.Tasks())
			}
		}
		off.Stop()
		off.Close()
	}
}
