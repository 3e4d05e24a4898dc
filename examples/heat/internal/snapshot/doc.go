// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package snapshot is what a heat run leaves in its window of network-attached memory, for those
// who write it and those who read it.
//
// The window is managed contiguous and persistent; displacements are bytes. Rank r's region holds,
// for each snapshot in turn, r's blocks in row-major order, each with its cells in row-major order.
// Rank 0's region begins with a header of one page, which tells a reader all that it needs: see
// Header.
//
//	rank 0    header | snapshot 0: block (0,0), (0,1), ... | snapshot 1: ... | ...
//	rank 1    snapshot 0: ... | snapshot 1: ... | ...
//
// Snapshot i is written in the window's epoch between fences 2i+1 and 2i+2, and the header together
// with snapshot 0. So the number of closed fences, which the store keeps, says how many snapshots
// are complete, also if the run was killed.
//
// Numbers are little-endian in the header and in the machine's order in the snapshots; the header
// says which, and a reader of the other order refuses it.
package snapshot
