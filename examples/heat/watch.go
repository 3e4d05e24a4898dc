// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"weft/examples/heat/internal/conf"
	"weft/observe"
	"weft/trace"
)

// graphTasks is how many tasks are kept for -graph (about 100 MB).
const graphTasks = 200_000

// watch observes the tasks of a run; nil if nothing is observed.
type watch struct {
	cfg      *conf.Watch
	recorder *trace.Recorder
	observer *observe.Observer // nil if only a trace is requested
	server   *http.Server
	address  string
	rank     int // rank of this process if it is one of several, else -1
}

// newWatch begins to observe, if the flags say so.
func newWatch(cfg *conf.Watch, annotate bool) (*watch, error) {
	if !cfg.Requested() {
		return nil, nil
	}
	kept := 0
	if cfg.Graph != "" || cfg.HTTP != "" {
		kept = graphTasks
	}
	if !cfg.Tasks() && !annotate {
		rec, err := trace.New(trace.Options{File: cfg.Trace})
		if err != nil {
			return nil, &conf.UsageError{Err: err}
		}
		return &watch{cfg: cfg, recorder: rec, rank: -1}, nil
	}
	o, err := observe.New(observe.Config{Graph: kept, Stacks: cfg.Profile != "" || cfg.HTTP != "", Annotate: annotate, File: cfg.Trace})
	if err != nil {
		return nil, &conf.UsageError{Err: err}
	}
	w := &watch{cfg: cfg, observer: o, recorder: o.Recorder(), rank: -1}
	if cfg.HTTP == "" {
		return w, nil
	}
	l, err := o.Listen(cfg.HTTP)
	if err != nil {
		_ = o.Close()
		return nil, &conf.UsageError{Err: fmt.Errorf("cannot serve the live page: %w", err)}
	}
	w.address = l.Addr().String()
	w.server = &http.Server{Handler: o.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = w.server.Serve(l) }() // until close
	return w, nil
}

// page returns the address of the live page; empty if there is none.
func (w *watch) page() string {
	if w == nil {
		return ""
	}
	return w.address
}

// testRecorder records runs that are not observed; nil: they are not recorded. Tests check all
// their runs with it.
var testRecorder *trace.Recorder

// source returns the recorder of the runtime and the ranks; nil if there is none.
func (w *watch) source() *trace.Recorder {
	if w == nil {
		return testRecorder
	}
	return w.recorder
}

// report writes the results. The tasks must be complete.
func (w *watch) report(stdout io.Writer) error {
	if w == nil || w.observer == nil {
		return nil
	}
	if w.cfg.Stats {
		if _, err := w.observer.Stats().WriteTo(stdout); err != nil {
			return err
		}
	}
	return w.files()
}

// files writes the files that each process of a run has.
func (w *watch) files() error {
	if w == nil || w.observer == nil {
		return nil
	}
	if f := w.own(w.cfg.Profile); f != "" {
		if err := writeFile(f, w.observer.WriteProfile); err != nil {
			return err
		}
	}
	if f := w.own(w.cfg.Graph); f != "" {
		g := w.observer.Graph()
		write := g.WriteSVG
		if filepath.Ext(f) == ".dot" {
			write = g.WriteDOT
		}
		return writeFile(f, func(out io.Writer) error { return write(out, observe.GraphOptions{Title: "heat"}) })
	}
	return nil
}

// own returns this process's name for a file that several processes write: p.rank1.pb.gz for
// p.pb.gz.
func (w *watch) own(file string) string {
	if file == "" || w.rank < 0 {
		return file
	}
	dir, base := filepath.Split(file)
	stem, ext, found := strings.Cut(base, ".")
	if found {
		ext = "." + ext
	}
	return fmt.Sprintf("%s%s.rank%d%s", dir, stem, w.rank, ext)
}

// close ends the observation. The runtime must be closed.
func (w *watch) close() error {
	if w == nil {
		return nil
	}
	if w.server != nil {
		_ = w.server.Close()
	}
	return w.recorder.Close()
}
