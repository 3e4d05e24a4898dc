// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutcomes(t *testing.T) {
	load := Workload{
		Name: "a/b", Unit: "ns",
		Goals: []Goal{
			{Workers: 2, RivalWorkers: 2, Ratio: 0.5},
			{Workers: 1, RivalWorkers: 2, Ratio: 1.5},
			{Workers: 1, RivalWorkers: 1, Against: "red", Ratio: 1},
			{Workers: 4, RivalWorkers: 4, Ratio: 1}, // was not measured
		},
		Peers: []Peer{{Name: Ours}, {Name: "byhand"}, {Name: "red", Rival: true}, {Name: "blue", Rival: true}, {Name: "wrong", Rival: true}},
	}
	row := func(peer string, workers int, median float64) Row {
		return Row{Name: "a/b", Peer: peer, Workers: workers, Ranks: 1, Size: 7, Unit: "ns", Median: median, Runs: 1, OK: peer != "wrong"}
	}
	rows := []Row{
		row(Ours, 1, 60), row("byhand", 1, 1), row("red", 1, 70), row("blue", 1, 10), row("wrong", 1, 1),
		row(Ours, 2, 90), row("byhand", 2, 1), row("red", 2, 150), row("blue", 2, 30), row("wrong", 2, 1),
		{Name: "other", Peer: "blue", Workers: 2, Size: 7, Median: 1, OK: true},
	}
	got := Outcomes(rows, []Workload{load})
	require.Len(t, got, 3)
	require.Equal(t, "blue", got[0].Rival)
	require.Equal(t, []string{"red", "blue"}, got[0].Rivals)
	require.InDelta(t, 3, got[0].Reached(), 1e-9)
	require.False(t, got[0].Met())
	require.InDelta(t, 2, got[1].Reached(), 1e-9)
	require.False(t, got[1].Met())
	require.Equal(t, "red", got[2].Rival)
	require.True(t, got[2].Met())
	require.Empty(t, Outcomes(rows[:1], []Workload{load}), "no rival was measured")

	for _, sizes := range [][]int64{{10, 100, 1000}, {1000, 10, 100}, {100, 1000, 10}} {
		var rows []Row
		for _, size := range sizes {
			median := map[int64]float64{10: 50, 100: 40, 1000: 48}[size]
			rows = append(rows, Row{Name: "a/b", Peer: Ours, Workers: 2, Size: size, Median: median, OK: true},
				Row{Name: "a/b", Peer: Ours, Workers: 1, Size: size, Median: 1, OK: true}, Row{Name: "a/b", Peer: "red", Workers: 2, Size: size, Median: 1, OK: true})
		}
		grown := Outcomes(rows, []Workload{{Name: "a/b", Unit: "ns", Goals: []Goal{{Workers: 2, Growth: true, Ratio: 1.25}}}})
		require.Len(t, grown, 1)
		require.Equal(t, []any{int64(1000), "weft at 100"}, []any{grown[0].Size, grown[0].Rival})
		require.InDelta(t, 1.2, grown[0].Reached(), 1e-9)
		require.True(t, grown[0].Met())
	}
	compared := []Workload{{Name: "a/b", Goals: []Goal{{Workers: 2, Growth: true, GrowthOf: "map", Ratio: 1}}}}
	grown := []Row{
		{Name: "a/b", Peer: Ours, Workers: 2, Size: 1, Median: 100, OK: true}, {Name: "a/b", Peer: "map", Workers: 2, Size: 1, Median: 10, OK: true},
		{Name: "a/b", Peer: Ours, Workers: 2, Size: 9, Median: 160, OK: true}, {Name: "a/b", Peer: "map", Workers: 2, Size: 9, Median: 40, OK: true},
	}
	outcomes := Outcomes(grown, compared)
	require.Len(t, outcomes, 1)
	require.Equal(t, []float64{60, 30, 2}, []float64{outcomes[0].Ours, outcomes[0].RivalMedian, outcomes[0].Reached()})
	require.Contains(t, outcomes[0].cells(), "map +30.00")
	require.Empty(t, Outcomes(grown[:3], compared), "the peer has one size only")
	grown[3].Median = 5
	require.Empty(t, Outcomes(grown, compared), "the peer does not grow")
	require.Empty(t, Outcomes(rows, []Workload{{Name: "a/b", Goals: []Goal{{Workers: 2, Growth: true, Ratio: 1}}}}), "there is one size only")

	var out bytes.Buffer
	require.NoError(t, WriteOutcomes(&out, got))
	require.Equal(t, `name  size  weft      workers  best rival  workers  of         ratio  goal  met
a/b   7     90.00 ns  2        blue 30.00  2        red, blue  3.000  0.5   NO
a/b   7     60.00 ns  1        blue 30.00  2        red, blue  2.000  1.5   NO
a/b   7     60.00 ns  1        red 70.00   1        red        0.857  1     yes
`, out.String())
	out.Reset()
	require.NoError(t, WriteOutcomesMarkdown(&out, got))
	require.Contains(t, out.String(), "\n| a/b | 7 | 60.00 ns | 1 | red 70.00 | 1 | red | 0.857 | 1 | yes |\n")
}
