// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent lets the kernel kill a rank when the launcher is gone.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// self returns a path of this program, which works even if its file was removed or replaced.
func self() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes this process the parent of processes that ranks leave behind, so that
// reapGroup can reap them. Init may be slow at that, and in a container may never do it.
func adoptOrphans() {
	const prSetChildSubreaper = 36 // since Linux 3.4; without it, endLeftovers takes its time
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// dying reports whether a process is ending, or has ended. The kernel marks the process before
// other processes can notice its end, for instance by the end of a connection.
func dying(pid int) bool {
	const exiting = 0x4 // PF_EXITING, in the flags of a task
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, none := os.Stat("/proc/self/stat")
		return none == nil // the process was reaped, and its event is on the way
	}
	// After the name, which may contain anything: state, five numbers, flags.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(f[6]), 10, 64)
	return err == nil && flags&exiting != 0 || f[0][0] == 'Z' || f[0][0] == 'X'
}

// killMarked kills all processes of this user that were started with a variable in their
// environment, and returns how many.
func killMarked(variable string) (n int) {
	mark := append([]byte(variable), 0)
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// unreadable for processes of other users; empty for a zombie
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		marked := bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...))
		if err == nil && marked && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
