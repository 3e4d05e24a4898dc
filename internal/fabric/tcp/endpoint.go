// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"weft/internal/fabric"
	"weft/internal/keepalive"
	"weft/internal/lobby"
	"weft/internal/waits"
)

// maxUnproved is the largest number of unproved connections: those whose other ends have not yet
// proved that they know the secret. A new connection evicts the oldest (package lobby).
const maxUnproved = 64

// New returns the endpoint of a rank. The endpoint listens, and accepts connections after Bind.
func New(cfg Config) (*Endpoint, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ln, addrs, err := listen(&cfg)
	if err != nil {
		return nil, fmt.Errorf("tcp: %w", err)
	}
	e := &Endpoint{cfg: cfg, ln: ln, addrs: addrs}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	_ = e.Grow(cfg.Size)
	if e.poller, err = newPoller(e); err != nil {
		return nil, errors.Join(fmt.Errorf("tcp: %w", err), ln.Close())
	}
	return e, nil
}

// Addr returns the addresses at which the endpoint listens, separated by commas, for the other
// ranks' Lookup.
func (e *Endpoint) Addr() string { return strings.Join(e.addrs, ",") }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.cfg.Rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return len(e.peers.All()) }

// Grow makes the ranks below size peers. Config.Lookup must know their addresses from now on.
func (e *Endpoint) Grow(size int) error {
	return e.peers.Grow(size, func(rank int) *peer { return newPeer(e, rank) })
}

// Caps returns the properties of the connection to a peer.
func (e *Endpoint) Caps(int) fabric.Caps {
	return fabric.Caps{Kind: "tcp", EagerLimit: EagerLimit, MaxFrame: MaxFrame}
}

// Sources returns one source: the poller of all connections or, if each connection has a reader, a
// source whose costs say so.
func (e *Endpoint) Sources() []fabric.Source {
	if e.poller == nil {
		return []fabric.Source{readers{}}
	}
	return []fabric.Source{e.poller}
}

// readers is the source of an endpoint whose connections have readers.
type readers struct{ fabric.NoSource }

func (readers) Costs() fabric.Costs { return fabric.Costs{Readers: true} }

// Shared returns ErrUnsupported.
func (e *Endpoint) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

// Bind sets the handler and begins to accept connections.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	e.bind.Do(func() {
		e.handler, e.progress = h, p
		e.wg.Go(waits.Service(e.accept))
		if e.poller != nil {
			e.wg.Go(waits.Service(e.poller.doorbellLoop))
		}
	})
}

// Local returns the handler for the rank itself.
func (e *Endpoint) Local(peer int) fabric.Handler {
	if peer == e.cfg.Rank {
		return e.handler
	}
	return nil
}

// Send moves one frame to a rank. A frame to a peer that is lost later is lost.
func (e *Endpoint) Send(dst int, f fabric.Frame) error {
	f.Origin, f.Target = int32(e.cfg.Rank), int32(dst)
	return e.pass(dst, &f)
}

// Relay passes on a frame that is on its way.
func (e *Endpoint) Relay(hop int, f fabric.Frame) error {
	if err := f.Between(e.Size()); err != nil {
		return err
	}
	return e.pass(hop, &f)
}

func (e *Endpoint) pass(hop int, f *fabric.Frame) error {
	p := e.peers.At(hop)
	switch {
	case p == nil:
		return e.peers.Missing(hop)
	case len(f.Data) > MaxFrame:
		return fmt.Errorf("%w: a frame of %d bytes; the largest is %d", fabric.ErrUnsupported, len(f.Data), MaxFrame)
	case hop == e.cfg.Rank:
		if e.ctx.Err() != nil {
			return fabric.ErrClosed
		}
		fabric.Deliver(e.handler, f)
		return nil
	}
	return p.send(kindFrame, f, nil)
}

// Expect sets the memory for the bytes of a transfer.
func (e *Endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.expected.Add(src, key, dst, done)
}

// Forget takes an expectation back.
func (e *Endpoint) Forget(src int, key uint64) bool {
	if e.expected.Forget(src, key) {
		return true
	}
	e.peers.At(src).interrupt(key)
	return false
}

// Push sends the bytes of a transfer in pieces. Frames may be sent between the pieces.
func (e *Endpoint) Push(dst int, key uint64, data []byte, done func(error)) {
	p := e.peers.At(dst)
	switch {
	case p == nil:
		done(e.peers.Missing(dst))
	case dst != e.cfg.Rank:
		p.push(key, data, done)
	case e.ctx.Err() != nil:
		done(fabric.ErrClosed)
	default:
		done(e.expected.Put(dst, key, data))
	}
}

