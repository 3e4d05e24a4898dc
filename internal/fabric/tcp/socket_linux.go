// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/keepalive"
)

// poller reads an endpoint's sockets without a goroutine for each. README.md has the protocol.
type poller struct {
	// RingDoorbell is not needed, since an armed poller rings for bytes that are there; Work has
	// nothing to do.
	fabric.NoSource

	// Constant after construction.
	e     *Endpoint
	inner int // an epoll set with all sockets that are not detached
	// an epoll set with only inner in it, one-shot: armed, it reports once that inner is ready. It
	// is the descriptor of doorbell
	outer    int
	doorbell *os.File
	raw      syscall.RawConn

	full atomic.Int32 // number of full sockets
	open atomic.Int32 // number of open sockets

	// Owned by the goroutine that has the turn.
	direct     [2]*socket // read without polling inner first (README.md); nil: none
	sinceInner int        // number of polls since inner was polled
	deferrals  int        // number of times in a row that arming was deferred
	arrivals   [32]unix.EpollEvent
}

// socket is a connection that Go's poller does not know. The goroutine that polls reads it, and
// senders write it, both without waiting.
type socket struct {
	// Constant after construction.
	p  *peer
	fd int
	in *intake // owned by the goroutine that has the turn

	// owned by the goroutine that has the turn: the socket has ended, and is not read any more
	over bool

	dead   bool // guarded by peer.mu: the last writer closes the socket
	closed bool // guarded by peer.mu: fd may be another file now
	// guarded by peer.mu: bytes wait to be written, and the socket did not take them. A full socket
	// is not detached.
	full bool
	// guarded by peer.mu, set by the goroutine that has the turn, which reads the socket directly:
	// the socket is not in inner
	detached bool

	// Owned by the goroutine that has set peer.writing.
	small  [headSize + directCopy]byte
	gather gathering
}

// directCopy is the largest payload in bytes that is copied after its head. The system call gathers
// larger ones.
const directCopy = 1 << 10

// maxGather is the largest number of parts that one system call gathers; the kernel's limit is
// 1024.
const maxGather = 256

// newSocket takes a connection away from Go's poller, which would wake a thread for each arrival.
// It returns nil if that is impossible; otherwise it closes c.
func newSocket(p *peer, c net.Conn) *socket {
	t, ok := c.(*net.TCPConn)
	if !ok || p.e.poller == nil {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	if raw.Control(func(n uintptr) { fd, err = unix.FcntlInt(n, unix.F_DUPFD_CLOEXEC, 0) }) != nil || err != nil {
		return nil
	}
	_ = c.Close() // fd keeps the connection
	return &socket{p: p, fd: fd, in: newIntake(p)}
}

// startPolling has the socket polled.
func (s *socket) startPolling() {
	s.p.polled.Store(s)
	s.p.e.poller.open.Add(1)
	_ = unix.EpollCtl(s.p.e.poller.inner, unix.EPOLL_CTL_ADD, s.fd, s.events(unix.EPOLLIN))
}

func (s *socket) events(which uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: which, Fd: int32(s.p.rank)}
}

// setFull sets whether bytes wait that are written as soon as the socket takes them. The caller
// holds peer.mu.
func (s *socket) setFull(full bool) {
	if s.full == full || s.closed {
		return
	}
	s.full = full
	which, n, how := uint32(unix.EPOLLIN), int32(-1), unix.EPOLL_CTL_MOD
	if full {
		which, n = unix.EPOLLIN|unix.EPOLLOUT, 1
		if s.detached {
			how = unix.EPOLL_CTL_ADD
			s.detached = false
		}
	}
	s.p.e.poller.full.Add(n)
	_ = unix.EpollCtl(s.p.e.poller.inner, how, s.fd, s.events(which))
}

// setDetached takes the socket out of inner, unless the socket is full, or puts it back. The caller
// has the turn.
func (s *socket) setDetached(on bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.detached == on || s.closed || s.over || s.full {
		return
	}
	s.detached = on
	how := unix.EPOLL_CTL_ADD
	if on {
		how = unix.EPOLL_CTL_DEL
	}
	_ = unix.EpollCtl(s.p.e.poller.inner, how, s.fd, s.events(unix.EPOLLIN))
}

// take reads the bytes that are there, and reports whether there were any. The caller has the turn.
func (s *socket) take() (did bool) {
	if s.over {
		return false
	}
	for range batch {
		room := s.in.room()
		n, errno := recvNow(s.fd, room)
		var err error
		switch {
		case retryable(errno):
			return did
		case errno != 0:
			err = errno
		case n == 0:
			err = errNoGoodbye
		default:
			err = s.in.took(n)
		}
		did = true
		if err != nil {
			s.end(err)
			return true
		}
		if n < len(room) {
			return true
		}
	}
	return did
}

