// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Heat computes how heat spreads over a plate, with the Gauss–Seidel method. It is the benchmark of
// the OmpSs-2 and TAMPI examples, with snapshots in network-attached memory.
//
//	go run ./examples/heat            a few seconds; writes heat.gif
//	go run ./examples/heat -h         all flags
//	go run ./examples/heat view -h    the second program, which makes a GIF of the snapshots of a run
//
// The parts of the program:
//
//	cli.go        the command line: which program, errors, exit status
//	run.go        the first program: each rank from the start to the check
//	launched.go   the first program with ranks as processes
//	view.go       the second program
//	window.go     the names of windows
//	watch.go      statistics, profiles, traces and the live page
//	story.go      messages besides the result line
//	report.go     the result line, the settings, output files
//	internal/     conf (flags), grid (the matrix), kernel (the cell update), solve (the variants),
//	              snapshot (the content of the window), picture (GIF and PPM)
package main
