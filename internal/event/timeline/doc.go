// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline makes of recorded events a timeline in the format of Chrome's trace viewer, which Perfetto reads, too.
//
//	err := timeline.Write(file, "run.weft")
//
// The runtimes and the ranks are processes of the timeline. Slots are threads: what a task does on a slot is a slice, one on top of another
// where a task runs in the wait of another; a parked slot has a slice that says so; a steal is a mark. The time in which a task has no slot
// is an asynchronous slice, and so is a request, from its beginning to its end. A window has a thread of its rank's, on
// which its epochs are slices, and what is durable is a mark; its operations are asynchronous slices. An arrow leads from the end of a task to the
// beginning of the one that it made ready, and from where a message was sent to where it was matched; in a
// collective, to where a rank is done, from where the last one begins that it had to wait for.
//
// The writer streams: it has what is open in memory, and nothing else. [Verify] checks a timeline against the rules of the
// format, as far as viewers depend on them; it is the oracle of the tests.
package timeline
