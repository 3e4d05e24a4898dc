// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package figures draws plots, and makes the table of the main figures, from rows that bench wrote
// with -json:
//
//	rows, failed, err := figures.Read(files)
//	for _, p := range figures.Plots() {
//		svg, err := p.SVG(rows, "AMD EPYC, 2 processors, commit 1a2b3c4")
//		…
//	}
//	err = figures.WriteTable(w, rows)
//
// The same rows give the same bytes. A [Plot] has a name and names the rows that it needs. Its
// error wraps [ErrMissing] if there are none. Rows that failed their check are not drawn.
//
// Files: rows.go reads files and finds rows; plots.go lists the plots; tasks.go, messages.go and
// heat.go make one each, or a few; sheet.go lays panels, legend and caption out and writes SVG;
// bars.go, lines.go, axes.go and style.go are what panels are made of; table.go is the table.
//
// The functions keep no state and may be called concurrently.
package figures
