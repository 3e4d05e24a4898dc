// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/bench/internal/figures"
)

const plotName = "plot"

const plotUsage = `usage: go run ./bench plot [options] FILE.json...

Draws plots of rows that bench wrote with -json, as SVG files: NAME.svg in the directory that -out names. Several files are taken
together; a row may be in one of them only. Rows that failed their check are not drawn. The same rows give the same bytes.

Without -plots, every plot is drawn that the rows suffice for. The plots are:

`

// plotOptions is the command line of the command plot.
type plotOptions struct {
	files   []string
	out     string
	plots   []figures.Plot
	all     bool // the plots are not named, and some may lack their rows
	caption string
	table   string
}

func plotNames() (names []string) {
	for _, p := range figures.Plots() {
		names = append(names, p.Name)
	}
	return names
}

func parsePlot(args []string, stderr io.Writer) (*plotOptions, error) {
	o := new(plotOptions)
	fs := flag.NewFlagSet("bench plot", flag.ContinueOnError)
	var list string
	fs.StringVar(&o.out, "out", ".", "write the plots to `DIR`, which must exist")
	fs.StringVar(&list, "plots", "", "draw the plots of the comma-separated `LIST`: "+strings.Join(plotNames(), ", ")+" (default all that the rows suffice for)")
	fs.StringVar(&o.caption, "caption", "", "`TEXT` below each plot: the machine and the commit that the figures belong to")
	fs.StringVar(&o.table, "table", "", "also write the main figures to `FILE` as a Markdown table; - is standard output")
	usage := plotUsage
	for _, p := range figures.Plots() {
		usage += fmt.Sprintf("  %-12s %s\n  %-12s needs %s\n", p.Name, p.Shows, "", p.Needs)
	}
	for rest := args; ; rest = fs.Args()[1:] { // options may follow files
		if err := parse(fs, rest, usage+"\n", stderr); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		o.files = append(o.files, fs.Arg(0))
	}
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("plot: no file: name the files that bench wrote with -json (-h lists the options)"))
	}
	o.plots, o.all = figures.Plots(), list == ""
	if !o.all {
		o.plots = nil
		for name := range strings.SplitSeq(list, ",") {
			i := slices.Index(plotNames(), strings.TrimSpace(name))
			if i < 0 {
				errs = append(errs, fmt.Errorf("-plots: no plot %q; there are %s", name, strings.Join(plotNames(), ", ")))
				continue
			}
			o.plots = append(o.plots, figures.Plots()[i])
		}
	}
	if d, err := os.Stat(o.out); err != nil {
		errs = append(errs, fmt.Errorf("-out: %w; name a directory that exists", err))
	} else if !d.IsDir() {
		errs = append(errs, fmt.Errorf("-out: %s is not a directory", o.out))
	}
	if err := canWrite(o.table); err != nil {
		errs = append(errs, fmt.Errorf("-table: %w", err))
	}
	return o, errors.Join(errs...)
}

// drawPlots runs the command. It draws everything before it writes anything.
func drawPlots(args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parsePlot(args, stderr)
	if err != nil {
		return exitUsage, err
	}
	rows, failed, err := figures.Read(o.files)
	if err != nil {
		return exitFailed, err
	}
	if failed > 0 {
		fmt.Fprintf(stderr, "bench: plot: rows that failed their check, and are left out: %d\n", failed)
	}
	var table bytes.Buffer
	if o.table != "" {
		if err := figures.WriteTable(&table, rows); err != nil {
			return exitFailed, err
		}
	}
	files := map[string][]byte{}
	var names []string
	for _, p := range o.plots {
		svg, err := p.SVG(rows, o.caption)
		if o.all && errors.Is(err, figures.ErrMissing) {
			fmt.Fprintf(stderr, "bench: %v\n", err)
			continue
		}
		if err != nil {
			return exitFailed, err
		}
		name := filepath.Join(o.out, p.Name+".svg")
		names, files[name] = append(names, name), svg
	}
	if len(names) == 0 && o.table == "" {
		return exitFailed, fmt.Errorf("plot: the rows of %s suffice for none of the plots", strings.Join(o.files, ", "))
	}
	for _, name := range names {
		if err := os.WriteFile(name, files[name], 0o666); err != nil {
			return exitFailed, err
		}
		fmt.Fprintf(stderr, "bench: %s\n", name)
	}
	switch o.table {
	case "":
	case standardOutput:
		_, err = stdout.Write(table.Bytes())
	default:
		err = os.WriteFile(o.table, table.Bytes(), 0o666)
	}
	if err != nil {
		return exitFailed, err
	}
	return exitOK, nil
}
