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

// adoptOrphans makes this process the parent of what ranks leave behind, so that reapGroup can take
// notice of its end. Init may be slow at that, and in a container may never do it.
func adoptOrphans() {
	const prSetChildSubreaper = 36 // since Linux 3.4; without it, endLeftovers takes its time
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// dying reports whether a process is ending, or has ended. What others can notice of that, such as
// the end of its connections, comes after the kernel has marked it so.
func dying(pid int) bool {
	const exiting = 0x4 // PF_EXITING, in the flags of a task
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		_, none := os.Stat("/proc/self/stat")
		return none == nil // it has been waited for, and the news is on its way
	}
	// After the name, which may have anything in it: state, five numbers, flags.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(f[6]), 10, 64)
	return err == nil && flags&exiting != 0 || f[0][0] == 'Z' || f[0][0] == 'X'
}

// killMarked kills all processes of this user that have a variable in the environment that they
// were started with, and returns how many.
func killMarked(variable string) (n int) {
	mark := append([]byte(variable), 0)
	list, _ := os.ReadDir("/proc")
	for _, d := range list {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// of others it cannot be read; of a zombie it is empty
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		marked := bytes.HasPrefix(env, mark) || bytes.Contains(env, append([]byte{0}, mark...))
		if err == nil && marked && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}
