// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
	"weft/comm"
)

func quick(sizes ...int64) Options {
	return Options{Sizes: sizes, Iter: 3, Volume: 1 << 20, Time: time.Second, Sync: true}
}

// Every benchmark runs with right contents and reports the expected rows.
func TestBenchmarksInProcess(t *testing.T) {
	names, err := Find([]string{"P2P", "Coll", "NBC", "Loops", "Start"})
	require.NoError(t, err)
	for _, ranks := range []int{2, 3} {
		for _, name := range names {
			o := quick(0, 8, 512)
			if strings.HasPrefix(name, "I") {
				o = quick(8)
			}
			var rows []Row
			require.NoError(t, new(Runner).Run(t.Context(), &Peers()[0], ranks, name, o, func(r Row) { rows = append(rows, r) }), name)
			require.Len(t, rows, len(find(name).sizesOf(o.Sizes)))
			for _, r := range rows {
				require.NoError(t, r.Err())
				require.Equal(t, ranks, r.Ranks)
				require.Positive(t, r.Reps)
				require.Positive(t, r.Max+r.Both, "%+v", r)
			}
		}
	}
}

func TestWrongContentsAreFound(t *testing.T) {
	for _, name := range Names() {
		b := *find(name)
		if b.kind == special || !b.takes(8) || b.kind == overlap {
			continue
		}
		op := b.op
		b.op = func(r *rank) error {
			err := op(r)
			for i := range r.in {
				r.in[i]++
			}
			for i := range r.inF {
				r.inF[i]++
			}
			return err
		}
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 4}, func(c *comm.Comm) error {
			row, err := measure(c, &b, 8, &Options{Iter: 1, Volume: 1, Time: time.Second}, nil)
			if c.Rank() == 0 {
				require.Contains(t, row.Why, "arrived wrong", name)
				require.ErrorIs(t, row.Err(), harness.ErrWrongAnswer)
			}
			return err
		}))
	}
}

func TestFind(t *testing.T) {
	names, err := Find([]string{"bcast", "PINGPONG", "Bcast"})
	require.NoError(t, err)
	require.Equal(t, []string{"PingPong", "Bcast"}, names)
	names, err = Find(nil)
	require.NoError(t, err)
	require.Len(t, names, 15)
	_, err = Find([]string{"Alltoallw"})
	require.ErrorContains(t, err, "Alltoallw")
	require.ErrorContains(t, err, "Iscatter")
}

func TestSizes(t *testing.T) {
	all := []int64{0, 1, 2, 4, 8}
	require.Equal(t, all, find("PingPong").sizesOf(all))
	require.Equal(t, []int64{0, 4, 8}, find("Iallreduce").sizesOf(all))
	require.Equal(t, []int64{0}, find("Barrier").sizesOf([]int64{8}))
	require.Equal(t, []int64{1 << 20}, find("Progress").sizesOf(all))
}

func TestTableLayout(t *testing.T) {
	var b strings.Builder
	table := NewTable(&b)
	table.Row(Row{Bench: "Bcast", Size: 0, Ranks: 4, Reps: 1000, Min: 0.03, Max: 0.04, Avg: 0.04})
	table.Row(Row{Bench: "Bcast", Size: 65536, Ranks: 4, Reps: 640, Min: 30.06, Max: 38.71, Avg: 34.03, Why: "2 elements arrived wrong"})
	table.Row(Row{Bench: "Barrier", Ranks: 4, Reps: 1000, Min: 5.02, Max: 5.02, Avg: 5.02})
	table.Row(Row{Bench: "PingPong", Ranks: 4, Size: 8, Reps: 1000, Max: 2, Rate: 4})
	table.Row(Row{Bench: "Uniband", Ranks: 4, Size: 8, Reps: 1000, Rate: 4, Msgs: 1e6})
	table.Row(Row{Bench: "Ibcast", Ranks: 4, Size: 8, Reps: 1000, Both: 3, Pure: 2, CPU: 1, Overlap: 12.5})
	require.Equal(t, strings.ReplaceAll(`
LINE
# Benchmarking Bcast
# #processes = 4
LINE
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.04         0.04
        65536          640        30.06        38.71        34.03
# FAILED: 2 elements arrived wrong

LINE
# Benchmarking Barrier
# #processes = 4
LINE
 #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1000         5.02         5.02         5.02

LINE
# Benchmarking PingPong
# #processes = 4
# ( 2 additional processes waiting in Barrier )
LINE
       #bytes #repetitions      t[usec]   Mbytes/sec
            8         1000         2.00         4.00

LINE
# Benchmarking Uniband
# #processes = 4
LINE
       #bytes #repetitions   Mbytes/sec      Msg/sec
            8         1000         4.00      1000000

LINE
# Benchmarking Ibcast
# #processes = 4
LINE
       #bytes #repetitions t_ovrl[usec] t_pure[usec]  t_CPU[usec]   overlap[%]
            8         1000         3.00         2.00         1.00        12.50
`, "LINE", line), b.String())
}

