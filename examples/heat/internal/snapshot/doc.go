// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot defines the content of a heat run's window in network-attached memory, for
// writers and readers.
//
// The window is managed contiguous and persistent; displacements are bytes. The region of rank r
// has, for each snapshot in turn, r's blocks in row-major order, each with its cells in row-major
// order. The region of rank 0 begins with a header of one page, which describes the snapshots: see
// Header.
//
//	rank 0    header | snapshot 0: block (0,0), (0,1), ... | snapshot 1: ... | ...
//	rank 1    snapshot 0: ... | snapshot 1: ... | ...
//
// Snapshot i is written in the window's epoch between fences 2i+1 and 2i+2, and the header together
// with snapshot 0. So the number of closed fences, which the store keeps, determines how many
// snapshots are complete, even if the run was killed.
//
// Numbers are little-endian in the header, and in the machine's byte order in the snapshots. The
// header has a mark of this byte order; a reader with the other one refuses the window.
package snapshot
