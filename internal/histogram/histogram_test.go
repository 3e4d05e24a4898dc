// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// from returns the settings of an environment with only these variables of the histogram.
func from(t *testing.T, kvs ...string) (Settings, error) {
	for _, v := range []*env.Variable{env.Histogram.Variable, env.HistogramMin.Variable, env.HistogramMax.Variable, env.HistogramShift.Variable, env.HistogramTypes.Variable} {
		t.Setenv(v.Name, "")
	}
	for _, kv := range kvs {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	return FromEnvironment()
}

// count fills a histogram: messages has the number of messages by length.
func count(s *Settings, messages map[uint64]uint64) []uint64 {
	counts := make([]uint64, s.Bins())
	for length, n := range messages {
		counts[s.Bin(length)] += n
	}
	return counts
}

// The examples of ParaStation MPI's manual, with its numbers.
func TestGolden(t *testing.T) {
	for name, row := range map[string]struct {
		env      []string
		messages map[uint64]uint64
	}{
		"barrier":    {[]string{env.Histogram.Name + "=1", env.HistogramShift.Name + "=2", env.HistogramMax.Name + "=4096"}, map[uint64]uint64{0: 16000, 64: 942, 257: 3, 1024: 5}},
		"barrier_gw": {[]string{env.HistogramTypes.Name + "=gw", env.Histogram.Name + "=1", env.HistogramShift.Name + "=2", env.HistogramMax.Name + "=4096"}, map[uint64]uint64{1: 12694, 1000: 4}},
		"bcast": {[]string{env.Histogram.Name + "=1"}, map[uint64]uint64{4: 353913, 128: 6303, 256: 6303, 512: 6303, 1024: 6311, 2048: 6303, 4096: 6303,
			8192: 6303, 16384: 6303, 32768: 6303, 65536: 4035, 131072: 2019, 262144: 1011, 524288: 507, 67108865: 1}},
	} {
		s, err := from(t, row.env...)
		require.NoError(t, err)
		require.True(t, s.On)
		var b strings.Builder
		require.NoError(t, s.Write(&b, count(&s, row.messages)))
		want, err := os.ReadFile(filepath.Join("testdata", name+".golden"))
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), name)
	}
}

// The bins as the reference defines them, computed by loops.
func TestBinsAgainstLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		s := Settings{Min: 1 + r.Uint64N(1<<r.IntN(20)), Shift: 1 + r.IntN(env.MaxShift)}
		s.Max = s.Min + r.Uint64N(1<<r.IntN(39))
		var limits []uint64
		limit := s.Min
		for ; limit < s.Max; limit <<= s.Shift {
			limits = append(limits, limit)
		}
		limits = append(limits, limit)
		require.Equal(t, len(limits), s.Bins(), "%+v", s)
		for _, length := range []uint64{0, 1, s.Min, s.Min + 1, s.Max - 1, s.Max, s.Max + 1, 1 << 48, limits[len(limits)/2], limits[len(limits)/2] + 1, r.Uint64N(2*s.Max + 1)} {
			want := 0
			for want < len(limits)-1 && limits[want] < length {
				want++
			}
			require.Equal(t, want, s.Bin(length), "%d in %+v", length, s)
		}
		for i, limit := range limits {
			require.Equal(t, limit, s.Limit(i))
		}
	}
}

func TestDefaults(t *testing.T) {
	s, err := from(t)
	require.NoError(t, err)
	require.False(t, s.On)
	require.Equal(t, 21, s.Bins())
	require.EqualValues(t, 64<<20, s.Limit(20))
	require.True(t, s.Counts("tcp"))

	s, err = from(t, env.HistogramMin.Name+"=100000000")
	require.NoError(t, err, "a minimum above the standard maximum")
	require.Equal(t, 1, s.Bins())
}

func TestRefused(t *testing.T) {
	for _, row := range []struct {
		env  string // separated by blanks
		want string
	}{
		{env.Histogram.Name + "=yes", `PSP_HISTOGRAM="yes"; legal: 0, 1`},
		{env.HistogramMin.Name + "=0", `PSP_HISTOGRAM_MIN="0"; legal: 1 to 1099511627776`},
		{env.HistogramMin.Name + "=-1", `PSP_HISTOGRAM_MIN="-1"; legal: 1 to 1099511627776`},
		{env.HistogramMin.Name + "=64k", `PSP_HISTOGRAM_MIN="64k"; legal`},
		{env.HistogramMax.Name + "=0", `PSP_HISTOGRAM_MAX="0"; legal: PSP_HISTOGRAM_MIN to 1099511627776`},
		{env.HistogramMax.Name + "=18446744073709551616", `legal: PSP_HISTOGRAM_MIN to 1099511627776`},
		{env.HistogramMax.Name + "=63", `PSP_HISTOGRAM_MAX=63 is below PSP_HISTOGRAM_MIN=64`},
		{env.HistogramShift.Name + "=0", `PSP_HISTOGRAM_SHIFT="0"; legal: 1 to 20`},
		{env.HistogramShift.Name + "=21", `PSP_HISTOGRAM_SHIFT="21"; legal: 1 to 20`},
		{env.HistogramTypes.Name + "=openib", `PSP_HISTOGRAM_CONTYPE="openib"; legal: loop, inproc, shm, mpi, tcp, gw, gateway, or several`},
		{env.HistogramTypes.Name + "=tcp,", `PSP_HISTOGRAM_CONTYPE="tcp,"; legal: `},
	} {
		_, err := from(t, strings.Fields(row.env)...)
		require.ErrorIs(t, err, ErrSetting, row.env)
		require.ErrorContains(t, err, row.want)
	}
	_, err := from(t, env.HistogramMin.Name+"=x", env.HistogramShift.Name+"=x")
	require.ErrorContains(t, err, env.HistogramMin.Name)
	require.ErrorContains(t, err, env.HistogramShift.Name)
	require.Error(t, env.HistogramMin.Problem())
	require.NoError(t, env.HistogramMax.Problem(), "it is not set")
	t.Setenv(env.HistogramMax.Name, "1")
	require.NoError(t, env.HistogramMax.Problem(), "the other one is wrong")
	t.Setenv(env.HistogramMin.Name, "2")
	require.ErrorContains(t, env.HistogramMax.Problem(), `PSP_HISTOGRAM_MAX="1" is below PSP_HISTOGRAM_MIN, 2`)
	t.Setenv(env.HistogramMin.Name, "1")
	require.NoError(t, env.HistogramMax.Problem())
}

func TestTypes(t *testing.T) {
	s, err := from(t, env.HistogramTypes.Name+"=shm,gateway")
	require.NoError(t, err)
	require.True(t, s.Counts("shm"))
	require.True(t, s.Counts("gw"))
	require.False(t, s.Counts("tcp"))
}
