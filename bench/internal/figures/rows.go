// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"weft/bench/internal/harness"
)

// ErrMissing is wrapped by the error of a plot, or of the table, whose rows are missing.
var ErrMissing = errors.New("the rows for it are missing")

// Rows are the rows of all files, in their order.
type Rows []harness.Row

// key is what identifies a row.
type key struct {
	name, peer     string
	workers, ranks int
	size           int64
}

func keyOf(r *harness.Row) key { return key{r.Name, r.Peer, r.Workers, r.Ranks, r.Size} }

// Read reads files that bench wrote with -json. It leaves out the rows that failed their check, and
// returns their number. A row may be in one of the files only.
func Read(files []string) (rows Rows, failed int, err error) {
	in := map[key]string{}
	for _, name := range files {
		list, err := readFile(name)
		if err != nil {
			return nil, 0, err
		}
		for i := range list {
			r := &list[i]
			if other, twice := in[keyOf(r)]; twice {
				return nil, 0, fmt.Errorf("%s: the row %s of peer %s (size %d, ranks %d, workers %d) is also in %s; give each row once",
					name, r.Name, r.Peer, r.Size, r.Ranks, r.Workers, other)
			}
			in[keyOf(r)] = name
			if !r.OK {
				failed++
				continue
			}
			rows = append(rows, *r)
		}
	}
	return rows, failed, nil
}

func readFile(name string) ([]harness.Row, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err // the error names the file
	}
	rows, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: it is not a file that bench writes with -json, an array of rows: %w", name, err)
	}
	return rows, nil
}

func parse(data []byte) ([]harness.Row, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var rows []harness.Row
	if err := dec.Decode(&rows); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is more after the array, from byte %d on", dec.InputOffset())
	}
	if len(rows) == 0 {
		return nil, errors.New("the array is empty")
	}
	for i, r := range rows {
		if r.Name == "" || r.Peer == "" || r.Unit == "" {
			return nil, fmt.Errorf("row %d lacks a name, a peer or a unit", i)
		}
		if r.OK && (r.Runs < 1 || r.Min > r.Median || r.Median > r.Max) {
			return nil, fmt.Errorf("row %d, %s of peer %s: runs %d, and min %v, median %v, max %v, which must rise", i, r.Name, r.Peer, r.Runs, r.Min, r.Median, r.Max)
		}
	}
	return rows, nil
}

// having returns the rows for which keep returns true.
func (rows Rows) having(keep func(r *harness.Row) bool) (out Rows) {
	for i := range rows {
		if keep(&rows[i]) {
			out = append(out, rows[i])
		}
	}
	return out
}

// of returns the rows of a workload and a peer.
func (rows Rows) of(name, peer string) Rows {
	return rows.having(func(r *harness.Row) bool { return r.Name == name && r.Peer == peer })
}

// first returns the first row.
func (rows Rows) first() (harness.Row, bool) {
	if len(rows) == 0 {
		return harness.Row{}, false
	}
	return rows[0], true
}

// withWorkers returns the rows with the greatest number of workers that a peer has in any of them,
// and that number. Peers are compared at one number of workers.
func (rows Rows) withWorkers(peer string) (out Rows, workers int) {
	for i := range rows {
		if rows[i].Peer == peer {
			workers = max(workers, rows[i].Workers)
		}
	}
	return rows.having(func(r *harness.Row) bool { return r.Workers == workers }), workers
}

// named returns the rows of some workloads.
func (rows Rows) named(names ...string) Rows {
	return rows.having(func(r *harness.Row) bool { return slices.Contains(names, r.Name) })
}

// peers lists the peers of the rows, in the order of their first rows.
func (rows Rows) peers() (list []string) {
	for i := range rows {
		if !slices.Contains(list, rows[i].Peer) {
			list = append(list, rows[i].Peer)
		}
	}
	return list
}
