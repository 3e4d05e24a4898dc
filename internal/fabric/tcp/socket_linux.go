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

// eyes is how an endpoint reads its sockets without a goroutine for each.
type eyes struct {
	// Knock is not called, since arming speaks of what is here; and there is nothing for Work
	fabric.NoSource

	// Constant after construction.
	e     *Endpoint
	inner int // a set of epoll with all sockets
	// another one, with inner in it, which speaks once when it is armed: the descriptor of bell
	outer int
	bell  *os.File
	raw   syscall.RawConn

	full atomic.Int32 // sockets that are to take more when they can
	open atomic.Int32 // sockets in inner

	// Of the goroutine that polls.
	talkers  [2]*socket // read without asking the set: README.md
	unasked  int        // polls since the set was asked
	streak   int        // rapid polls in a row
	arrivals [32]unix.EpollEvent
}

// socket is a connection of which Go's poller knows nothing: it is read by the goroutine that
// polls, and written by senders, both without waiting.
type socket struct {
	// Constant after construction.
	p  *peer
	fd int
	in *intake // of the goroutine that polls

	over bool // of the goroutine that polls: it has ended, and is not read any more

	dead   bool // guarded by peer.mu: to be closed
	closed bool // guarded by peer.mu: fd is another file now, perhaps
	// guarded by peer.mu: there is more to be written when it can take it; then it is not apart
	full bool
	// guarded by peer.mu, set by the goroutine that polls: not in inner, since that one reads it
	// without being told
	apart bool

	// Of who has set peer.writing.
	small  [headSize + directCopy]byte
	gather gathering
}

// directCopy is the largest payload that is copied behind its head, rather than gathered by the
// system call.
const directCopy = 1 << 10

// maxGather bounds the parts that one system call gathers; the kernel's limit is 1024.
const maxGather = 256

