// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Heat computes how warmth spreads over a plate, with the Gauss–Seidel method: the benchmark of the
// OmpSs-2 and TAMPI examples, whose snapshots go into network-attached memory.
//
//	go run ./examples/heat            a few seconds; writes heat.gif
//	go run ./examples/heat -h         all flags
//	go run ./examples/heat view -h    the second program, which makes a GIF of the snapshots of a run
//
// How the program is made:
//
//	cli.go        the command line: which program, errors, exit status
//	run.go        the first program: what each rank does, from the start to the check
//	view.go       the second program
//	window.go     the names of windows
//	story.go      what a run tells beside its result
//	report.go     the result line and the texts around it
//	internal/     conf (flags), grid (the matrix), kernel (the cell update), solve (the variants), snapshot (what
//	              is in the window), picture (GIF and PPM)
package main
