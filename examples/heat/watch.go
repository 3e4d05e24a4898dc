// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"weft/examples/heat/internal/conf"
	"weft/observe"
	"weft/trace"
)

// graphTasks is how many tasks are kept for -graph (about 100 MB).
const graphTasks = 200_000

// watch is what shows the tasks of a run; nil if nothing is to be seen.
type watch struct {
	cfg      *conf.Watch
	recorder *trace.Recorder
	observer *observe.Observer // nil if only a trace is wanted
	server   *http.Server
	address  string
}

// newWatch begins to watch, if that is wanted.
func newWatch(cfg *conf.Watch, annotate bool) (*watch, error) {
	if !cfg.Wanted() {
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
		return &watch{cfg: cfg, recorder: rec}, nil
	}
	o, err := observe.New(observe.Config{Graph: kept, Annotate: annotate, File: cfg.Trace})
	if err != nil {
		return nil, &conf.UsageError{Err: err}
	}
	w := &watch{cfg: cfg, observer: o, recorder: o.Recorder()}
	if cfg.HTTP == "" {
		return w, nil
	}
	l, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		_ = o.Close()
		return nil, &conf.UsageError{Err: fmt.Errorf("cannot serve the live page: %w", err)}
	}
	w.address = l.Addr().String()
	w.server = &http.Server{Handler: o.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = w.server.Serve(l) }() // until close
	return w, nil
}

// page is the address of the live page; empty if there is none.
func (w *watch) page() string {
	if w == nil {
		return ""
	}
	return w.address
}

// oracle is what runs record with that are not to be watched; nil: they do not. Tests have all that happens in them checked.
var oracle *trace.Recorder

// source is what the runtime and the ranks record with; nil if they do not.
func (w *watch) source() *trace.Recorder {
	if w == nil {
		return oracle
	}
	return w.recorder
}

// report writes what was seen. The tasks are over.
func (w *watch) report(stdout io.Writer) error {
	if w == nil || w.observer == nil {
		return nil
	}
	if w.cfg.Stats {
		if _, err := w.observer.Stats().WriteTo(stdout); err != nil {
			return err
		}
	}
	if f := w.cfg.Profile; f != "" {
		if err := writeFile(f, w.observer.WriteProfile); err != nil {
			return err
		}
	}
	if f := w.cfg.Graph; f != "" {
		g := w.observer.Graph()
		write := g.WriteSVG
		if filepath.Ext(f) == ".dot" {
			write = g.WriteDOT
		}
		return writeFile(f, func(out io.Writer) error { return write(out, observe.GraphOptions{Title: "heat"}) })
	}
	return nil
}

// close ends it. The runtime is closed.
func (w *watch) close() error {
	if w == nil {
		return nil
	}
	if w.server != nil {
		_ = w.server.Close()
	}
	return w.recorder.Close()
}
