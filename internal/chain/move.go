// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !weftlint || !race || explore

package chain

import "slices"

// insertAt is slices.Insert for one element.
func insertAt[E any](s []E, i int, v E) []E { return slices.Insert(s, i, v) }

// removeAt is slices.Delete.
func removeAt[E any](s []E, i, j int) []E { return slices.Delete(s, i, j) }

// copyOf returns the elements of s in an array for n.
func copyOf[E any](s []E, n int) []E { return append(make([]E, 0, n), s...) }
