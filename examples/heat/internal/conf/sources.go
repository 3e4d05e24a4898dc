// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package conf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"weft/examples/heat/internal/grid"
)

// DefaultSources are used when no file is named and there is no heat.conf.
var DefaultSources = []grid.Source{
	{Row: 0, Col: 0, Range: 1, Temperature: 2.5},
	{Row: 1, Col: 0.5, Range: 1, Temperature: 2.5},
}

// DefaultSourcesFile is read when it exists and no other file is named.
const DefaultSourcesFile = "heat.conf"

// maxSources bounds the count in the first line, so that a wrong file is not taken for a list.
const maxSources = 1 << 20

// sourcesSyntax describes the format of a sources file; it ends every error about one.
const sourcesSyntax = "line 1 is the number of sources, 1 or more; then one line per source: row col range temperature"

// LoadSources reads the sources from a file. If the name is empty, it reads DefaultSourcesFile or,
// if that does not exist, returns DefaultSources.
func LoadSources(file string) ([]grid.Source, error) {
	name := file
	if name == "" {
		name = DefaultSourcesFile
	}
	f, err := os.Open(name)
	if err != nil {
		if file == "" && errors.Is(err, fs.ErrNotExist) {
			return DefaultSources, nil
		}
		return nil, fmt.Errorf("sources file: %w", err)
	}
	defer func() { _ = f.Close() }()
	return ParseSources(name, f)
}

// ParseSources reads sources; errors refer to the input by name. Empty lines, and the text after a
// #, are skipped.
func ParseSources(name string, r io.Reader) ([]grid.Source, error) {
	var (
		sources []grid.Source
		want    = -1 // not read yet
		line    int
	)
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s (%s)", name, line, fmt.Sprintf(format, args...), sourcesSyntax)
	}
	in := bufio.NewScanner(r)
	for in.Scan() {
		line++
		text, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(text)
		switch {
		case len(fields) == 0:
		case want < 0:
			n, err := strconv.Atoi(fields[0])
			if err != nil || len(fields) != 1 || n < 1 || n > maxSources {
				return nil, bad("the number of sources is %q, legal is one whole number from 1 to %d", strings.TrimSpace(text), maxSources)
			}
			want = n
		case len(sources) == want:
			return nil, bad("one line more than the %d sources announced", want)
		default:
			s, err := parseSource(fields)
			if err != nil {
				return nil, bad("%v", err)
			}
			sources = append(sources, s)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	if want < 0 {
		return nil, bad("the file is empty")
	}
	if len(sources) != want {
		return nil, bad("the file ends after %d of %d sources", len(sources), want)
	}
	return sources, nil
}

// parseSource parses one source from the fields of its line.
func parseSource(fields []string) (grid.Source, error) {
	names := []string{"row", "col", "range", "temperature"}
	if len(fields) != len(names) {
		return grid.Source{}, fmt.Errorf("a source has %d numbers, this line has %d", len(names), len(fields))
	}
	var v [4]float64
	for i, f := range fields {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return grid.Source{}, fmt.Errorf("%s is %q, legal is a finite number", names[i], f)
		}
		v[i] = x
	}
	s := grid.Source{Row: v[0], Col: v[1], Range: v[2], Temperature: v[3]}
	switch {
	case s.Row < 0 || s.Row > 1:
		return s, fmt.Errorf("row is %s, legal is 0 to 1", fields[0])
	case s.Col < 0 || s.Col > 1:
		return s, fmt.Errorf("col is %s, legal is 0 to 1", fields[1])
	case s.Range <= 0:
		return s, fmt.Errorf("range is %s, legal is above 0", fields[2])
	}
	return s, nil
}
