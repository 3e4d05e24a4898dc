// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A mutant may do harm: remove the root directory instead of refusing to, or kill every process
// instead of a group. So tests run in a cell: a set of namespaces in which all mounts are read-only
// except a few directories, and no outside process can be named. When the first process of the cell
// ends, the kernel kills all its other processes.

// cellArg is the first argument of this program if it runs as the first process of a cell. The
// other arguments are the writable directories, joined by colons, the Go cache, and the command.
const cellArg = "-mutate-cell"

// noCell is the exit status if the cell cannot be made; 128 and above are signals.
const noCell = 125

// mostMemory bounds the memory of a mutant, so that an endless allocation ends only the mutant.
const mostMemory = 6 << 30

// inCell changes c to run in a cell. It works for any user if the system allows user namespaces.
// Writes to the Go cache are lost with the cell.
func inCell(c *exec.Cmd, cache string, writable ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.Args = slices.Concat([]string{self, cellArg, strings.Join(writable, ":"), cache, c.Path}, c.Args[1:])
	c.Path = self
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		c.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN}
	}
	return nil
}

// isCell reports whether this process is the first of a cell; then main must call cell.
func isCell() bool { return len(os.Args) > 4 && os.Args[1] == cellArg }

// cell is the main function of the first process of a cell. It runs the command, waits for all
// processes of the cell, and exits as the command does.
func cell() {
	if err := walls(strings.Split(os.Args[2], ":"), os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate: no cell for tests:", err)
		os.Exit(noCell)
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT) // signals of the terminal are for the caller
	pid, err := syscall.ForkExec(os.Args[4], os.Args[4:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}})
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %s: %v\n", os.Args[4], err)
		os.Exit(noCell)
	}
	for {
		var s syscall.WaitStatus
		switch p, err := syscall.Wait4(-1, &s, 0, nil); {
		case err == syscall.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "mutate: wait:", err)
			os.Exit(noCell)
		case p != pid:
		case s.Signaled():
			os.Exit(128 + int(s.Signal()))
		case s.Exited():
			os.Exit(s.ExitStatus())
		}
	}
}

// walls makes all mounts read-only except the writable directories, and gives the cell its own
// /proc and /dev/shm.
func walls(writable []string, cache string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount of / as private: %w", err)
	}
	for _, dir := range writable {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount of %s: %w", dir, err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("mount_setattr of /: %w", err)
	}
	for _, dir := range writable {
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("mount_setattr of %s: %w", dir, err)
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", flags, ""); err != nil {
		return fmt.Errorf("mount of /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount of /dev/shm: %w", err)
	}
	if err := layOver(cache); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: mostMemory, Max: mostMemory})
}

// layOver mounts an overlay in memory over a directory.
func layOver(dir string) error {
	const above = "/dev/shm"
	upper, work := above+"/.upper", above+"/.work"
	if err := errors.Join(os.Mkdir(upper, 0o700), os.Mkdir(work, 0o700)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work+",userxattr"); err != nil {
		return fmt.Errorf("mount over %s: %w", dir, err)
	}
	return nil
}
