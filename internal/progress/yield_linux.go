// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import "golang.org/x/sys/unix"

// yield yields the processor to another process.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
