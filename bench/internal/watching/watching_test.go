// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each way runs the graph, and the answer is checked.
func TestWaysMeasure(t *testing.T) {
	names := map[string]bool{}
	for _, w := range Ways() {
		r, err := w.Measure(t.Context(), time.Nanosecond)
		require.NoError(t, err, w.Name)
		require.Equal(t, 3, r.Sweeps)
		require.Positive(t, r.PerTask)
		require.GreaterOrEqual(t, r.Lost, 0.0)
		require.True(t, w.Base == "" || names[w.Base], "%s is compared with %s", w.Name, w.Base)
		names[w.Name] = true
	}
}

// The program without the probe is built from this source without any test for a probe.
func TestWithoutProbe(t *testing.T) {
	s, n := withoutProbe("if s.probe != nil {\ncase s != nil && s.probe != nil:\nif t.run.rt.probe == nil {\nx.events != nil; s.evil != nil")
	require.Equal(t, 3, n)
	require.Equal(t, "if (s.probe != nil && false) {\ncase s != nil && (s.probe != nil && false):\nif (t.run.rt.probe == nil || true) {\nx.events != nil; s.evil != nil", s)
	file, err := overlay("../../..", t.TempDir())
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(file, "overlay.json"))
}

func TestRows(t *testing.T) {
	var rounds []Round
	for i := range 20 {
		r := Round{}
		for _, w := range Ways() {
			r[w.Name] = Result{PerTask: 100, CPU: 200}
		}
		r["statistics"] = Result{PerTask: 100 + float64(i), CPU: 220, Lost: 1}
		rounds = append(rounds, r)
	}
	rows := Rows(rounds)
	require.Len(t, rows, len(Ways()))
	require.Equal(t, "off", rows[1].Name)
	require.Equal(t, 1.0, rows[1].Ratio)
	s := rows[2]
	require.InDelta(t, 1.095, s.Ratio, 1e-9)
	require.InDelta(t, 1.1, s.CPU, 1e-9)
	require.InDelta(t, 1.05, s.Low, 1e-9, "the sixth of twenty")
	require.InDelta(t, 1.14, s.High, 1e-9, "the sixth from the end")
	var b strings.Builder
	require.NoError(t, Write(&b, rows))
	require.Regexp(t, `statistics +109\.5 +1\.095 +1\.050–1\.140 +off +≤ 1\.10 +met +1\.100 +1\.00`, b.String())
	require.Regexp(t, `off +100\.0 +1\.000 +1\.000–1\.000 +without +1 in it +met`, b.String())
}

// The indices are those of the tables for the sign test.
func TestInterval(t *testing.T) {
	for n, lo := range map[int]int{6: 0, 10: 1, 20: 5, 50: 17, 1: 0, 2: 0} {
		l, h := interval(n)
		require.Equal(t, []int{lo, n - 1 - lo}, []int{l, h}, "of %d", n)
	}
}
