// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"

	"weft/bench/internal/harness"
)

// row returns a row of three samples: v, and a tenth less and more.
func row(name, peer string, workers, ranks int, size int64, unit string, v float64) harness.Row {
	return harness.Row{Name: name, Peer: peer, Workers: workers, Ranks: ranks, Size: size, Unit: unit, Median: v, Min: 0.9 * v, Max: 1.1 * v, Runs: 3, OK: true}
}

// sample has rows for every plot.
func sample() (rows Rows) {
	for _, workers := range []int{1, 2} {
		rows = append(rows,
			row("task/chain", "weft", workers, 1, 1e6, "ns/task", 100),
			row("task/chain", "channels", workers, 1, 1e6, "ns/task", 500),
			row("task/chain", "libgomp", workers, 1, 1e6, "ns/task", 250),
			row("task/chain", "sequential", workers, 1, 1e6, "ns/task", 1),
			row("task/independent", "weft", workers, 1, 1e6, "ns/task", 80),
			row("task/independent", "goroutines", workers, 1, 1e6, "ns/task", 400),
			row("task/independent", "tbb", workers, 1, 1e6, "ns/task", 90),
			row("heat/itampi", "weft", workers, 1, 2048, "MUpd/s", 1000*float64(workers)),
			row("heat/itampi", "sequential", workers, 1, 2048, "MUpd/s", 500),
			row("heat/tampirma", "weft", workers, 2, 2048, "MUpd/s", 900))
	}
	for _, size := range []int64{500, 1000, 2000, 4000} {
		rows = append(rows, row("metg/fft/efficiency", "weft", 2, 1, size, "%", float64(size)/50), row("metg/fft/efficiency", "tbb", 2, 1, size, "%", float64(size)/60))
	}
	for _, bench := range []string{"PingPong", "Uniband", "Bcast", "Allreduce"} {
		for _, size := range []int64{0, 8, 4096, 1 << 20} {
			for i, peer := range []string{"weft-shm", "openmpi-shm", "weft-tcp", "mpich-tcp"} {
				rows = append(rows, row("msg/"+bench, peer, 2, 2, size, "us", float64(i+1)*(1+float64(size)/4096)))
			}
		}
	}
	return rows
}

var fill = regexp.MustCompile(`fill:#([0-9A-F]{6})`)

// structure returns the texts of an SVG in their order, and how many shapes are filled with each
// colour.
func structure(t *testing.T, svg []byte) (texts []string, filled map[string]int) {
	t.Helper()
	filled = map[string]int{}
	dec := xml.NewDecoder(bytes.NewReader(svg))
	inText := false
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return texts, filled
		}
		require.NoError(t, err)
		switch e := tok.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
			for _, a := range e.Attr {
				if m := fill.FindStringSubmatch(a.Value); m != nil && a.Name.Local == "style" && e.Name.Local == "path" {
					filled[m[1]]++
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); inText && s != "" {
				texts = append(texts, s)
			}
		case xml.EndElement:
			inText = false
		}
	}
}

func named(t *testing.T, name string) *Plot {
	t.Helper()
	all := Plots()
	i := slices.IndexFunc(all, func(p Plot) bool { return p.Name == name })
	require.GreaterOrEqual(t, i, 0)
	return &all[i]
}

