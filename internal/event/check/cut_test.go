// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/journal"
)

// The file of a killed program may have the records of some sources and lack earlier records of
// others. Wherever the file is cut, the error says so, and missing records cause no findings. A
// mistake long before the cut is still found.
func TestFilesThatAreCut(t *testing.T) {
	write := func(mistake bool) string {
		file := filepath.Join(t.TempDir(), "run.weft")
		j, err := journal.Create(file, journal.Head{Rank: -1, Ranks: 1})
		require.NoError(t, err)
		rec, err := event.New(event.Options{Sinks: []event.Sink{j}, Every: time.Hour})
		require.NoError(t, err)
		// Sources are written in the order in which they were made: ends come before begins.
		ends, begins := rec.Ring(event.Location{Kind: event.RankLocation, Group: 1, Index: 1}), rec.Ring(event.Location{Kind: event.RankLocation, Group: 1})
		second := int64(1e9 / (float64(rec.Clock().Span(1e9)) / 1e9))
		at := event.Ticks() - second
		if mistake {
			ends.Put(at, event.RequestDone, 99, 0, 0)
		}
		for id := range uint64(8) {
			at++
			begins.Put(at, event.CollectiveBegun, id+1, 0, id<<32)
			ends.Put(at+1, event.RequestDone, id+1, 0, 0)
			if id == 3 {
				require.NoError(t, rec.Flush())
				at = event.Ticks()
			}
		}
		require.NoError(t, rec.Close())
		return file
	}
	for _, mistake := range []bool{false, true} {
		file := write(mistake)
		whole, err := os.ReadFile(file)
		require.NoError(t, err)
		_, _, err = Files(Options{}, file)
		require.Equal(t, mistake, err != nil, "%v", err)
		cut, found := file+".cut", 0
		for n := 0; n < len(whole); n += 5 {
			require.NoError(t, os.WriteFile(cut, whole[:n], 0o600))
			_, _, err := Files(Options{}, cut)
			if err == nil {
				t.Fatalf("%d of %d bytes are taken for a whole file", n, len(whole))
			}
			if n < 16 {
				require.ErrorIs(t, err, journal.ErrFormat)
				continue
			}
			require.ErrorIs(t, err, journal.ErrCut, fmt.Sprint(n))
			require.NotContains(t, err.Error(), "request 5", "cut at %d of %d", n, len(whole))
			if mistake {
				require.NotContains(t, err.Error(), "request 1:", "cut at %d of %d", n, len(whole))
				if strings.Contains(err.Error(), "request 99 is not pending") {
					found++
				}
				continue
			}
			require.NotContains(t, err.Error(), "is complete", "cut at %d of %d", n, len(whole))
		}
		require.Equal(t, mistake, found > 0, "found in %d cuts", found)
	}
}
