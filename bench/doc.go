// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Bench measures weft side by side with what a Go programmer would write instead, and with peers
// from outside Go.
//
//	go run ./bench                           # everything, as a table
//	go run ./bench -list                     # what there is
//	go run ./bench -run 'task/' -peers       # task workloads, also against OpenMP and oneTBB
//	go run ./bench -run msg/ -json msg.json  # rows for other programs
//	go run ./bench -run task/chain -only weft -top 20
//	go run ./bench taskbench -type fft       # one graph of Task Bench
//	go run ./bench metg -type fft -peers     # its minimum effective task granularity
//	go run ./bench imb -fabric tcp -peers    # messages between processes, with Open MPI and MPICH
//	go run ./bench watching                  # what statistics, a profile and a timeline cost
//	go run ./bench plot -out plots msg.json  # plots of rows that were written with -json
//
// docs/benchmarks.md says what the figures mean, docs/measurements.md how each is measured and
// checked.
package main
