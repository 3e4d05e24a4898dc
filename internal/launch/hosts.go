// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"weft/internal/keepalive"
	"weft/internal/lobby"
)

const (
	hostLabel = "weft launcher" // of handshakes between launchers
	// The first byte of a connection to a listening launcher says what the other end is.
	aRank     = 'r'
	aLauncher = 'l'
	// maxUnproved bounds the connections over TCP that have not proved themselves. New ones evict
	// the oldest.
	maxUnproved = 256
)

// HostEvents are called when a Server hears from launchers on other machines, by the goroutine that
// reads from the launcher.
type HostEvents struct {
	Joined func(from string, first, ranks int)
	// Ended: the process of a rank has ended. The Server has handled all frames of the rank.
	Ended func(rank, code int, how string)
	Lost  func(from string, first, ranks int, err error)
}

// host is a launcher on another machine.
type host struct {
	first, ranks int
	from         string
	k            *conn
}

// hosts is the part of a Server that handles launchers on other machines.
type hosts struct {
	key    *Key
	events HostEvents
	l      net.Listener
	lobby  *lobby.Lobby
	over   chan struct{} // closed by Server.Close

	// Guarded by Server.mu.
	list   []*host
	taken  []bool // by rank minus the number of the Server's own ranks
	ending bool   // no launcher may join any more
}

// listenHosts begins to accept connections from other machines. Precondition: the directory of the
// job exists.
func (s *Server) listenHosts() (err error) {
	h := &s.hosts
	h.taken = make([]bool, s.cfg.Elsewhere)
	if h.l, err = net.Listen("tcp", s.cfg.Listen); err != nil {
		return err
	}
	h.lobby, h.over = lobby.New(maxUnproved), make(chan struct{})
	s.wg.Go(s.acceptHosts)
	return nil
}

// Addr returns the address at which the Server listens for launchers of other machines.
func (s *Server) Addr() string { return s.hosts.l.Addr().String() }

func (s *Server) acceptHosts() {
	accept(s.hosts.l.Accept, func(c net.Conn) bool {
		keepalive.Enable(c, s.cfg.DeadAfter)
		return s.hosts.lobby.Enter(c, s.hosts.over) && s.enter(c, func() { s.identify(c) })
	})
}

// identify finds out what the other end of a connection is, and serves it.
func (s *Server) identify(c net.Conn) {
	defer s.hosts.lobby.Leave(c)
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	var what [1]byte
	_, err := c.Read(what[:])
	switch {
	case err == nil && what[0] == aRank:
		s.serve(c, func() bool { return s.hosts.lobby.Leave(c) })
	case err == nil && what[0] == aLauncher:
		s.serveHost(c)
	default:
		s.mu.Lock()
		delete(s.unproved, c)
		s.mu.Unlock()
		_ = c.Close()
	}
}

// serveHost serves a connection to a launcher, as its reader, until it ends.
func (s *Server) serveHost(c net.Conn) {
	defer c.Close()
	h, err := s.admitHost(c)
	if err != nil {
		return
	}
	if s.hosts.events.Joined != nil {
		s.hosts.events.Joined(h.from, h.first, h.ranks)
	}
	err = s.readHost(h)
	h.k.stop()
	s.mu.Lock()
	over := s.closed
	s.mu.Unlock()
	if !over && s.hosts.events.Lost != nil {
		s.hosts.events.Lost(h.from, h.first, h.ranks, err)
	}
}

// admitHost admits a launcher to the job. The launcher says how many ranks it brings and,
// optionally, which.
func (s *Server) admitHost(c net.Conn) (*host, error) {
	key := Secret(*s.hosts.key)
	said, err := Handshake(c, &key, hostLabel, Acceptor, []byte(s.id))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.unproved, c)
	if err == nil && !s.hosts.lobby.Leave(c) {
		err = net.ErrClosed // the lobby has evicted it
	}
	if err != nil {
		return nil, err
	}
	h := &host{from: c.RemoteAddr().String()}
	if err = s.assignLocked(h, said); err != nil {
		_, _ = c.Write((&frame{kind: jobRefuses, value: cut(err.Error())}).encode())
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	h.k = newConn(c)
	s.wg.Go(h.k.write)
	s.hosts.list = append(s.hosts.list, h)
	h.k.send(&frame{kind: jobAdmits, rank: int32(h.first), code: int32(s.cfg.Ranks), key: s.id})
	return h, nil
}

// assignLocked assigns ranks to a launcher.
// +checklocks:s.mu
func (s *Server) assignLocked(h *host, said []byte) error {
	x := &s.hosts
	if len(said) != 8 {
		return fmt.Errorf("%w: a greeting of %d bytes", ErrProtocol, len(said))
	}
	h.ranks = int(int32(binary.BigEndian.Uint32(said)))
	h.first = int(int32(binary.BigEndian.Uint32(said[4:])))
	own := s.cfg.Ranks - len(x.taken)
	left := 0
	for _, t := range x.taken {
		if !t {
			left++
		}
	}
	switch {
	case s.closed || x.ending:
		return fmt.Errorf("the job is being ended")
	case h.ranks < 1 || h.ranks > left:
		return fmt.Errorf("%d ranks are brought; %d of %d are still missing", h.ranks, left, len(x.taken))
	}
	free := func(first int) bool {
		return first >= own && first <= s.cfg.Ranks-h.ranks && !slices.Contains(x.taken[first-own:first-own+h.ranks], true)
	}
	if h.first < 0 {
		for h.first = own; h.first < s.cfg.Ranks && !free(h.first); h.first++ {
		}
	}
	if !free(h.first) {
		return fmt.Errorf("ranks %d to %d are not free; those from other launchers are %d to %d", h.first, h.first+h.ranks-1, own, s.cfg.Ranks-1)
	}
	for r := h.first; r < h.first+h.ranks; r++ {
		x.taken[r-own] = true
	}
	return nil
}

// readHost handles a launcher's frames until its connection ends.
func (s *Server) readHost(h *host) error {
	ended := make([]bool, h.ranks)
	for {
		f, err := readFrame(h.k.c)
		if err != nil {
			return err
		}
		i := int(f.rank) - h.first
		if f.kind != hostEnded || i < 0 || i >= h.ranks || ended[i] {
			return fmt.Errorf("%w: a frame of kind %d for rank %d from a launcher of ranks %d to %d", ErrProtocol, f.kind, f.rank, h.first, h.first+h.ranks-1)
		}
		ended[i] = true
		s.Settle(int(f.rank))
		if s.hosts.events.Ended != nil {
			s.hosts.events.Ended(int(f.rank), int(f.code), string(f.value))
		}
	}
}

// tellHosts sends a frame to all launchers of other machines.
func (s *Server) tellHosts(f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts.list {
		h.k.send(f)
	}
}

// SignalHosts makes the launchers of other machines send a signal to their ranks.
func (s *Server) SignalHosts(number int) { s.tellHosts(&frame{kind: jobSignals, code: int32(number)}) }

// KillHosts makes the launchers of other machines kill their ranks.
func (s *Server) KillHosts() { s.tellHosts(&frame{kind: jobKills}) }

// DismissHosts tells the launchers of other machines that the job is over, and its exit status. It
// waits at most a quarter of a second until that is written.
func (s *Server) DismissHosts(status int) {
	s.mu.Lock()
	s.hosts.ending = true
	list := s.hosts.list
	s.mu.Unlock()
	s.tellHosts(&frame{kind: jobOver, code: int32(status)})
	var wg sync.WaitGroup
	for _, h := range list {
		wg.Go(func() { h.k.flushed(endNotice) })
	}
	wg.Wait()
}
