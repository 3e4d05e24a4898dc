// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/figures"
)

// writeRows writes a file of rows of heat, and one of rows of tasks, of which one failed its check.
func writeRows(t *testing.T) (heat, tasks string) {
	t.Helper()
	dir := t.TempDir()
	heat, tasks = filepath.Join(dir, "heat.json"), filepath.Join(dir, "tasks.json")
	require.NoError(t, os.WriteFile(heat, []byte(`[
{"name": "heat/itampi", "peer": "weft", "workers": 2, "ranks": 1, "size": 2048, "unit": "MUpd/s", "median": 2000, "min": 1900, "max": 2100, "runs": 5, "ok": true},
{"name": "heat/itampi", "peer": "sequential", "workers": 2, "ranks": 1, "size": 2048, "unit": "MUpd/s", "median": 500, "min": 500, "max": 500, "runs": 5, "ok": true}]`), 0o600))
	require.NoError(t, os.WriteFile(tasks, []byte(`[
{"name": "task/chain", "peer": "weft", "workers": 2, "ranks": 1, "size": 1000, "unit": "ns/task", "median": 100, "min": 90, "max": 120, "runs": 5, "ok": true},
{"name": "task/chain", "peer": "tbb", "workers": 2, "ranks": 1, "size": 1000, "unit": "ns/task", "median": 1, "min": 1, "max": 1, "runs": 1, "ok": false}]`), 0o600))
	return heat, tasks
}

func TestPlotCommand(t *testing.T) {
	heat, tasks := writeRows(t)
	dir := t.TempDir()
	status, stdout, stderr := runBench(t, nil, "plot", heat, "-out", dir, tasks, "-caption", "a machine", "-table", "-")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stderr, "rows that failed their check, and are left out: 1\n")
	require.Contains(t, stderr, "plot latency: the rows for it are missing: it needs msg/PingPong")
	require.Contains(t, stderr, "bench: "+filepath.Join(dir, "tasks.svg")+"\n")
	require.Equal(t, `| what | weft | strongest in Go | ratio | strongest other | ratio |
|---|---|---|---:|---|---:|
| one chain of tasks | 100 (90.0–120) ns/task | – | – | – | – |
| heat, tasks, 1 rank (rate) | 2000 (1900–2100) MUpd/s | sequential 500 | 4.00 (3.80–4.20) | – | – |
`, stdout)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"heat.svg", "tasks.svg"}, names)
	require.Contains(t, string(readFile(t, filepath.Join(dir, "heat.svg"))), ">a machine</text>")

	first := readFile(t, filepath.Join(dir, "tasks.svg"))
	table := filepath.Join(dir, "table.md")
	status, stdout, stderr = runBench(t, nil, "plot", "-plots", "tasks", "-out", dir, "-caption", "a machine", "-table", table, heat, tasks)
	require.Equal(t, exitOK, status, stderr)
	require.Empty(t, stdout)
	require.Equal(t, first, readFile(t, filepath.Join(dir, "tasks.svg")), "the same rows give the same bytes")
	require.Contains(t, string(readFile(t, table)), "one chain of tasks")
}

func TestPlotErrorsSayWhatIsLegal(t *testing.T) {
	heat, tasks := writeRows(t)
	dir := t.TempDir()
	wrong := filepath.Join(dir, "wrong.json")
	require.NoError(t, os.WriteFile(wrong, []byte(`{"rows": 1}`), 0o600))
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, exitUsage, "plot: no file: name the files that bench wrote with -json"},
		{[]string{heat, "-plots", "heat,pie"}, exitUsage, `-plots: no plot "pie"; there are tasks, efficiency, latency, bandwidth, collectives, heat`},
		{[]string{heat, "-out", none}, exitUsage, "-out: stat " + none},
		{[]string{heat, "-out", heat}, exitUsage, "-out: " + heat + " is not a directory"},
		{[]string{heat, "-table", filepath.Join(none, "t.md")}, exitUsage, "-table: open "},
		{[]string{heat, "-colour", "red"}, exitUsage, "-h lists the options"},
		{[]string{none + ".json"}, exitFailed, "open " + none + ".json"},
		{[]string{wrong}, exitFailed, wrong + ": it is not a file that bench writes with -json, an array of rows"},
		{[]string{heat, heat}, exitFailed, "give each row once"},
		{[]string{heat, "-out", dir, "-plots", "tasks"}, exitFailed, "plot tasks: the rows for it are missing: it needs task/independent"},
	} {
		status, stdout, stderr := runBench(t, nil, append([]string{"plot"}, c.args...)...)
		require.Equal(t, c.status, status, c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "bench: ")
		require.Contains(t, stderr, c.says)
	}
	require.NoFileExists(t, filepath.Join(dir, "heat.svg"))

	// Rows that suffice for no plot.
	status, _, stderr := runBench(t, nil, "-quick", "-run", "task/forkjoin$", "-only", "errgroup", "-workers", "1", "-reps", "1", "-json", wrong)
	require.Equal(t, exitOK, status, stderr)
	status, _, stderr = runBench(t, nil, "plot", wrong, "-out", dir)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "plot: the rows of "+wrong+" suffice for none of the plots")

	// A file that cannot be written.
	require.NoError(t, os.Mkdir(filepath.Join(dir, "tasks.svg"), 0o700))
	status, _, stderr = runBench(t, nil, "plot", tasks, "-out", dir)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, filepath.Join(dir, "tasks.svg"))
}

func TestPlotHelp(t *testing.T) {
	status, stdout, stderr := runBench(t, nil, "plot", "-h")
	require.Equal(t, exitOK, status)
	require.Empty(t, stdout)
	for _, says := range []string{"usage: go run ./bench plot", "-out DIR", "-caption TEXT", "-table FILE"} {
		require.Contains(t, stderr, says)
	}
	for _, name := range plotNames() {
		require.Contains(t, stderr, "  "+name+" ")
	}
}

var updatePlots = flag.Bool("update-plots", false, "draw the plots of docs/benchmarks.md anew")

// The plots and the main table of docs/benchmarks.md are those of the files in bench/results.
func TestPlotsOfThePage(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("elsewhere sums may differ in the last digit")
	}
	images := filepath.Join("..", "docs", "images", "bench")
	files, err := filepath.Glob(filepath.Join("results", "*.json"))
	require.NoError(t, err)
	caption := strings.TrimSpace(string(readFile(t, filepath.Join("results", "caption.txt"))))
	rows, _, err := figures.Read(files)
	require.NoError(t, err)
	for _, p := range figures.Plots() {
		svg, err := p.SVG(rows, caption)
		require.NoError(t, err)
		name := filepath.Join(images, p.Name+".svg")
		if *updatePlots {
			require.NoError(t, os.WriteFile(name, svg, 0o666))
			continue
		}
		require.Equal(t, string(svg), string(readFile(t, name)), "%s: go test ./bench -run TestPlotsOfThePage -update-plots", name)
	}
	page := filepath.Join("..", "docs", "benchmarks.md")
	text := string(readFile(t, page))
	before, rest, found := strings.Cut(text, "<!-- figures: begin -->\n\n")
	require.True(t, found)
	_, after, found := strings.Cut(rest, "\n<!-- figures: end -->")
	require.True(t, found)
	var table strings.Builder
	require.NoError(t, figures.WriteTable(&table, rows))
	want := before + "<!-- figures: begin -->\n\n" + table.String() + "\n<!-- figures: end -->" + after
	if *updatePlots {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o666))
		return
	}
	require.Equal(t, want, text, "go test ./bench -run TestPlotsOfThePage -update-plots")
}