// accept accepts connections until the endpoint closes.
func (e *Endpoint) accept() {
	unproved := lobby.New(maxUnproved)
	for {
		c, err := e.ln.Accept()
		if err != nil {
			select { // mostly no descriptor is free; some will be closed in time
			case <-e.ctx.Done(): // which is before the listener is closed
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if unproved.Enter(c, e.ctx.Done()) {
			e.wg.Go(waits.Service(func() {
				defer unproved.Leave(c)
				e.acceptPeer(c, func() bool { return unproved.Leave(c) })
			}))
		}
	}
}

// acceptPeer makes an accepted connection that of a peer. It closes the connection if the other end
// does not prove that it belongs to this job. proved reports whether the proof came before the
// connection was evicted.
func (e *Endpoint) acceptPeer(c net.Conn, proved func() bool) {
	bare := c // c is replaced below, and the endpoint may close at any time
	stop := context.AfterFunc(e.ctx, func() { _ = bare.Close() })
	defer stop()
	e.tune(c)
	_ = c.SetDeadline(time.Now().Add(e.cfg.DialTimeout))
	if e.cfg.TLS != nil {
		c = tls.Server(c, e.cfg.TLS)
	}
	rank, err := receive(c, e.cfg.Secret, e.cfg.Rank, e.Size())
	if err != nil || !proved() || e.cfg.Serves != nil && !e.cfg.Serves(rank) {
		// (a rank that Serves refuses uses another fabric)
		_ = c.Close()
		return
	}
	p := e.peers.At(rank)
	verdict := p.admit()
	if verdict != 0 {
		_, err = c.Write([]byte{verdict})
	}
	if verdict != accepted || err != nil {
		_ = c.Close()
		if verdict == accepted {
			p.lose(p.wrap(err))
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	p.establish(c)
}

// dial connects to p, for which frames wait. dial has its own goroutine.
func (e *Endpoint) dial(p *peer) {
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.DialTimeout+e.cfg.Linger)
	defer cancel()
	err := e.connect(ctx, p)
	if errors.Is(err, errDuplicate) {
		select {
		case <-p.opened: // by acceptPeer
			return
		case <-ctx.Done():
			err = fmt.Errorf("its own connection has not arrived: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		p.unreachable(fmt.Errorf("tcp: connecting to rank %d: %w", p.rank, err))
	}
}

// connect tries the addresses of a rank, one after the other, and repeats that Config.Retry times
// until an address leads to the rank.
func (e *Endpoint) connect(ctx context.Context, p *peer) error {
	addr, err := e.cfg.Lookup(ctx, p.rank)
	if err != nil {
		return err
	}
	list := targets(addr)
	pause := firstPause
	for left := e.cfg.Retry; ; left-- {
		var problems []error
		for _, a := range list {
			err := e.try(ctx, p, a, len(list) > 1)
			if err == nil || errors.Is(err, errDuplicate) {
				return err
			}
			problems = append(problems, err)
		}
		err = errors.Join(problems...)
		if left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-p.opened: // by the peer's own connection
			return errDuplicate
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// try connects by one address. others: there are further addresses to try.
func (e *Endpoint) try(ctx context.Context, p *peer, addr string, others bool) error {
	limit := e.cfg.DialTimeout
	if others {
		limit = min(limit, tryTime)
	}
	d := net.Dialer{Timeout: limit}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	bare := c // as in acceptPeer
	stop := context.AfterFunc(ctx, func() { _ = bare.Close() })
	defer stop()
	e.tune(c)
	_ = c.SetDeadline(time.Now().Add(limit))
	if e.cfg.TLS != nil {
		c = tls.Client(c, e.cfg.TLS)
	}
	if err := greet(c, e.cfg.Secret, e.cfg.Rank, p.rank); err != nil {
		_ = c.Close()
		return fmt.Errorf("%s: %w", addr, err)
	}
	if !stop() { // ctx has ended, and c is closed, or will be
		return fmt.Errorf("%s: %w", addr, context.Cause(ctx))
	}
	_ = c.SetDeadline(time.Time{})
	p.establish(c)
	return nil
}

// tune sets the options of a connection. (TCP_NODELAY is Go's default.)
func (e *Endpoint) tune(c net.Conn) {
	switch t, ok := c.(*net.TCPConn); {
	case !ok:
	case isNear(t):
		tuneNear(t) // no keep-alive: there is no other machine that could vanish
	default:
		keepalive.Enable(t, e.cfg.DeadAfter)
	}
}

// Drop ends the communication with a peer that the layer above knows to be lost.
func (e *Endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil && peer != e.cfg.Rank {
		p.lose(p.wrap(err))
	}
}

// Close writes queued frames, tells the peers, and waits for them to close, all within Linger. The
// endpoint listens until then: the connection that will be used with a peer may be one that the
// peer is still making.
func (e *Endpoint) Close() error {
	e.closeOnce.Do(func() {
		linger := e.cfg.Linger
		if e.cfg.Failed != nil && e.cfg.Failed.Load() {
			linger = min(linger, failedLinger)
		}
		expired, stop := context.WithTimeout(context.Background(), linger)
		var wg sync.WaitGroup
		for _, p := range e.peers.Close() {
			wg.Go(func() { p.close(expired.Done()) })
		}
		wg.Wait()
		stop()
		e.cancel()
		e.closeErr = e.ln.Close()
		if e.poller != nil {
			e.closeErr = errors.Join(e.closeErr, e.poller.end(e.cfg.Linger))
		}
		e.wg.Wait()
		e.expected.Close()
	})
	return e.closeErr
}
