// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"weft/comm"
	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/grid"
	"weft/examples/heat/internal/kernel"
	"weft/examples/heat/internal/picture"
	"weft/examples/heat/internal/snapshot"
	"weft/examples/heat/internal/solve"
	"weft/nam"
	"weft/task"
)

// cheapUpdates bounds the cell updates of a check with the naive kernel, which shares no code with
// the others. With more updates, it would take longer than the run.
const cheapUpdates = 1 << 28

// afterSolve is called on each rank between the last step and the check, for tests that plant
// faults.
var afterSolve = func(*grid.Grid) {}

// heat is one run: the state that the ranks of a process share.
type heat struct {
	cfg     *conf.Run
	root    bool          // rank 0 is in this process, which prints all output of the run
	runtime *task.Runtime // nil for the variant mpi
	watch   *watch        // nil: the run is not observed
	kernel  kernel.Func
	step    func()     // advances the progress bar; nil: no bar
	store   *nam.Store // nil without snapshots
	window  string     // name of the window

	elapsed time.Duration // written by rank 0
}

// runHeat is the first program, with all ranks in this process.
func runHeat(ctx context.Context, cfg *conf.Run, stdout, stderr io.Writer) (err error) {
	h := &heat{cfg: cfg, root: true}
	defer h.close(&err)
	if err := h.prepare(); err != nil {
		return err
	}
	return h.run(ctx, stdout, stderr, h.rank)
}

// prepare opens everything that this process needs for the run, and finds mistakes that would
// otherwise appear only at its end.
func (h *heat) prepare() (err error) {
	cfg := h.cfg
	if h.root {
		for _, file := range []string{cfg.GIF, cfg.Output, cfg.CPUProfile, cfg.Watch.Profile, cfg.Watch.Graph} {
			if err := checkOutput(file); err != nil {
				return err
			}
		}
	}
	wanted := cfg.Watch
	if !h.root {
		wanted.Stats = false // each process is observed, but only rank 0 prints statistics
	}
	if h.watch, err = newWatch(&wanted, cfg.CPUProfile != "" && h.root); err != nil {
		return err
	}
	if rank, _, launched, _ := comm.Launched(); launched && h.watch != nil {
		h.watch.rank = rank
	}
	if h.kernel, err = kernel.ByName(cfg.Kernel); err != nil {
		return err
	}
	if cfg.Variant != conf.MPI {
		tc := task.Config{Workers: workers(cfg), Trace: h.watch.source()}
		if h.runtime, err = task.Open(tc); err != nil {
			return &conf.UsageError{Err: err}
		}
	}
	if cfg.Snapshots {
		if h.store, err = openStore(cfg.NamDir, false); err != nil {
			return err
		}
		if why := h.store.ReadOnly(); why != nil {
			return &conf.UsageError{Err: fmt.Errorf("no snapshots can be written to %s: %w (-nam-dir names another directory, -nam-freq 0 makes none)",
				h.store.Dir(), why)}
		}
		if h.root {
			h.window, err = chooseWindow(h.store, cfg.Window)
		}
	}
	return err
}

// close releases what prepare has opened. A trace that could not be written is an error.
func (h *heat) close(err *error) {
	if h.runtime != nil {
		_ = h.runtime.Close()
	}
	if h.store != nil {
		_ = h.store.Close()
	}
	if e := h.watch.close(); *err == nil {
		*err = e
	}
}

// run runs the ranks of this process, and prints messages and the result. In processes without rank
// 0, stdout and stderr discard everything.
func (h *heat) run(ctx context.Context, stdout, stderr io.Writer, body func(*comm.Comm) error) (err error) {
	cfg := h.cfg
	threads := 1
	if h.runtime != nil {
		threads = h.runtime.Workers()
	}
	for _, w := range cfg.Warnings {
		_, _ = fmt.Fprintln(stderr, "heat: warning:", w)
	}
	say := newStory(cfg, stdout, stderr)
	say.before(h, h.watch.page())
	if cfg.Verbose {
		printSettings(stdout, cfg)
	}
	if cfg.CPUProfile != "" && h.root {
		stop, e := profile(cfg.CPUProfile)
		if e != nil {
			return e
		}
		defer func() {
			if e := stop(); err == nil {
				err = e
			}
		}()
	}
	var end func()
	h.step, end = newProgress(cfg.Progress, stderr, cfg.Timesteps, "steps")
	err = comm.Main(ctx, comm.Config{Ranks: cfg.Layout.Ranks, Trace: h.watch.source()}, body)
	end()
	if h.elapsed > 0 {
		if _, e := fmt.Fprintln(stdout, resultLine(cfg, threads, h.elapsed)); err == nil {
			err = e
		}
		if h.watch != nil && h.runtime != nil {
			_ = h.runtime.Close() // so that the recording is complete
		}
		if e := h.watch.report(stdout); err == nil {
			err = e
		}
	}
	if !h.root && err == nil && h.watch != nil && h.runtime != nil {
		_ = h.runtime.Close()
		err = h.watch.files()
	}
	if err != nil || !h.root {
		return err
	}
	if cfg.GIF != "" {
		if _, err := makeMovie(ctx, h.store, &conf.View{Window: h.window, GIF: cfg.GIF, Progress: cfg.Progress}, stderr); err != nil {
			return err
		}
	}
	say.after(h)
	return nil
}