// Every plot has its title, its axes with their units, its legend, how to read it, and the caption.
func TestPlots(t *testing.T) {
	has := map[string][]string{
		"tasks":       {"Cost of a task that does no work, 2 workers", "time per task (ns), less is better", "independent", "chain", "weft", "goroutines, channels", "libgomp (gcc)", "oneTBB", barNotes},
		"efficiency":  {"Efficiency by granularity: fft, 2 workers", "granularity: workers × time / tasks (µs)", "efficiency (% of the peak)", "50", "1", "weft", "oneTBB"},
		"latency":     {"Time of a message: half of a ping-pong, 2 ranks", "size of the message", "time (µs), less is better", "8 B", "4 KiB", "256 KiB", "10", "weft, shared memory", "weft, TCP", "Open MPI, shared memory", "MPICH, TCP", markNotes},
		"bandwidth":   {"Bandwidth with 64 messages under way, 2 ranks", "bandwidth (10⁶ bytes/s), more is better"},
		"collectives": {"Bcast, 2 ranks", "Allreduce, 2 ranks", "size of the data of a rank", "512 B", "32 KiB"},
		"heat":        {"Heat example, matrix of 2048 × 2048", "rate (million cell updates/s), more is better", "1 rank, 2 workers", "2 ranks, 1 worker", "sequential", "itampi: tasks, messages", "tampirma: tasks, puts"},
	}
	require.Len(t, has, len(Plots()))
	for _, p := range Plots() {
		svg, err := p.SVG(sample(), "a machine, commit 1a2b3c4")
		require.NoError(t, err)
		texts, _ := structure(t, svg)
		for _, want := range append(has[p.Name], "a machine, commit 1a2b3c4") {
			require.Contains(t, texts, want, p.Name)
		}
		require.NotContains(t, texts, "", p.Name)
		require.Contains(t, string(svg), "font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
		again, err := p.SVG(sample(), "a machine, commit 1a2b3c4")
		require.NoError(t, err)
		require.Equal(t, svg, again, "%s: the same rows give the same bytes", p.Name)
	}
}

// A bar of each colour is drawn for each row, and another one in the legend. What has no row has
// neither.
func TestBars(t *testing.T) {
	svg, err := named(t, "tasks").SVG(sample(), "")
	require.NoError(t, err)
	texts, filled := structure(t, svg)
	require.Equal(t, map[string]int{"0072B2": 2 + 1, "E69F00": 2 + 1, "009E73": 1 + 1, "D55E00": 1 + 1, "FFFFFF": 1}, filled)
	require.NotContains(t, texts, "libomp (clang)")
	require.NotContains(t, texts, "readers")

	svg, err = named(t, "heat").SVG(sample(), "")
	require.NoError(t, err)
	_, filled = structure(t, svg)
	require.Equal(t, map[string]int{"0072B2": 2 + 1, "CC79A7": 2 + 1, "8C8C8C": 2 + 1, "FFFFFF": 1}, filled)
}

// A collective that was not measured has no panel, and one alone is a plot.
func TestOneCollective(t *testing.T) {
	rows := sample().having(func(r *harness.Row) bool { return r.Name != "msg/Bcast" })
	svg, err := named(t, "collectives").SVG(rows, "")
	require.NoError(t, err)
	texts, _ := structure(t, svg)
	require.Contains(t, texts, "Allreduce, 2 ranks")
	require.NotContains(t, texts, "Bcast, 2 ranks")
}

// A plot is about the least number of ranks, and leaves peers out that have none of these.
func TestLeastRanks(t *testing.T) {
	rows := sample()
	for _, size := range []int64{8, 16} {
		rows = append(rows, row("msg/PingPong", "weft-shm", 2, 4, size, "us", 1), row("msg/PingPong", "mpich-shm", 2, 4, size, "us", 1))
	}
	svg, err := named(t, "latency").SVG(rows, "")
	require.NoError(t, err)
	texts, _ := structure(t, svg)
	require.NotContains(t, texts, "MPICH, shared memory")
}

func TestMissingRows(t *testing.T) {
	for _, p := range Plots() {
		for _, rows := range []Rows{nil, {row("task/wake", "weft", 2, 1, 500, "ns", 1), row("msg/PingPong", "openmpi-shm", 2, 2, 8, "us", 1), row("msg/PingPong", "weft-shm", 2, 2, 0, "us", 1)}} {
			_, err := p.SVG(rows, "")
			require.ErrorIs(t, err, ErrMissing, p.Name)
			require.ErrorContains(t, err, "plot "+p.Name+": the rows for it are missing: it needs ")
			require.ErrorContains(t, err, "; bench ")
		}
	}
	require.ErrorIs(t, WriteTable(io.Discard, nil), ErrMissing)
}

func TestTable(t *testing.T) {
	rows := append(sample(), row("msg/pingpong", "weft", 2, 2, 1<<20, "ns", 50_000), row("msg/pingpong", "channels", 2, 2, 1<<20, "ns", 80_000))
	for i := range rows {
		if rows[i].Peer == "openmpi-shm" {
			rows[i].Min, rows[i].Max = rows[i].Median, rows[i].Median
		}
	}
	var b strings.Builder
	require.NoError(t, WriteTable(&b, rows))
	require.Equal(t, `| what | weft | strongest in Go | ratio | strongest other | ratio |
|---|---|---|---:|---|---:|
| independent tasks | 80.0 (72.0–88.0) ns/task | goroutines 400 (360–440) | 0.20 (0.16–0.24) | tbb 90.0 (81.0–99.0) | 0.89 (0.73–1.09) |
| one chain of tasks | 100 (90.0–110) ns/task | channels 500 (450–550) | 0.20 (0.16–0.24) | libgomp 250 (225–275) | 0.40 (0.33–0.49) |
| message of 1 MiB, one process | 50.0 (45.0–55.0) µs | channels 80.0 (72.0–88.0) | 0.62 (0.51–0.76) | – | – |
| message of 8 B, shared memory | 1.00 (0.90–1.10) µs | – | – | openmpi-shm 2.00 | 0.50 (0.45–0.55) |
| message of 1 MiB, shared memory | 257 (231–283) µs | – | – | openmpi-shm 514 | 0.50 (0.45–0.55) |
| message of 8 B, TCP | 3.01 (2.71–3.31) µs | – | – | mpich-tcp 4.01 (3.61–4.41) | 0.75 (0.61–0.92) |
| message of 1 MiB, TCP | 771 (694–848) µs | – | – | mpich-tcp 1028 (925–1131) | 0.75 (0.61–0.92) |
| one of 64 messages of 8 B, shared memory | 1.00 (0.90–1.10) µs | – | – | openmpi-shm 2.00 | 0.50 (0.45–0.55) |
| allreduce of 8 B, shared memory | 1.00 (0.90–1.10) µs | – | – | openmpi-shm 2.00 | 0.50 (0.45–0.55) |
| allreduce of 1 MiB, shared memory | 257 (231–283) µs | – | – | openmpi-shm 514 | 0.50 (0.45–0.55) |
| heat, tasks, 1 rank (rate) | 2000 (1800–2200) MUpd/s | sequential 500 (450–550) | 4.00 (3.27–4.89) | – | – |
`, b.String())
}

func TestTicks(t *testing.T) {
	labels := func(list []plot.Tick) (out []string) {
		for _, tick := range list {
			if !tick.IsMinor() {
				out = append(out, tick.Label)
			}
		}
		return out
	}
	require.Equal(t, strings.Fields("0.1 1 10 100 1000"), labels(decades{}.Ticks(0.1, 2000)))
	require.Equal(t, strings.Fields("0.5 1 2 5 10 20"), labels(decades{}.Ticks(0.4, 30)))
	require.Equal(t, strings.Fields("0 1 2 3 4"), labels(wholes{}.Ticks(0, 4)))
	require.Equal(t, strings.Fields("0 1 2"), labels(wholes{}.Ticks(0, 2)))
	require.Equal(t, strings.Fields("0 1000 2000 3000 4000 5000"), labels(wholes{}.Ticks(0, 5100)))
	require.Equal(t, strings.Fields("0 200 400 600 800"), labels(wholes{}.Ticks(0, 999)))
	require.Equal(t, strings.Fields("0 500 1000 1500 2000"), labels(wholes{}.Ticks(0, 2400)))
	require.Equal(t, []string{"64 B", "512 B", "4 KiB"}, labels(byteSizes{8}.Ticks(9, 5000)))
	require.Equal(t, []string{"1 B", "1000 B", "1 KiB", "3 MiB", "2 GiB"}, []string{bytesText(1), bytesText(1000), bytesText(1024), bytesText(3 << 20), bytesText(2 << 30)})
	require.InDelta(t, 2, logTicks{decades{}}.Ticks(1.99, 2.05)[0].Value, 1e-9)
}

func TestUnknownPeers(t *testing.T) {
	for _, peer := range []string{"cilk", "weft-mpi-openmpi", "weft-carrier pigeon"} {
		require.Equal(t, appearance{label: peer, color: grey, mark: appearanceOf("cilk").mark}, appearanceOf(peer))
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	good := func(peer string) string {
		return `[{"name": "task/chain", "peer": "` + peer + `", "workers": 1, "ranks": 1, "size": 7, "unit": "ns/task", "median": 2, "min": 1, "max": 3, "runs": 3, "ok": true}]`
	}
	a, b := file("a.json", good("weft")), file("b.json", good("channels"))
	rows, failed, err := Read([]string{a, b})
	require.NoError(t, err)
	require.Zero(t, failed)
	require.Equal(t, []string{"weft", "channels"}, rows.peers())

	bad := file("failed.json", strings.Replace(good("tbb"), `"ok": true`, `"ok": false`, 1))
	rows, failed, err = Read([]string{a, bad})
	require.NoError(t, err)
	require.Equal(t, 1, failed)
	require.Len(t, rows, 1)

	for text, says := range map[string]string{
		"":                            "EOF",
		"[]":                          "the array is empty",
		"{}":                          "cannot unmarshal object",
		`[{"bench": "PingPong"}]`:     `unknown field "bench"`,
		`[{"name": "x", "ok": true}]`: "row 0 lacks a name, a peer or a unit",
		good("weft") + "[]":           "there is more after the array",
		strings.Replace(good("w"), "1,", "0,", 3) + "!":         "there is more after the array",
		strings.Replace(good("w"), `"max": 3`, `"max": 1`, 1):   "row 0, task/chain of peer w: runs 3, and min 1, median 2, max 1, which must rise",
		strings.Replace(good("w"), `"runs": 3`, `"runs": 0`, 1): "runs 0",
	} {
		name := file("wrong.json", text)
		_, _, err := Read([]string{a, name})
		require.ErrorContains(t, err, name+": it is not a file that bench writes with -json, an array of rows: ", text)
		require.ErrorContains(t, err, says, text)
	}
	_, _, err = Read([]string{filepath.Join(dir, "none.json")})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.json")
	_, _, err = Read([]string{a, b, a})
	require.ErrorContains(t, err, "the row task/chain of peer weft (size 7, ranks 1, workers 1) is also in "+a+"; give each row once")
}
