//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/internal/shmem"
	"weft/internal/waits"
)

// reach opens the peer's inbox and its doorbell. The caller holds mu; the state is idle.
func (p *peer) reach() error {
	addr, err := p.e.cfg.Lookup(p.rank)
	if err != nil {
		return err
	}
	var inboxFD, doorbellFD uintptr
	var text []byte
	var tokenAt uint64
	var found [16]byte
	_, err = fmt.Sscanf(addr, "%d %d %d %x %x", &p.pid, &inboxFD, &doorbellFD, &text, &tokenAt)
	if err != nil || p.pid <= 0 || len(text) != len(found) {
		return fmt.Errorf("%q is not an address", addr)
	}
	token := [16]byte(text)
	box, err := openInbox(shmem.Path(p.pid, inboxFD), p.e.cfg.Room, p.e.cfg.Rank, token)
	if err != nil {
		return err
	}
	if p.doorbell, err = openPeerDoorbell(shmem.Path(p.pid, doorbellFD)); err != nil {
		box.unmap()
		return err
	}
	p.singleCopy = readPeer(p.pid, found[:], tokenAt) == nil && found == token
	p.box = box
	return nil
}

// watchProcess starts a goroutine that waits for the end of the peer's process. Before Linux 5.3 it
// does nothing: there the launcher reports the end.
func (p *peer) watchProcess() {
	fd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		p.unreachable()
	}
	if err != nil {
		return
	}
	p.watch = os.NewFile(uintptr(fd), "weft peer")
	raw, err := p.watch.SyscallConn()
	if err != nil {
		return
	}
	p.e.wg.Go(waits.Service(func() {
		if awaitEnd(raw) == nil {
			p.unreachable()
		}
	}))
}

// awaitEnd returns when the process of a pidfd has ended, or with an error when the file is closed.
// It asks the kernel each time: if the process has ended before the wait begins, Go's poller may
// have had the only event before that.
func awaitEnd(raw syscall.RawConn) error {
	return raw.Read(func(fd uintptr) bool {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		return n > 0 && err == nil
	})
}