// rank is the body of each rank.
func (h *heat) rank(c *comm.Comm) error {
	cfg := h.cfg
	g := grid.New(cfg.Layout, c.Rank())
	g.Init(cfg.Sources)
	s, err := solve.New(solve.Config{
		Comm: c, Runtime: h.runtime, Grid: g,
		Kernel: h.kernel, Variant: cfg.Variant, Wins: cfg.Wins,
	})
	if err != nil {
		return err
	}
	plan := solve.Plan{Steps: cfg.Timesteps, Freq: cfg.NamFreq, Progress: h.step}
	win, err := h.createWindow(c, &plan)
	if err != nil {
		return err
	}
	if cfg.Warmup {
		if err := s.Run(solve.Plan{Steps: 1}); err != nil {
			return err
		}
		g.Init(cfg.Sources)
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	start := time.Now()
	if err := s.Run(plan); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	if c.Rank() == 0 {
		h.elapsed = time.Since(start)
	}
	if err := s.Free(); err != nil {
		return err
	}
	if win != nil {
		if err := win.Free(); err != nil {
			return err
		}
	}
	afterSolve(g)
	return h.finish(c, g)
}

// createWindow makes the window for the snapshots, if the run has any, and adds it to the plan.
func (h *heat) createWindow(c *comm.Comm, p *solve.Plan) (*nam.Win, error) {
	if h.store == nil {
		return nil, nil
	}
	head := snapshot.Header{
		Layout: h.cfg.Layout, Snapshots: h.cfg.SnapshotCount(), Freq: h.cfg.NamFreq, Timesteps: h.cfg.Timesteps,
	}
	win, err := snapshot.Create(h.store, c, &head, h.window, h.cfg.NamSync == conf.SyncEpoch)
	if err != nil {
		return nil, err
	}
	p.Save = solve.NewSnapshot(win, head)
	return win, nil
}

// finish checks and draws the final matrix, at rank 0.
func (h *heat) finish(c *comm.Comm, g *grid.Grid) error {
	cfg := h.cfg
	if !cfg.Check && cfg.Output == "" {
		return nil
	}
	var inner []float64
	if c.Rank() == 0 {
		inner = make([]float64, cfg.Layout.Rows*cfg.Layout.Cols)
	}
	mine := comm.Vector(g.Cells[g.At(1, 1):], g.RankRows(), g.Cols, g.Stride)
	if err := c.Gather(mine, comm.Of(inner), 0); err != nil {
		return err
	}
	if c.Rank() != 0 {
		return nil
	}
	l := cfg.Layout
	l.Ranks = 1
	whole := grid.New(l, 0)
	whole.Init(cfg.Sources)
	if cfg.Output != "" {
		if err := writeFile(cfg.Output, func(w io.Writer) error {
			return picture.EncodePPM(w, l.Rows+2, l.Cols+2, func(r int) []float64 {
				row := whole.Row(r, 0, l.Cols+2)
				if r > 0 && r <= l.Rows {
					copy(row[1:], inner[(r-1)*l.Cols:][:l.Cols])
				}
				return row
			})
		}); err != nil {
			return err
		}
	}
	if cfg.Check {
		return check(cfg, whole, inner)
	}
	return nil
}

// check compares the result with a sequential sweep of the whole matrix.
func check(cfg *conf.Run, whole *grid.Grid, got []float64) error {
	k := kernel.Rows8
	if whole.Rows*whole.Cols <= cheapUpdates/cfg.Timesteps {
		k = kernel.Naive
	}
	whole.Init(cfg.Sources)
	for range cfg.Timesteps {
		whole.Sweep(k)
	}
	if d := grid.Compare(got, whole); d != nil {
		return d
	}
	return nil
}

// profile starts a CPU profile. stop ends it, and returns the first error, including that of
// closing the file.
func profile(file string) (stop func() error, err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	out := &sink{out: f} // package pprof drops the errors of its writer
	if err := pprof.StartCPUProfile(out); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		err := out.err
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		return nil
	}, nil
}

// sink keeps the first error of a writer.
type sink struct {
	out io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.out.Write(p)
	if s.err == nil {
		s.err = err
	}
	return n, err
}
