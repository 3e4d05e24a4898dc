// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package job starts the processes of a job and sees them to their end: it is what "weft run" does.
//
//	status, err := job.Run(job.Spec{Parts: []job.Part{{Ranks: 4, Program: "./prog"}}, Stdout: os.Stdout, Stderr: os.Stderr})
//
// States of a job, which one goroutine owns, that of Run:
//
//	running → ending → killing → over
//	running ─────────────────→ over      all ranks have ended by themselves
//
// running ends with the first failure (unless KeepGoing), with the time limit, and with an Abort of
// a rank. In ending, ranks have had SIGTERM; after Grace, or at a second SIGINT, it is killing and
// they have had SIGKILL. A SIGTERM or SIGHUP from outside is passed on and begins Grace too: a
// running job whose ranks take no notice becomes killing. In over, what is left of the ranks'
// process groups is ended likewise, the output is written to its end, and the files of the job are
// removed.
//
// Each rank is the leader of a process group, which gets the signals: what a rank has started goes
// with it.
//
// If the launcher itself is killed, its janitor kills the groups and removes the files: a second
// process, of the same program, that waits for the end of a pipe. On Linux the ranks are also
// killed by the kernel, through their parent-death signal, which belongs to a thread; that is why
// Run keeps its own.
//
// Output goes line by line: what one rank writes up to a newline stays together, up to [MaxLine]
// bytes. A longer line is passed on in pieces. For each rank there are two buffers of that size at
// most; a rank whose output is not taken waits in its write, as it would at a pipe.
package job
