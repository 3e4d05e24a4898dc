// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	jobLabel = "weft job" // of handshakes between ranks and launcher
	// endNotice is how long the Server waits, after the end of a rank's connection, for the end of
	// its process, which says how it ended.
	endNotice = 250 * time.Millisecond
)

// ServerConfig describes the job of a Server.
type ServerConfig struct {
	Ranks int
	// Part returns the part of the command line that starts a rank, from 0. nil: there is one part.
	Part func(rank int) int
	// OnDir is called with the path of the job directory before the directory is made. It is called
	// again if making it failed and another path is tried.
	OnDir func(dir string)
	// OnAbort is called when a rank asks for the end of the job. The Abort's Rank is -1 if all
	// ranks wait for each other.
	OnAbort func(*Abort)
	// OnLost is called when a rank's connection has ended without Leave, and Ended was not called
	// within a quarter of a second.
	OnLost func(rank int, how string)
	// Elsewhere is the number of ranks, the last ones, that launchers on other machines bring.
	// These connect to the address Listen, and know Key. 0: there are none, and the fields below do
	// not count.
	Elsewhere int
	Listen    string
	Key       *Key
	Hosts     HostEvents
	// DeadAfter bounds the time until a vanished machine of these launchers is noticed. 0:
	// env.DefaultDeadAfter.
	DeadAfter time.Duration
	// bases has the directories for the job directory; nil: baseDirs(). Tests set it.
	bases []string
}

// Server is the launcher's side of a job: the job directory, the socket in it, and the values that
// the ranks exchange over the socket. All methods may be called at any time by any goroutine.
type Server struct {
	// Constant after construction.
	cfg     ServerConfig
	dir, id string
	secret  Secret
	l       *net.UnixListener
	wg      sync.WaitGroup // the accepting goroutines and two per connection
	hosts   hosts          // has fields that mu guards

	mu       sync.Mutex
	space    *space            // guarded by mu
	conns    []*conn           // guarded by mu: by rank, nil if it is not connected
	unproved map[net.Conn]bool // guarded by mu: connections before their handshake is done
	// guarded by mu: of ranks whose connection has ended but whose process is not known to have
	// ended
	timers map[int]*time.Timer
	closed bool // guarded by mu
}

// NewServer makes the directory of a job and listens there.
func NewServer(cfg ServerConfig) (_ *Server, err error) {
	if cfg.Ranks < 1 || cfg.Ranks > MaxRanks {
		return nil, &Error{Op: "serve", Rank: -1, Err: fmt.Errorf("%w: %d ranks; 1 to %d are legal", ErrLimit, cfg.Ranks, MaxRanks)}
	}
	s := &Server{cfg: cfg, secret: newSecret(), space: newSpace(cfg.Ranks), conns: make([]*conn, cfg.Ranks), unproved: map[net.Conn]bool{}, timers: map[int]*time.Timer{}}
	defer func() {
		if err != nil {
			if s.dir != "" {
				_ = Remove(s.dir)
			}
			err = &Error{Op: "serve", Rank: -1, Err: err}
		}
	}()
	if s.dir, s.id, err = makeDir(cfg.bases, cfg.OnDir); err != nil {
		return nil, err
	}
	if cfg.Elsewhere > 0 {
		s.hosts.key, s.hosts.events = cfg.Key, cfg.Hosts
		s.secret = cfg.Key.secret(s.id)
	}
	if s.l, err = listenIn(s.dir, &s.secret); err != nil {
		return nil, err
	}
	if cfg.Elsewhere > 0 {
		if err := s.listenHosts(); err != nil {
			_ = s.l.Close()
			return nil, err
		}
	}
	s.wg.Go(s.accept)
	return s, nil
}

// listenIn makes the files in the directory of a job, the socket last.
func listenIn(dir string, s *Secret) (*net.UnixListener, error) {
	if err := writeSecret(dir, s); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketFile)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// Dir returns the job directory.
func (s *Server) Dir() string { return s.dir }

// Identity returns a rank's identity. The rank must be started with the variables of its Environ.
func (s *Server) Identity(rank int) *Identity {
	return &Identity{Rank: rank, Ranks: s.cfg.Ranks, Dir: s.dir}
}

func (s *Server) accept() {
	accept(s.l.AcceptUnix, func(c *net.UnixConn) bool {
		return s.enter(c, func() { s.serve(c, nil) })
	})
}

// enter starts f in a goroutine for a connection that has not proved itself. If the Server is
// closed, enter closes the connection and returns false.
func (s *Server) enter(c net.Conn, f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	s.unproved[c] = true
	s.wg.Go(f)
	return true
}

// serve serves a connection to a rank, as its reader, until it ends. proved, if not nil, is called
// when the other end has proved itself; it returns false if that was too late.
func (s *Server) serve(c net.Conn, proved func() bool) {
	defer c.Close()
	rank, err := s.greet(c)
	s.mu.Lock()
	delete(s.unproved, c)
	if err != nil || s.closed || proved != nil && !proved() {
		s.mu.Unlock()
		return
	}
	missed, err := s.space.join(rank)
	if err != nil {
		s.mu.Unlock()
		_, _ = c.Write((&frame{kind: jobRefuses, value: cut(err.Error())}).encode())
		return
	}
	k := newConn(c)
	s.conns[rank] = k
	s.wg.Go(k.write)
	part := 0
	if s.cfg.Part != nil {
		part = s.cfg.Part(rank)
	}
	k.send(&frame{kind: jobWelcomes, rank: int32(s.cfg.Ranks), code: int32(part), id: min(1, uint64(s.cfg.Elsewhere)), key: s.id})
	s.postLocked(missed)
	s.mu.Unlock()

	err = s.read(rank, k)
	s.mu.Lock()
	s.conns[rank] = nil
	k.stop()
	close(k.done)
	m := &s.space.members[rank]
	if !m.left && m.death == nil && !s.closed {
		how := "its connection to the launcher ended"
		if errors.Is(err, ErrProtocol) || errors.Is(err, ErrLimit) || errors.Is(err, ErrDuplicate) {
			how = err.Error()
		}
		s.timers[rank] = time.AfterFunc(endNotice, func() { s.lost(rank, how) })
	}
	s.mu.Unlock()
}

