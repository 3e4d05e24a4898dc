// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package deadlock finds deadlocks of the ranks of a run, which are in one process or several. Each
// process has a [Watch]. When nothing has happened in it for a period, it has its [Host] look
// closer; what that finds, the first process gathers, and asks all again before it believes it. The
// argument is in comm/README.md, "Deadlocks".
package deadlock
