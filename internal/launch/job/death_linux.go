// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import "syscall"

// dieWithParent has the kernel kill a rank when the launcher is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// self is this program, even if its file has been removed or replaced.
func self() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of what ranks leave behind, so that reapGroup can take notice of its end. Init
// may be slow at that, and in a container may never do it.
func adoptOrphans() {
	const prSetChildSubreaper = 36 // since Linux 3.4; without it, endLeftovers takes its time
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}
