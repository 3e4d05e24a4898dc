// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"fmt"
	"math"
	"strings"

	"weft/examples/heat/internal/grid"
)

// The variants of the solver.
const (
	MPI      = "mpi"
	ITAMPI   = "itampi"
	TAMPIRMA = "tampirma"
)

// SyncEpoch is the value of -nam-sync that forces each snapshot to the disk.
const SyncEpoch = "epoch"

// Syncs lists the legal values of -nam-sync, the default first.
var Syncs = []string{"process", SyncEpoch}

// Variants lists the legal values of -variant, the default first.
var Variants = []string{ITAMPI, TAMPIRMA, MPI}

// Defaults of the run without options: a few seconds on two cores, in which the heat visibly
// spreads. This determines the number of steps: heat spreads over about sqrt(2*steps) cells.
const (
	defaultSize      = 512
	defaultTimesteps = 12000
	defaultBlock     = 128
	defaultRanks     = 2
	defaultGIF       = "heat.gif"
	defaultDelta     = 5e-5
	maxDefaultWins   = 4
	// snapshotsWanted bounds the default number of snapshots after the initial one: there are
	// between half of it and all of it, if there are that many steps.
	snapshotsRequested = 24
)

// Limits of the numbers on the command line. They keep all products of sizes within an int.
const (
	maxExtent = 1 << 24
	maxSteps  = 1 << 30
	maxRanks  = 1 << 12
	maxCells  = math.MaxInt >> 25 // 2 TiB of cells with 64 bits
	// unaskedSnapshotBytes bounds the size of snapshots on disk if no option requests them.
	unaskedSnapshotBytes = 1 << 30
)

// Run is the settings of a heat run.
type Run struct {
	Variant   string
	Layout    grid.Layout
	Timesteps int
	Delta     float64
	Sources   []grid.Source
	Wins      int // windows per halo, tampirma only
	Warmup    bool
	Workers   int    // 0: the task runtime decides
	Kernel    string // a name that package kernel knows

	Snapshots  bool
	NamFreq    int    // steps from one snapshot to the next; 0 without snapshots
	NamSync    string // what a snapshot survives: one of Syncs
	NamDir     string // empty: the default of package nam
	Window     string // empty: a unique name
	GIF        string // empty: none
	Output     string // PPM file; empty: none
	CPUProfile string
	Watch      Watch

	Launched bool // the ranks are processes
	Check    bool
	Verbose  bool
	Progress bool
	Bare     bool     // no options were given
	Warnings []string // for stderr, in order
}

// SnapshotCount is the number of snapshots of the run, the initial state included.
func (r *Run) SnapshotCount() int {
	if !r.Snapshots {
		return 0
	}
	return 1 + r.Timesteps/r.NamFreq
}

// SnapshotBytes is the size of all snapshots.
func (r *Run) SnapshotBytes() int {
	return r.SnapshotCount() * r.Layout.Rows * r.Layout.Cols * 8
}

// UsageError is a mistake on the command line or in the sources file.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