// greet shakes hands with the other end, and returns the rank that it claims to be.
func (s *Server) greet(c net.Conn) (rank int, err error) {
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	said, err := Handshake(c, &s.secret, jobLabel, Acceptor, nil)
	if err != nil {
		return 0, err
	}
	if len(said) != 4 {
		return 0, fmt.Errorf("%w: a greeting of %d bytes", ErrProtocol, len(said))
	}
	_ = c.SetDeadline(time.Time{})
	// join refuses numbers that are not ranks.
	return int(int32(binary.BigEndian.Uint32(said))), nil
}

// read handles a rank's frames until its connection ends.
func (s *Server) read(rank int, k *conn) error {
	for {
		f, err := readFrame(k.c)
		if err != nil {
			return err
		}
		if f.kind == rankAborts {
			a := &Abort{Rank: rank, Code: int(f.code), Reason: string(f.value)}
			if a.Code < 1 || a.Code > 255 {
				a.Code = 1
			}
			if f.id != 0 {
				a.Rank = -1
			}
			if s.cfg.OnAbort != nil {
				s.cfg.OnAbort(a)
			}
			continue
		}
		s.mu.Lock()
		out, err := s.space.handle(rank, &f)
		s.postLocked(out)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// postLocked queues frames for the writers of their connections. It encodes a frame for several
// ranks once. +checklocks:s.mu
func (s *Server) postLocked(out []post) {
	var last frame
	var bytes []byte
	for _, p := range out {
		k := s.conns[p.to]
		if k == nil {
			continue
		}
		if bytes == nil || !sameFrame(&last, &p.f) {
			last, bytes = p.f, p.f.encode()
		}
		k.queue(bytes, s.cfg.Ranks)
	}
}

func sameFrame(a, b *frame) bool {
	return a.kind == b.kind && a.rank == b.rank && a.code == b.code && a.id == b.id && a.key == b.key &&
		len(a.value) == len(b.value) && (len(a.value) == 0 || &a.value[0] == &b.value[0])
}

// lost is called when a connection has ended and the end of its process has not become known.
func (s *Server) lost(rank int, how string) {
	s.mu.Lock()
	m := &s.space.members[rank]
	if s.closed || m.death != nil || s.timers[rank] == nil {
		s.mu.Unlock()
		return
	}
	delete(s.timers, rank)
	s.postLocked(s.space.end(&Death{Rank: rank, Code: -1, How: how}))
	s.mu.Unlock()
	if s.cfg.OnLost != nil {
		s.cfg.OnLost(rank, how)
	}
}

// Settle waits, after the process of a rank has ended, until the Server has handled all that the
// rank has sent. It must be called before Ended, so that a rank's last frames count before its exit
// status does.
func (s *Server) Settle(rank int) {
	s.mu.Lock()
	k := s.conns[rank]
	s.mu.Unlock()
	if k == nil {
		return
	}
	select {
	case <-k.done:
	case <-time.After(endNotice): // a process may have inherited the connection, though none should
	}
}

// Ended tells the Server that the process of a rank has ended. It returns the death as the other
// ranks hear of it: an exit status of 0 is not clean if the rank has joined but not left. orderly:
// the rank has left, or has never joined.
func (s *Server) Ended(rank, code int, how string) (d *Death, orderly bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.timers[rank]; t != nil {
		t.Stop()
		delete(s.timers, rank)
	}
	m := &s.space.members[rank]
	orderly = m.left || !m.joined
	d = &Death{Rank: rank, Code: code, How: how, Clean: code == 0 && orderly}
	if code == 0 && !d.Clean {
		d.How += ", without leaving the job"
	}
	s.postLocked(s.space.end(d))
	return d, orderly
}

// Abort tells all ranks that the job is being ended.
func (s *Server) Abort(a *Abort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := frame{kind: jobAborts, rank: int32(a.Rank), code: int32(a.Code), value: cut(a.Reason)}
	for r := range s.conns {
		s.postLocked([]post{{r, f}})
	}
	s.hosts.ending = true
	for _, h := range s.hosts.list {
		h.k.send(&f)
	}
}

// Close ends all connections and removes the files of the job.
func (s *Server) Close() error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	for c := range s.unproved {
		_ = c.Close()
	}
	for _, k := range s.conns {
		if k != nil {
			k.stop()
		}
	}
	for _, h := range s.hosts.list {
		h.k.stop()
	}
	for _, t := range s.timers {
		t.Stop()
	}
	s.mu.Unlock()
	if already {
		return nil
	}
	_ = s.l.Close()
	if s.hosts.l != nil {
		close(s.hosts.over)
		_ = s.hosts.l.Close()
	}
	s.wg.Wait()
	return Remove(s.dir)
}
