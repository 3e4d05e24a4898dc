// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package picture turns temperatures into colours: a GIF animation of snapshots and a PPM image of
// a matrix.
//
//	m := picture.NewMovie(rows, cols, frames)
//	m.Add(0, row, col, cells) // any pieces of rows, in any order, until every frame is whole
//	err := m.Encode(w)
//
// A Movie stores scaled frames, so its memory does not depend on the size of the matrix. It is not
// safe for concurrent use.
package picture
