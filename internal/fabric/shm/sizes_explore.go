//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

// Small enough to run all orders: a ring of four lines, and frames of one or two.
const (
	ringSize = 4 * lineSize
	maxLag   = 2 * lineSize
	MaxFrame = 2*lineSize - headSize
	piece    = lineSize - headSize

	allOfRing  = 2
	partOfRing = 2 * lineSize

	sharedSize = 0
	pageSize   = 4 * lineSize
)
