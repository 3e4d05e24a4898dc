// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package native builds and runs the peers that are not written in Go, from the sources in
// bench/peers.
//
// A source is written for a programming model, and a tool chain builds it: OpenMP sources are
// shared by gcc with libgomp and clang with libomp. A [Kit] builds each program when it is first
// needed, in a temporary directory that Close removes:
//
//	kit := native.NewKit(sources)
//	defer kit.Close()
//	proc, err := kit.Start(ctx, native.Libomp, "tasks", "task/chain", "1000000", "2")
//	if errors.Is(err, harness.ErrSkipped) { … } // the error says which packages to install
//	ns, err := proc.Ask("sample 0 0 100")
//
// A program answers each line on its standard input with one line: a figure, then "ok", or "wrong"
// and the reason. It keeps running between samples, so its threads are warm, as weft's are. It ends
// when its input ends.
//
// Nothing here is safe for concurrent use. Ask blocks until the program has answered. Cancelling
// the context of Start kills the program, which ends Ask.
package native
