// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"weft/examples/heat/internal/conf"
	"weft/examples/heat/internal/picture"
	"weft/examples/heat/internal/snapshot"
	"weft/nam"
)

// view is the second program.
func view(ctx context.Context, cfg *conf.View, stdout, stderr io.Writer) error {
	if err := checkOutput(cfg.GIF); err != nil {
		return err
	}
	store, err := openStore(cfg.NamDir, true)
	if errors.Is(err, fs.ErrNotExist) {
		dir := cfg.NamDir
		if dir == "" {
			dir = nam.DefaultDir()
		}
		return &conf.UsageError{Err: fmt.Errorf("no store in %s: run heat first, or name its store with -nam-dir", dir)}
	}
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if cfg.Window == "" {
		if cfg.Window, err = onlyWindow(store); err != nil {
			return err
		}
	}
	m, err := makeMovie(ctx, store, cfg, stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s: %s\n", cfg.GIF, m)
	return err
}

// openStore opens the store. With mustExist, it does not create one.
func openStore(dir string, mustExist bool) (*nam.Store, error) {
	s, err := nam.Open(dir, nam.Config{MustExist: mustExist})
	if err != nil {
		return nil, fmt.Errorf("cannot open the store: %w (-nam-dir names another directory)", err)
	}
	return s, nil
}

// onlyWindow returns the window to view if none is named.
func onlyWindow(store *nam.Store) (string, error) {
	list, err := store.List()
	if err != nil {
		return "", err
	}
	switch names := complete(list); len(names) {
	case 0:
		return "", &conf.UsageError{Err: fmt.Errorf("no window in %s: run heat first, or name its store with -nam-dir", store.Dir())}
	case 1:
		return names[0], nil
	default:
		return "", &conf.UsageError{Err: fmt.Errorf("which -window? %s has %s", store.Dir(), strings.Join(names, ", "))}
	}
}

// complete returns the names of the windows that can be attached: not those that are being created
// or deleted.
func complete(list []*nam.Allocation) (names []string) {
	for _, a := range list {
		if a.State == "ready" || a.State == "unsynced" {
			names = append(names, a.Name)
		}
	}
	return names
}

// movieSummary describes a movie.
type movieSummary struct {
	window           string
	frames, of, freq int
	// snapshots that are left out, because they may not be on the disk
	unsynced int
}

func (m *movieSummary) String() string {
	s := fmt.Sprintf("%d frames, one every %d steps, from window %s", m.frames, m.freq, m.window)
	if m.frames < m.of {
		s += fmt.Sprintf(" (of %d planned)", m.of)
	}
	if m.unsynced > 0 {
		s += fmt.Sprintf("; without %d that may not have been on the disk when the machine stopped (weft nam accept %s accepts them as they are)", m.unsynced, m.window)
	}
	return s
}

// makeMovie reads the complete snapshots of a window and writes the GIF.
func makeMovie(ctx context.Context, store *nam.Store, cfg *conf.View, stderr io.Writer) (*movieSummary, error) {
	var sum *movieSummary
	err := snapshot.Read(ctx, store, cfg.Window, func(r *snapshot.Reader) error {
		l := r.Header.Layout
		step, end := newProgress(cfg.Progress, stderr, r.Complete, "frames")
		defer end()
		m := picture.NewMovie(l.Rows, l.Cols, r.Complete)
		for n := range r.Complete {
			if err := r.Rows(n, func(row, col int, cells []float64) { m.Add(n, row, col, cells) }); err != nil {
				return err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if step != nil {
				step()
			}
		}
		sum = &movieSummary{cfg.Window, r.Complete, r.Header.Snapshots, r.Header.Freq, r.Unsynced}
		return writeFile(cfg.GIF, m.Encode)
	})
	if errors.Is(err, nam.ErrName) {
		list, err := store.List()
		if err != nil {
			return nil, err
		}
		return nil, noSuchWindow(list, store.Dir(), cfg.Window)
	}
	return sum, err
}

// noSuchWindow returns an error that says why a window cannot be viewed, and which windows can.
// list has the windows of the store in dir.
func noSuchWindow(list []*nam.Allocation, dir, name string) error {
	for _, a := range list {
		if a.Name == name && a.State == "creating" {
			return &conf.UsageError{Err: fmt.Errorf("window %q in %s is being created by %s: try again later", name, dir, a.Creator)}
		}
	}
	have := complete(list)
	if len(have) == 0 {
		have = []string{"none"}
	}
	return &conf.UsageError{Err: fmt.Errorf("no window %q in %s; the store has: %s", name, dir, strings.Join(have, ", "))}
}
