// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"weft/examples/heat/internal/conf"
)

// resultLine returns the line that every run prints: names and values, as the original program
// prints them.
func resultLine(cfg *conf.Run, threads int, elapsed time.Duration) string {
	l := cfg.Layout
	s := elapsed.Seconds()
	updates := float64(l.Rows) * float64(l.Cols) * float64(cfg.Timesteps)
	return fmt.Sprintf("rows, %d, cols, %d, rows/rank, %d, total, %d, total/rank, %d, rbs, %d, cbs, %d, ranks, %d, threads, %d, timesteps, %d, time, %f, Mupdates/s, %f",
		l.Rows, l.Cols, l.RankRows(), l.Rows*l.Cols, l.RankCells(), l.RowBlock, l.ColBlock,
		l.Ranks, threads, cfg.Timesteps, s, updates/s/1e6)
}

// printSettings prints the lines of -v.
func printSettings(w io.Writer, cfg *conf.Run) {
	l := cfg.Layout
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	p("matrix size          : %d x %d (%d x %d in total)", l.Rows, l.Cols, l.Rows+2, l.Cols+2)
	p("rows per rank        : %d", l.RankRows())
	p("block size           : %d x %d", l.RowBlock, l.ColBlock)
	p("ranks                : %d", l.Ranks)
	p("timesteps            : %d", cfg.Timesteps)
	p("delta                : %g", cfg.Delta)
	p("variant              : %s", cfg.Variant)
	p("kernel               : %s", cfg.Kernel)
	if cfg.Variant == conf.TAMPIRMA {
		p("windows per halo     : %d", cfg.Wins)
	}
	p("warm-up              : %t", cfg.Warmup)
	if cfg.Snapshots {
		p("snapshots            : %d, every %d steps, %d bytes, sync %s", cfg.SnapshotCount(), cfg.NamFreq, cfg.SnapshotBytes(), cfg.NamSync)
	} else {
		p("snapshots            : none")
	}
	p("heat sources         : %d", len(cfg.Sources))
	for i, s := range cfg.Sources {
		p("  %d: row %g, column %g, range %g, temperature %g", i+1, s.Row, s.Col, s.Range, s.Temperature)
	}
}

// checkOutput checks before the run that a file can be written at its end.
func checkOutput(file string) error {
	if file == "" {
		return nil
	}
	if st, err := os.Stat(filepath.Dir(file)); err != nil {
		return &conf.UsageError{Err: fmt.Errorf("cannot write %s: %w", file, err)}
	} else if !st.IsDir() {
		return &conf.UsageError{Err: fmt.Errorf("cannot write %s: %s is not a directory", file, filepath.Dir(file))}
	}
	st, err := os.Stat(file)
	switch {
	case err == nil && st.IsDir():
		return &conf.UsageError{Err: fmt.Errorf("cannot write %s: it is a directory", file)}
	case err == nil && !st.Mode().IsRegular():
		return nil // opening a pipe would wait for its reader
	}
	f, oerr := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666) // without changing its content
	if oerr != nil {
		return &conf.UsageError{Err: fmt.Errorf("cannot write %s: %w", file, oerr)}
	}
	_ = f.Close()
	if err != nil {
		_ = os.Remove(file) // it did not exist
	}
	return nil
}

// writeFile creates and writes a file, and returns the first error, including that of closing it.
func writeFile(file string, write func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