func TestRowsAsLines(t *testing.T) {
	var out, rest bytes.Buffer
	row := Row{Bench: "Bcast", Size: 8, Ranks: 2, Reps: 7, Max: 1.5}
	require.NoError(t, Report(&out)(row))
	out.WriteString("a word of the launcher\n")
	var got []Row
	require.NoError(t, readRows(&out, &rest, func(r Row) { got = append(got, r) }))
	require.Equal(t, []Row{row}, got)
	require.Equal(t, "a word of the launcher\n", rest.String())
	require.Error(t, readRows(strings.NewReader(linePrefix+"17}\n"), &rest, func(Row) {}))
}

func TestComparison(t *testing.T) {
	c := NewComparison(Peers(), 2)
	for _, v := range []float64{3, 1, 2} {
		c.Add("weft-inproc", Row{Bench: "Allreduce", Size: 8, Ranks: 2, Avg: v})
		c.Add("openmpi-shm", Row{Bench: "Allreduce", Size: 8, Ranks: 2, Avg: 10 * v})
		c.Add("mpich-shm", Row{Bench: "Allreduce", Size: 8, Ranks: 2, Avg: 5 * v})
		c.Add("mpich-tcp", Row{Bench: "Allreduce", Size: 8, Ranks: 2, Avg: 1})
		c.Add("weft-inproc", Row{Bench: "Ibcast", Size: 8, Ranks: 2, Pure: v, Overlap: 10 * v})
		c.Add("openmpi-shm", Row{Bench: "Ibcast", Size: 8, Ranks: 2, Pure: v, Overlap: v, Why: "something"})
		c.Add("mpich-shm", Row{Bench: "Uniband", Size: 8, Ranks: 2, Msgs: 1e6 / v})
	}
	require.Equal(t, 10.0, c.best(key{bench: "Allreduce", ranks: 2, size: 8}, "shm"))
	rows := c.Rows()
	require.Contains(t, rows, harness.Row{Name: "msg/Allreduce", Peer: "mpich-shm", Workers: 2, Ranks: 2, Size: 8, Unit: "us", Median: 10, Min: 5, Max: 15, Runs: 3, OK: true})
	require.Contains(t, rows, harness.Row{Name: "msg/Ibcast/overlap", Peer: "weft-inproc", Workers: 2, Ranks: 2, Size: 8, Unit: "%", Median: 20, Min: 10, Max: 30, Runs: 3, OK: true})
	require.True(t, c.Failed())
	var text strings.Builder
	require.NoError(t, c.Write(&text))
	require.Regexp(t, `(?m)^ +8 +2\.000 +20\.0 +10\.0 +1\.000 +0\.200 *$`, text.String())
	text.Reset()
	require.NoError(t, c.WriteGoals(&text))
	require.Regexp(t, `allreduce 8 B +weft-inproc +2\.000 +10\.0 +0\.200 +≤ 0\.5 +met`, text.String())
	text.Reset()
	require.NoError(t, NewComparison(nil, 1).WriteGoals(&text))
	require.Empty(t, text.String())
}

// A missing library is skipped, and the error says what to install.
func TestMissingLibrary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := &Runner{Self: []string{"bench"}, Stderr: io.Discard}
	for _, p := range Peers() {
		if p.Class == "mpi" || !p.Ours {
			err := r.Run(t.Context(), &p, 2, "Barrier", quick(8), func(Row) {})
			require.True(t, Skipped(err), "%s: %v", p.Name, err)
			require.ErrorContains(t, err, "install")
		}
	}
}

// Ranks over MPI use MPI between them, and not the shared memory of the node.
func TestOverMPI(t *testing.T) {
	for _, l := range []*library{openMPI, mpich} {
		if _, _, err := l.tools(t.Context()); err != nil {
			t.Log(err)
			continue
		}
		r := &Runner{Self: []string{"bench", "imb"}, builds: map[string]built{"bench-" + l.name: {path: "/a/bench"}}}
		cmd, err := l.overMPI(t.Context(), r, 2, "PingPong", &Options{})
		require.NoError(t, err)
		require.Contains(t, cmd.Env, "WEFT_FABRIC=mpi")
	}
}
