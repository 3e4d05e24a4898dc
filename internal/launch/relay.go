// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"weft/internal/keepalive"
)

// relayNotice is how long a rank's last frames may take to the Server.
const relayNotice = 2 * time.Second

// RelayConfig says which job a Relay joins.
type RelayConfig struct {
	Addr  string // of the launcher that listens
	Key   *Key
	Ranks int // number of ranks that the Relay brings to the job
	First int // number of the first of them; -1: any
	// Wait is how long to wait until a launcher listens at Addr.
	Wait time.Duration
	// DeadAfter bounds the time until a vanished machine of that launcher is noticed. 0:
	// env.DefaultDeadAfter.
	DeadAfter time.Duration
	// OnDir is that of ServerConfig.
	OnDir func(dir string)
	// The orders of the launcher. The goroutine that reads from the launcher makes the calls.
	OnAbort  func(*Abort)
	OnSignal func(number int)
	OnKill   func()
	OnOver   func(status int)
	OnLost   func(error)
	// bases has the directories for the job directory; nil: baseDirs(). Tests set it.
	bases []string
}

// Relay is a launcher's side of a job that a launcher on another machine has made. For its ranks a
// Relay looks like a Server: a job directory with a socket. It passes the bytes of their
// connections on to the Server and back, so that the ranks talk to the Server itself.
type Relay struct {
	// Constant after construction.
	cfg         RelayConfig
	dir, id     string
	secret      Secret // of the job
	first, size int
	l           *net.UnixListener
	up          net.Conn // to the launcher
	wg          sync.WaitGroup

	wmu sync.Mutex // held while a frame is written to up

	mu    sync.Mutex
	pipes map[net.Conn]bool // guarded by mu: connections to ranks, and those to the Server for them
	// guarded by mu: by rank, closed when the Server has handled all that the rank has sent
	ranks  map[int]chan struct{}
	closed bool // guarded by mu
}

// JoinJob brings ranks to a job. It waits for the launcher of the job to listen.
func JoinJob(ctx context.Context, cfg RelayConfig) (_ *Relay, err error) {
	r := &Relay{cfg: cfg, pipes: map[net.Conn]bool{}, ranks: map[int]chan struct{}{}}
	defer func() {
		if err != nil {
			if r.up != nil {
				_ = r.up.Close()
			}
			if r.dir != "" {
				_ = Remove(r.dir)
			}
			err = &Error{Op: "join " + cfg.Addr, Rank: -1, Err: err}
		}
	}()
	if err := retryHandshake(ctx, func() error { return r.connect(ctx) }); err != nil {
		return nil, err
	}
	if r.dir, r.id, err = makeDir(cfg.bases, cfg.OnDir); err != nil {
		return nil, err
	}
	if r.l, err = listenIn(r.dir, &r.secret); err != nil {
		return nil, err
	}
	r.wg.Go(r.accept)
	r.wg.Go(r.read)
	return r, nil
}

// connect connects to the launcher and gets ranks.
func (r *Relay) connect(ctx context.Context) error {
	c, err := dialUntilListening(ctx, r.cfg.Addr, r.cfg.Wait, r.cfg.DeadAfter)
	if err != nil {
		return err
	}
	r.up = c
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err = r.greet(c)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = c.Close()
	}
	return err
}

// greet shakes hands with the launcher, and handles its answer.
func (r *Relay) greet(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	if _, err := c.Write([]byte{aLauncher}); err != nil {
		return err
	}
	mine := binary.BigEndian.AppendUint32(nil, uint32(int32(r.cfg.Ranks)))
	mine = binary.BigEndian.AppendUint32(mine, uint32(int32(r.cfg.First)))
	key := Secret(*r.cfg.Key)
	job, f, err := introduce(c, &key, hostLabel, mine)
	switch {
	case err != nil:
		return err
	case f.kind != jobAdmits || f.key != string(job) || f.key == "":
		return fmt.Errorf("%w: the launcher answers with a frame of kind %d", ErrProtocol, f.kind)
	case f.code < 1 || f.code > MaxRanks || f.rank < 0 || int(f.rank)+r.cfg.Ranks > int(f.code):
		return fmt.Errorf("%w: it gives ranks from %d on, of %d", ErrProtocol, f.rank, f.code)
	}
	r.first, r.size = int(f.rank), int(f.code)
	r.secret = r.cfg.Key.secret(f.key)
	return nil
}

