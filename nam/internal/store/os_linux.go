// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openSafely are the flags that openFile adds.
const openSafely = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// notRegular says whether an open failed at a symbolic link, a directory, or a socket, a pipe or a
// device without another end.
func notRegular(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

// bootID is the kernel's ID of the current boot, the same in all containers.
func bootID() (id ID, ok bool) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, false
	}
	n, err := hex.Decode(id[:], bytes.ReplaceAll(bytes.TrimSpace(b), []byte("-"), nil))
	return id, err == nil && n == len(id) && id != ID{}
}

// hasData says whether a file may have anything but zeros. Blocks that were only reserved count as
// zeros and are not read.
func hasData(f *os.File) (bool, error) {
	buf := make([]byte, 1<<16)
	for off := int64(0); ; {
		next, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return false, nil
		}
		if err == nil && next > off {
			off = next
		}
		n, err := f.ReadAt(buf, off)
		if len(bytes.TrimLeft(buf[:n], "\x00")) > 0 {
			return true, nil
		}
		if off += int64(n); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
}

// tryLock takes a flock without waiting. false: another open file has it.
func tryLock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return false, nil
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// identityOfDir is identityOf for a directory, for a store without a lock file.
func identityOfDir(dir string) (p [2]uint64, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return p, err
	}
	defer f.Close()
	return identityOf(f)
}

// identityOf returns the device and the inode of an open file. Two open files are the same file if
// and only if these are equal.
func identityOf(f *os.File) (p [2]uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return p, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return [2]uint64{uint64(st.Dev), st.Ino}, nil
}

// Owner returns the user that a file belongs to.
func Owner(st fs.FileInfo) (uid uint32, ok bool) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return sys.Uid, true
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// reserve gives the file its size and its blocks, so that a later store to the mapping cannot fail
// for lack of space. With a sparse file, a store to a shared mapping on a full disk is a SIGBUS.
func reserve(f *os.File, size uint64) error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &lim); err == nil && size > lim.Cur {
		// Checked first, because the kernel sends a signal that ends the program.
		return fmt.Errorf("%w: %d bytes are more than the limit of this process for one file (%d)", ErrNoSpace, size, lim.Cur)
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, int64(size))
		switch {
		case err == nil:
			return nil
		case err == unix.EINTR:
		case err == unix.EOPNOTSUPP:
			return writeZeros(f, size)
		default:
			return spaceError(err, fmt.Sprintf("reserve %d bytes", size))
		}
	}
}

// writeZeros reserves blocks on file systems without fallocate.
func writeZeros(f *os.File, size uint64) error {
	zeros := make([]byte, 1<<20)
	for off := uint64(0); off < size; {
		n := min(uint64(len(zeros)), size-off)
		if _, err := f.WriteAt(zeros[:n], int64(off)); err != nil {
			return spaceError(err, fmt.Sprintf("reserve %d bytes", size))
		}
		off += n
	}
	return nil
}

// reserveMeta reserves blocks for a new metadata file, so that windows can still be removed when
// the disk is full. Best effort.
func reserveMeta(f *os.File) { _ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20) }

// lockRange takes an exclusive lock on bytes of a file. It excludes every other open of the file,
// in this process or another, and waits for it. The kernel drops the lock when the process dies.
func lockRange(f *os.File, off, n int64) error { return rangeLock(f, unix.F_WRLCK, off, n) }

func unlockRange(f *os.File, off, n int64) error { return rangeLock(f, unix.F_UNLCK, off, n) }

func rangeLock(f *os.File, kind int16, off, n int64) error {
	lk := unix.Flock_t{Type: kind, Whence: 0, Start: off, Len: n}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &lk)
		if err != unix.EINTR {
			return err
		}
	}
}
