// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"weft/comm/internal/count"
	"weft/comm/internal/mem"
	"weft/comm/internal/wire"

	"github.com/stretchr/testify/require"
)

// Rank 0 of several processes gathers the counters of all. Counters of a rank that is lost, or that
// sends nonsense, are missing, which is logged. The other ranks send theirs.
func TestCountersAreHandedOver(t *testing.T) {
	for _, row := range []struct {
		says1   string
		lose2   bool
		missing []int
	}{{`{"comms":[]}`, false, nil}, {`{"comms":[]}`, true, []int{2}}, {"{", false, []int{1}}, {"{", true, []int{1, 2}}} {
		file := filepath.Join(t.TempDir(), "stats")
		counting(t, EnvStats+"="+file)
		var log bytes.Buffer
		_, c := amongNeighbours(t, 0, Config{Survive: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.proc.count(c)
		say := func(src int32, text string) {
			c.proc.hear(int(src), frameOfHeader(wire.Header{Proto: wire.Eager, Ctx: countersCtx, Elem: mem.Byte, ElemSize: 1, Src: src, Length: uint64(len(text))}, []byte(text)))
		}
		say(1, row.says1)
		if row.lose2 {
			c.proc.markLost(2, errTest)
		} else {
			say(2, "{}")
		}
		require.NoError(t, c.world.sendCounters(c.proc))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var run statsFile
		require.NoError(t, json.Unmarshal(b, &run))
		require.Equal(t, row.missing, run.Missing)
		require.Len(t, run.Communicators, 1)
		for r := range 3 {
			require.Equal(t, btoi(r > 0 && (r == 1 && row.says1 == "{" || r == 2 && row.lose2)), bytes.Count(log.Bytes(), fmt.Appendf(nil, "msg=\"counters are lost\" rank=%d", r)), log.String())
		}
		c.world.end(errTest)
		require.NoError(t, os.Remove(file))
		require.NoError(t, c.world.sendCounters(c.proc), "a run that has failed says enough")
		_, err = os.Stat(file)
		require.ErrorIs(t, err, os.ErrNotExist)

		log.Reset()
		ep, c := amongNeighbours(t, 1, Config{Survive: true, EagerLimit: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.proc.count(c)
		require.NoError(t, c.world.sendCounters(c.proc))
		sent := ep.take()
		require.Len(t, sent, 1)
		require.Equal(t, []uint64{0, countersCtx}, []uint64{uint64(sent[0].dst), sent[0].Head[0]})
		var report count.Report
		require.NoError(t, json.Unmarshal(sent[0].Data, &report))
		require.Len(t, report.Comms, 1)
		require.Equal(t, []int{0, 1, 2}, report.Comms[0].Ranks)
		require.Empty(t, log.String())
		ep.fails = errTest
		require.NoError(t, c.world.sendCounters(c.proc))
		require.Contains(t, log.String(), "msg=\"counters are lost\" rank=1")
	}
}