// end ends the reading, and loses the peer. The caller has the turn.
func (s *socket) end(err error) {
	p := s.p
	s.over = true
	_ = unix.EpollCtl(p.e.poller.inner, unix.EPOLL_CTL_DEL, s.fd, nil)
	p.e.poller.open.Add(-1)
	p.e.poller.dropDirect(s)
	p.mu.Lock()
	err = cmp.Or(p.writeErr, p.wrap(err))
	p.mu.Unlock()
	s.in.fail(err)
	close(p.ended)
	p.lose(err)
}

// dropDirect removes s, which has ended, from the direct sockets.
func (pl *poller) dropDirect(s *socket) {
	if i := slices.Index(pl.direct[:], s); i >= 0 {
		pl.direct[i] = nil
	}
}

// shut ends the connection. Bytes that have arrived are still read. The caller holds peer.mu.
func (s *socket) shut(how int) {
	if !s.closed {
		_ = unix.Shutdown(s.fd, how)
	}
}

// silent reports whether an answer of the peer is long overdue: the peer's machine has probably
// vanished, though the kernel has not given up yet. The caller holds peer.mu.
func (s *socket) silent() bool {
	if s.closed {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && unanswered(info, keepalive.For(s.p.e.cfg.DeadAfter).Idle)
}

// unanswered reports whether more than one probe has had no answer, or data has had none for longer
// than limit.
func unanswered(info *unix.TCPInfo, limit time.Duration) bool {
	return info.Probes > 1 || info.Unacked > 0 && time.Duration(info.Last_ack_recv)*time.Millisecond > limit
}

// close closes the descriptor, which no goroutine reads or writes any more. The caller holds
// peer.mu.
func (s *socket) close() {
	if !s.closed {
		s.setFull(false)
		s.closed = true
		_ = unix.Close(s.fd)
	}
}

// write writes a frame, with its head, and returns the number of bytes that the socket has taken.
// The caller has set peer.writing.
func (s *socket) write(kind uint32, f *fabric.Frame) (int, error) {
	head := appendHead(s.small[:0], kind, f)
	if len(f.Data) <= directCopy {
		return written(sendNow(s.fd, append(head, f.Data...)))
	}
	s.gather.add(head)
	s.gather.add(f.Data)
	return s.gathered()
}

// writeAll is write for queued items.
func (s *socket) writeAll(items []*item) (int, error) {
	n := 0
	for _, it := range items {
		for _, b := range [2][]byte{it.head, it.data} {
			if len(b) > 0 && n < maxGather {
				s.gather.add(b)
				n++
			}
		}
	}
	return s.gathered()
}

// gathered writes the parts that were added to gather.
func (s *socket) gathered() (int, error) { return written(s.gather.sendNow(s.fd)) }

// written converts the result of a system call that may have found no room: that is no error.
func written(n int, errno unix.Errno) (int, error) {
	if errno != 0 && !retryable(errno) {
		return 0, errno
	}
	return n, nil
}

// retryable reports whether a system call must be repeated later: it has found no bytes or no room,
// or was interrupted.
func retryable(errno unix.Errno) bool { return errno == unix.EAGAIN || errno == unix.EINTR }

// batch is the number of system calls that read one socket before the next socket is read.
const batch = 8

const (
	// nearControl is the congestion control of connections that do not leave the machine. There is
	// no congestion, so the simplest one, which costs least, is enough. It matters if the machine's
	// default paces what is sent (bbr): the bytes would wait for a clock. Messages of 4 MiB took
	// 1.3 to 1.6 times as long with bbr.
	nearControl = "reno"
	// nearBuffer is the size in bytes of the kernel's buffers for such connections, in each
	// direction and at each end. Measured: with 4 MB, messages of 4 MiB took two thirds of the time
	// that they took with the size to which the kernel grows buffers by itself, since the writer is
	// done before the reader.
	nearBuffer = 4_000_000
)

// tuneNear sets the options of connections within the machine. An option that the kernel refuses
// keeps its value.
func tuneNear(t *net.TCPConn) {
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { setNear(int(fd), bufferLimits()) })
	}
}

func setNear(fd int, limit limits) {
	_ = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, nearControl)
	if limit.send >= nearBuffer {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, nearBuffer)
	}
	if limit.receive >= nearBuffer {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, nearBuffer)
	}
}

// limits are the largest buffers that a program may request, in bytes.
type limits struct{ send, receive int }

// bufferLimits reads the machine's limits. A buffer that is set to less than the kernel would grow
// it to is worse than one that is not set. So buffers are not set if the machine allows less than
// nearBuffer, as most machines do that are not tuned.
var bufferLimits = sync.OnceValue(func() limits {
	return limits{send: readLimit("/proc/sys/net/core/wmem_max"), receive: readLimit("/proc/sys/net/core/rmem_max")}
})

// readLimit returns the number in a file, 0 if there is none.
func readLimit(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}