// newSocket takes a connection away from Go's poller, which would wake a thread for all that comes.
// It returns nil if that does not work here; c is closed if it does.
func newSocket(p *peer, c net.Conn) *socket {
	t, ok := c.(*net.TCPConn)
	if !ok || p.e.eyes == nil {
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

// watch has the socket looked at.
func (s *socket) watch() {
	s.p.looked.Store(s)
	s.p.e.eyes.open.Add(1)
	_ = unix.EpollCtl(s.p.e.eyes.inner, unix.EPOLL_CTL_ADD, s.fd, s.events(unix.EPOLLIN))
}

func (s *socket) events(which uint32) *unix.EpollEvent {
	return &unix.EpollEvent{Events: which, Fd: int32(s.p.rank)}
}

// wait says whether there is more to be written when the socket can take it. The caller holds
// peer.mu.
func (s *socket) wait(full bool) {
	if s.full == full || s.closed {
		return
	}
	s.full = full
	which, n, how := uint32(unix.EPOLLIN), int32(-1), unix.EPOLL_CTL_MOD
	if full {
		which, n = unix.EPOLLIN|unix.EPOLLOUT, 1
		if s.apart {
			how = unix.EPOLL_CTL_ADD
			s.apart = false
		}
	}
	s.p.e.eyes.full.Add(n)
	_ = unix.EpollCtl(s.p.e.eyes.inner, how, s.fd, s.events(which))
}

// setApart takes the socket out of the set, unless it is full, or has it back there. The caller has
// the turn to poll.
func (s *socket) setApart(on bool) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.apart == on || s.closed || s.over || s.full {
		return
	}
	s.apart = on
	how := unix.EPOLL_CTL_ADD
	if on {
		how = unix.EPOLL_CTL_DEL
	}
	_ = unix.EpollCtl(s.p.e.eyes.inner, how, s.fd, s.events(unix.EPOLLIN))
}

// take reads what is there, and reports whether it was anything. The caller has the turn to poll.
func (s *socket) take() (did bool) {
	if s.over {
		return false
	}
	for range batch {
		room := s.in.room()
		n, errno := recvNow(s.fd, room)
		var err error
		switch {
		case later(errno):
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

// end ends the reading. The caller has the turn to poll.
func (s *socket) end(err error) {
	p := s.p
	s.over = true
	_ = unix.EpollCtl(p.e.eyes.inner, unix.EPOLL_CTL_DEL, s.fd, nil)
	p.e.eyes.open.Add(-1)
	p.e.eyes.deaf(s)
	p.mu.Lock()
	err = cmp.Or(p.mute, p.broken(err))
	p.mu.Unlock()
	s.in.broken(err)
	close(p.ended)
	p.lose(err)
}

// deaf ends that s is read first: it has ended.
func (y *eyes) deaf(s *socket) {
	if i := slices.Index(y.talkers[:], s); i >= 0 {
		y.talkers[i] = nil
	}
}

// shut ends the connection. What is here is still read. The caller holds peer.mu.
func (s *socket) shut(how int) {
	if !s.closed {
		_ = unix.Shutdown(s.fd, how)
	}
}

// silent reports whether the peer should have answered for long, and has not: probably its machine
// has vanished, though the kernel has not given up yet. The caller holds peer.mu.
func (s *socket) silent() bool {
	if s.closed {
		return false
	}
	info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && unanswered(info, keepalive.For(s.p.e.cfg.DeadAfter).Idle)
}

// unanswered reports whether more than one probe, or data for longer than limit, had no answer.
func unanswered(info *unix.TCPInfo, limit time.Duration) bool {
	return info.Probes > 1 || info.Unacked > 0 && time.Duration(info.Last_ack_recv)*time.Millisecond > limit
}

// close closes the descriptor: nobody reads or writes. The caller holds peer.mu.
func (s *socket) close() {
	if !s.closed {
		s.wait(false)
		s.closed = true
		_ = unix.Close(s.fd)
	}
}

// write returns how much of the frame, with its head, the socket has taken at once. The caller has
// set peer.writing.
func (s *socket) write(kind uint32, f *fabric.Frame) (int, error) {
	head := appendHead(s.small[:0], kind, f)
	if len(f.Data) <= directCopy {
		return written(sendNow(s.fd, append(head, f.Data...)))
	}
	s.gather.add(head)
	s.gather.add(f.Data)
	return s.gathered()
}

// writeAll is write for what is queued.
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

// gathered writes what was added to gather.
func (s *socket) gathered() (int, error) { return written(s.gather.sendNow(s.fd)) }

// written is the result of a system call that may have found no room.
func written(n int, errno unix.Errno) (int, error) {
	if errno != 0 && !later(errno) {
		return 0, errno
	}
	return n, nil
}

// later reports whether a system call is to be made again at another time: it has found nothing, or
// no room, or was interrupted.
func later(errno unix.Errno) bool { return errno == unix.EAGAIN || errno == unix.EINTR }

// batch is how much is read from one peer before the next one has its turn: so many system calls.
const batch = 8

const (
	// nearControl is the congestion control of connections that do not leave the machine. There is
	// no congestion, so the plainest will do, which costs least. It matters where the machine's own
	// choice paces what is sent (bbr): the bytes would wait for a clock. Messages of 4 MiB took 1.3
	// to 1.6 times as long with bbr.
	nearControl = "reno"
	// nearBuffer is how much the kernel holds of what is under way, in each direction and at each
	// end (measured: with 4 MB, messages of 4 MiB took two thirds of the time that they took with
	// what the kernel grows to by itself, since whoever writes is done sooner than the reader).
	nearBuffer = 4_000_000
)

// tuneNear sets what connections within the machine have. What the kernel refuses stays as it is.
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

// limits are what a program may ask for, in bytes.
type limits struct{ send, receive int }

// bufferLimits reads them. A socket for which less is asked than the kernel would grow to by itself
// is worse off than one for which nothing is asked: so nothing is, where the machine allows less
// than nearBuffer, as most do that nobody has tuned.
var bufferLimits = sync.OnceValue(func() limits {
	return limits{send: readLimit("/proc/sys/net/core/wmem_max"), receive: readLimit("/proc/sys/net/core/rmem_max")}
})

// readLimit returns the number in a file, 0 if there is none.
func readLimit(file string) int {
	text, _ := os.ReadFile(file)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}
