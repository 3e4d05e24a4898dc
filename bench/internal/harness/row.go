// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"io"
	"slices"
)

// A Row is the result of one peer in one group. Its JSON form is the program's file format.
type Row struct {
	Name    string  `json:"name"`
	Peer    string  `json:"peer"`
	Workers int     `json:"workers"`
	Ranks   int     `json:"ranks"`
	Size    int64   `json:"size"`
	Unit    string  `json:"unit"`
	Median  float64 `json:"median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Runs    int     `json:"runs"`
	OK      bool    `json:"ok"`
}

// Summarize fills in the row's statistics from its samples.
func (r *Row) Summarize(samples []float64) {
	r.Runs = len(samples)
	if len(samples) == 0 {
		return
	}
	s := slices.Sorted(slices.Values(samples))
	r.Min, r.Max = s[0], s[len(s)-1]
	mid := len(s) / 2
	r.Median = s[mid]
	if len(s)%2 == 0 {
		r.Median = (s[mid-1] + s[mid]) / 2
	}
}

// WriteJSON writes the rows as an indented JSON array, also when there are none.
func WriteJSON(w io.Writer, rows []Row) error {
	if rows == nil {
		rows = []Row{}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}
