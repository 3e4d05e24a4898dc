// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"weft/bench/internal/harness"
)

// A Row is one benchmark at one size. Ranks report it as a line of JSON to the process that started
// them.
type Row struct {
	Bench string  `json:"bench"`
	Size  int64   `json:"size"` // bytes
	Ranks int     `json:"ranks"`
	Reps  int64   `json:"reps"`
	Min   float64 `json:"tmin,omitempty"` // microseconds, of one operation
	Max   float64 `json:"tmax,omitempty"`
	Avg   float64 `json:"tavg,omitempty"`
	Rate  float64 `json:"mbps,omitempty"` // 10^6 bytes per second
	Msgs  float64 `json:"msgs,omitempty"` // messages per second

	// With overlap, in place of the times above: both at once, the operation, the computation, and
	// the hidden part of the shorter.
	Both    float64 `json:"ovrl,omitempty"`
	Pure    float64 `json:"pure,omitempty"`
	CPU     float64 `json:"cpu,omitempty"`
	Overlap float64 `json:"overlap,omitempty"` // percent

	Why string `json:"why,omitempty"` // what was wrong with the contents
}

// Err returns an error that wraps harness.ErrWrongAnswer if the contents were wrong.
func (r *Row) Err() error {
	if r.Why == "" {
		return nil
	}
	return harness.Wrong("%s of %d bytes, %d ranks: %s", r.Bench, r.Size, r.Ranks, r.Why)
}

// write writes the row as a line.
func (r *Row) write(w io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// linePrefix begins the lines of rows. Other lines of a program begin otherwise.
const linePrefix = `{"bench":`

// readRows calls row for every row in a program's output and writes the other lines to rest.
func readRows(in io.Reader, rest io.Writer, row func(Row)) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, linePrefix) {
			fmt.Fprintln(rest, line)
			continue
		}
		var r Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("cannot read a row: %w: %s", err, line)
		}
		row(r)
	}
	return lines.Err()
}
