// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package job starts the processes of a job and ends what is left of them: it implements "weft
// run".
//
//	parts := []job.Part{{Ranks: 4, Program: "./prog"}}
//	status, err := job.Run(job.Spec{Parts: parts, Stdout: os.Stdout, Stderr: os.Stderr})
//
// States of a job, which the goroutine of Run owns:
//
//	running → ending → killing → over
//	running ─────────────────→ over      all ranks have ended by themselves
//
// running ends with the first failure (unless KeepGoing), with the time limit, or with an Abort of
// a rank. In ending, the launcher has sent the ranks SIGTERM. After Grace, or at a second SIGINT or
// SIGTERM, the job becomes killing and the launcher sends SIGKILL. The launcher also passes on a
// SIGTERM or SIGHUP from outside, which begins Grace too: a running job whose ranks ignore the
// signal becomes killing. In over, the launcher ends what is left of the ranks' process groups in
// the same way, writes the rest of the output, and removes the files of the job.
//
// Each rank is the leader of a process group, which gets the signals. So they reach the processes
// that a rank has started too.
//
// If the launcher itself is killed, its janitor kills the groups and removes the files. The janitor
// is a second process of the same program that waits for the end of a pipe. On Linux the kernel
// also kills the ranks, by their parent-death signal. That signal belongs to the thread that
// started the rank, so Run keeps its thread.
//
// Output is passed on line by line: the bytes that one rank writes up to a newline stay together,
// up to [MaxLine] bytes. A longer line is passed on in pieces. Each rank has two buffers of at most
// that size. A rank whose output is not read blocks in its write, as it would at a pipe.
package job