func usage(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// raw is the command line before defaults are filled in. explicit has the names of the given flags.
type raw struct {
	size, rows, cols    int
	timesteps           int
	bs, rbs, cbs        int
	delta               float64
	sources             string
	wins                int
	noWarmup            bool
	output              string
	verbose             bool
	variant, kernel     string
	ranks, workers      int
	check               bool
	namFreq             int
	namSync             string
	namDir, window, gif string
	cpuProfile          string
	progress            bool
	watch               Watch
	explicit            map[string]bool // by long name
}

// resolve fills in defaults and checks what the flags cannot check one by one.
func (f *raw) resolve() (*Run, error) {
	r := &Run{
		Variant: f.variant, Delta: f.delta, Warmup: !f.noWarmup && f.output == "",
		NamSync: f.namSync, NamDir: f.namDir, Window: f.window, GIF: f.gif, Output: f.output, CPUProfile: f.cpuProfile,
		Check: f.check, Verbose: f.verbose, Progress: f.progress, Bare: len(f.explicit) == 0,
		Timesteps: f.timesteps, Workers: f.workers, Kernel: f.kernel, Watch: f.watch,
	}
	if err := r.Watch.check(r.Variant, f.explicit); err != nil {
		return nil, err
	}
	if r.Bare {
		r.Check, r.GIF = true, defaultGIF
	}
	var err error
	if r.Layout, err = f.layout(r); err != nil {
		return nil, err
	}
	if r.Wins, err = f.windows(r.Layout); err != nil {
		return nil, err
	}
	if err := f.snapshots(r); err != nil {
		return nil, err
	}
	if r.Sources, err = LoadSources(f.sources); err != nil {
		return nil, &UsageError{err}
	}
	return r, nil
}

// layout finds the sizes, and rounds them up with a warning.
func (f *raw) layout(r *Run) (grid.Layout, error) {
	rows, cols := f.size, f.size
	if f.explicit["rows"] != f.explicit["cols"] && !f.explicit["size"] {
		return grid.Layout{}, usage("-rows and -cols go together: give both, or -size N for a square matrix")
	}
	if f.explicit["rows"] && f.explicit["cols"] && f.explicit["size"] {
		return grid.Layout{}, usage("-size %d is for a square matrix, but -rows is %d and -cols is %d: give either -size, or -rows and -cols", f.size, f.rows, f.cols)
	}
	if f.explicit["rows"] {
		rows = f.rows
	}
	if f.explicit["cols"] {
		cols = f.cols
	}
	// The default block size must not enlarge a small matrix by much.
	rbs, cbs := min(f.bs, ceilDiv(rows, f.ranks)), min(f.bs, cols)
	if f.explicit["bs"] {
		rbs, cbs = f.bs, f.bs
	}
	if f.explicit["rbs"] {
		rbs = f.rbs
	}
	if f.explicit["cbs"] {
		cbs = f.cbs
	}
	l := grid.Round(rows, cols, f.ranks, rbs, cbs)
	if l.Rows > maxCells/l.Cols {
		return l, usage("%d x %d cells are too many, at most %d are legal", l.Rows, l.Cols, maxCells)
	}
	warn := func(what string, from, to int, unit string) {
		if from != to {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s rounded up from %d to %d, a multiple of %s", what, from, to, unit))
		}
	}
	warn("rows", rows, l.Rows, fmt.Sprintf("ranks x block rows = %d x %d", f.ranks, rbs))
	warn("columns", cols, l.Cols, fmt.Sprintf("block columns = %d", cbs))
	return l, nil
}

// windows checks that the column blocks divide evenly over the windows of a halo.
func (f *raw) windows(l grid.Layout) (int, error) {
	ncb := l.BlockCols()
	var legal []string
	best := 1
	for n := 1; n <= ncb; n++ {
		if ncb%n == 0 {
			legal = append(legal, fmt.Sprint(n))
			if n <= maxDefaultWins {
				best = n
			}
		}
	}
	if !f.explicit["wins"] {
		return best, nil
	}
	if ncb%f.wins != 0 || f.wins > ncb {
		return 0, usage("-wins is %d, but the %d column blocks must divide evenly over the windows: legal is %s", f.wins, ncb, strings.Join(legal, ", "))
	}
	return f.wins, nil
}

// snapshots sets Snapshots and NamFreq.
func (f *raw) snapshots(r *Run) error {
	r.Snapshots, r.NamFreq = true, f.namFreq
	if f.explicit["nam-freq"] {
		if f.namFreq == 0 {
			for _, name := range []string{"window", "gif", "nam-sync"} {
				if f.explicit[name] {
					return usage("-%s needs snapshots, but -nam-freq is 0: give 1 or more", name)
				}
			}
			r.Snapshots = false
		}
		return nil
	}
	r.NamFreq = max(1, ceilDiv(r.Timesteps, snapshotsRequested))
	asked := r.Bare || f.explicit["window"] || f.explicit["gif"] || f.explicit["nam-dir"] || f.explicit["nam-sync"]
	if bytes := r.SnapshotBytes(); !asked && bytes > unaskedSnapshotBytes {
		r.Warnings = append(r.Warnings, fmt.Sprintf("no snapshots: they would take %d MiB; request them by -nam-freq %d", bytes>>20, r.NamFreq))
		r.Snapshots, r.NamFreq = false, 0
	}
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Watch selects what is observed of the tasks.
type Watch struct {
	Stats   bool   // a table after the result
	Profile string // file of the task profile; empty: none
	Graph   string // file of the graph, SVG or DOT; empty: none
	HTTP    string // address of the live page; empty: none
	Trace   string // file of the timeline or recording; empty: none
}

// Wanted reports whether anything is observed.
func (w *Watch) Requested() bool { return *w != Watch{} }

// Tasks reports whether any output is about tasks only. A trace is not: it also has messages.
func (w *Watch) Tasks() bool { return w.Stats || w.Profile != "" || w.Graph != "" || w.HTTP != "" }

// check returns an error if an output is about tasks and the variant has none.
func (w *Watch) check(variant string, given map[string]bool) error {
	if variant != MPI {
		return nil
	}
	for _, name := range []string{"stats", "taskprofile", "graph", "http"} {
		if given[name] {
			return usage("-%s needs tasks, but the variant %s has none: legal are %s", name, MPI, strings.Join(Variants[:2], " and "))
		}
	}
	return nil
}
