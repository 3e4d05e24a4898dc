// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

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

// killMarked kills all processes of this user that have a variable in the environment that they were started with, and
// returns how many.
func killMarked(variable string) (n int) {
	mark := append([]byte(variable), 0)
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ") // of others it cannot be read; of a zombie it is empty
		if err != nil || !(bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...))) {
			continue
		}
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
