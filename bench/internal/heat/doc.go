// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package heat measures the heat program: the whole of weft at work, in million cell updates per
// second.
//
// Each sample runs the program as a process, with its check on (bit by bit against a sequential
// sweep), and reads the rate from the line that the program prints. The peer sequential is the
// plain loop, one row at a time on one worker; in heat/snapshots the peer is the same run without
// snapshots.
package heat