// dialUntilListening connects to an address; it retries until a launcher listens there.
func dialUntilListening(ctx context.Context, addr string, wait, deadAfter time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	pause := 20 * time.Millisecond
	var why error
	for {
		d := net.Dialer{Timeout: handshakeTime}
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			keepalive.Enable(c, deadAfter)
			return c, nil
		}
		if late, ok := errors.AsType[net.Error](err); why == nil || !ok || !late.Timeout() {
			why = err // a timeout only if there is no better reason
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("within %v: %w", wait, why)
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
}

// First returns the number of the first rank of this launcher.
func (r *Relay) First() int { return r.first }

// Dir returns the directory by which this launcher's ranks find the job.
func (r *Relay) Dir() string { return r.dir }

// Identity returns the identity of a rank.
func (r *Relay) Identity(rank int) *Identity { return &Identity{Rank: rank, Ranks: r.size, Dir: r.dir} }

// Settle waits, after the process of a rank has ended, until the Server has handled all that the
// rank has sent. The notice of Ended uses another connection, and could arrive before.
func (r *Relay) Settle(rank int) {
	r.mu.Lock()
	heard := r.ranks[rank]
	r.mu.Unlock()
	if heard == nil {
		return
	}
	select {
	case <-heard:
	case <-time.After(relayNotice):
		// a process may have inherited the connection, or the network may be down
	}
}

// Ended tells the Server that the process of a rank has ended. The Server decides what that means,
// so the results do not matter.
func (r *Relay) Ended(rank, code int, how string) (*Death, bool) {
	r.send(&frame{kind: hostEnded, rank: int32(rank), code: int32(code), value: cut(how)})
	return &Death{Rank: rank, Code: code, How: how, Clean: code == 0}, true
}

// Blames returns nil: the Server has the ranks' blames.
func (r *Relay) Blames(int) *Blame { return nil }

// Abort does nothing: the Server tells the ranks.
func (r *Relay) Abort(*Abort) {}

func (r *Relay) send(f *frame) {
	b := f.encode()
	r.wmu.Lock()
	defer r.wmu.Unlock()
	_ = r.up.SetWriteDeadline(time.Now().Add(handshakeTime))
	_, _ = r.up.Write(b) // if it fails, the reader fails too
}

// read handles the launcher's orders until the job is over or the connection ends.
func (r *Relay) read() {
	var err error
	for err == nil {
		var f frame
		f, err = readFrame(r.up)
		switch {
		case err != nil:
		case f.kind == jobAborts:
			r.cfg.OnAbort(&Abort{Rank: int(f.rank), Code: int(f.code), Reason: string(f.value)})
		case f.kind == jobSignals:
			r.cfg.OnSignal(int(f.code))
		case f.kind == jobKills:
			r.cfg.OnKill()
		case f.kind == jobOver:
			r.cfg.OnOver(int(f.code))
			return
		default:
			err = fmt.Errorf("%w: a frame of kind %d from the launcher", ErrProtocol, f.kind)
		}
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if !closed {
		r.cfg.OnLost(err)
	}
}

func (r *Relay) accept() {
	accept(r.l.AcceptUnix, func(c *net.UnixConn) bool {
		held := r.hold(c)
		if held {
			r.wg.Go(func() { r.pass(c) })
		}
		return held
	})
}

// hold registers a connection for Close. If Close was called already, hold closes the connection
// and returns false.
func (r *Relay) hold(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.Close()
		return false
	}
	r.pipes[c] = true
	return true
}

func (r *Relay) release(c net.Conn) {
	r.mu.Lock()
	delete(r.pipes, c)
	r.mu.Unlock()
	_ = c.Close()
}

// pass connects a rank with the Server until one of them ends the connection. All that the rank has
// sent before it ended arrives.
func (r *Relay) pass(c *net.UnixConn) {
	defer r.release(c)
	_ = c.SetDeadline(time.Now().Add(handshakeTime))
	hello, err := readHello(c, Initiator)
	if err != nil || len(hello) != helloSize+4 {
		return
	}
	_ = c.SetDeadline(time.Time{})
	heard := make(chan struct{})
	defer close(heard)
	r.mu.Lock()
	r.ranks[int(int32(binary.BigEndian.Uint32(hello[helloSize:])))] = heard
	r.mu.Unlock()
	d := net.Dialer{Timeout: handshakeTime}
	up, err := d.Dial("tcp", r.cfg.Addr)
	if err != nil || !r.hold(up) {
		return
	}
	defer r.release(up)
	keepalive.Enable(up, r.cfg.DeadAfter)
	if _, err := up.Write(append([]byte{aRank}, hello...)); err != nil {
		return
	}
	down := make(chan struct{})
	r.wg.Go(func() {
		defer close(down)
		if _, err := io.Copy(c, up); err != nil {
			// The rank has closed its end, and its last frames may still be on their way to the
			// Server. Until the Server has ended its side, up must not be closed, and data from the
			// Server must be read: otherwise the kernel discards the rank's frames. (If the
			// Server's end is broken, this reads nothing.)
			_, _ = io.Copy(io.Discard, up)
		}
		_ = c.Close()
	})
	_, _ = io.Copy(up, c)
	_ = up.(*net.TCPConn).CloseWrite()
	select { // the Server ends its side when it has read all frames
	case <-down:
	case <-time.After(handshakeTime):
	}
}

// Close ends all connections and removes this launcher's files.
func (r *Relay) Close() error {
	r.mu.Lock()
	already := r.closed
	r.closed = true
	for c := range r.pipes {
		_ = c.Close()
	}
	r.mu.Unlock()
	if already {
		return nil
	}
	_ = r.up.Close()
	_ = r.l.Close()
	r.wg.Wait()
	return Remove(r.dir)
}
