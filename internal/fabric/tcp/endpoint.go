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

// maxStrangers bounds the connections that have not proved themselves. The oldest gives way to
// those that come.
const maxStrangers = 64

// New returns the endpoint of a rank, which listens. Connections are taken after Bind.
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
	if e.eyes, err = openEyes(e); err != nil {
		return nil, errors.Join(fmt.Errorf("tcp: %w", err), ln.Close())
	}
	return e, nil
}

// Addr returns the addresses at which the endpoint listens, with commas between, for the others'
// Lookup.
func (e *Endpoint) Addr() string { return strings.Join(e.addrs, ",") }

// Rank returns the endpoint's rank.
func (e *Endpoint) Rank() int { return e.cfg.Rank }

// Size returns the number of ranks.
func (e *Endpoint) Size() int { return len(e.peers.All()) }

// Grow makes the ranks up to size peers, which Config.Lookup knows from now on.
func (e *Endpoint) Grow(size int) error {
	return e.peers.Grow(size, func(rank int) *peer { return newPeer(e, rank) })
}

// Caps returns the properties of the connection to a peer.
func (e *Endpoint) Caps(int) fabric.Caps {
	return fabric.Caps{Kind: "tcp", EagerLimit: EagerLimit, MaxFrame: MaxFrame}
}

// Sources are the connections together or, where each has a reader, something that says so.
func (e *Endpoint) Sources() []fabric.Source {
	if e.eyes == nil {
		return []fabric.Source{readers{}}
	}
	return []fabric.Source{e.eyes}
}

// readers are what reads where connections are read in the ordinary way.
type readers struct{ fabric.NoSource }

func (readers) Costs() fabric.Costs { return fabric.Costs{Readers: true} }

// Shared is not there.
func (e *Endpoint) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }

// Bind sets the handler and begins to take connections.
func (e *Endpoint) Bind(h fabric.Handler, p fabric.Progress) {
	e.bind.Do(func() {
		e.handler, e.progress = h, p
		e.wg.Go(waits.Service(e.accept))
		if e.eyes != nil {
			e.wg.Go(waits.Service(e.eyes.sleeper))
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

// Expect says where the bytes of a transfer are to be put.
func (e *Endpoint) Expect(src int, key uint64, dst []byte, done func(error)) {
	e.expected.Add(src, key, dst, done)
}

// Forget takes an expectation back.
func (e *Endpoint) Forget(src int, key uint64) bool {
	if e.expected.Forget(src, key) {
		return true
	}
	e.peers.At(src).stir(key)
	return false
}

// Push sends the bytes of a transfer, in pieces that frames may go between.
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

// accept takes connections until the endpoint closes.
func (e *Endpoint) accept() {
	strangers := lobby.New(maxStrangers)
	for {
		c, err := e.ln.Accept()
		if err != nil {
			select { // out of descriptors, mostly: others are freed in time
			case <-e.ctx.Done(): // which is before the listener is closed
				return
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		if strangers.Enter(c, e.ctx.Done()) {
			e.wg.Go(waits.Service(func() {
				defer strangers.Leave(c)
				e.meet(c, func() bool { return strangers.Leave(c) })
			}))
		}
	}
}

// meet makes a connection that has come a peer's. Whoever cannot prove to be one is dropped: it is
// not of this job. proved says whether it was in time.
func (e *Endpoint) meet(c net.Conn, proved func() bool) {
	bare := c // c is another one soon, and what ends may come at any time
	stop := context.AfterFunc(e.ctx, func() { _ = bare.Close() })
	defer stop()
	e.tune(c)
	_ = c.SetDeadline(time.Now().Add(e.cfg.DialTimeout))
	if e.cfg.TLS != nil {
		c = tls.Server(c, e.cfg.TLS)
	}
	rank, err := receive(c, e.cfg.Secret, e.cfg.Rank, e.Size())
	if err != nil || !proved() || e.cfg.Serves != nil && !e.cfg.Serves(rank) {
		// else the two use another fabric
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
			p.lose(p.broken(err))
		}
		return
	}
	_ = c.SetDeadline(time.Time{})
	p.establish(c)
}

// dial connects to p, which has frames waiting, on a goroutine of its own.
func (e *Endpoint) dial(p *peer) {
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.DialTimeout+e.cfg.Linger)
	defer cancel()
	err := e.connect(ctx, p)
	if errors.Is(err, errDuplicate) {
		select {
		case <-p.opened: // by meet
			return
		case <-ctx.Done():
			err = fmt.Errorf("its own connection has not come: %w", context.Cause(ctx))
		}
	}
	if err != nil {
		p.unreachable(fmt.Errorf("tcp: connecting to rank %d: %w", p.rank, err))
	}
}

// connect tries the addresses of a rank, one after the other and then again, until one leads to it.
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

// try makes the connection by one address.
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
	bare := c // as in meet
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
	if !stop() { // what ended is about to close c
		return fmt.Errorf("%s: %w", addr, context.Cause(ctx))
	}
	_ = c.SetDeadline(time.Time{})
	p.establish(c)
	return nil
}

// tune sets what connections have; that they do not delay is Go's default.
func (e *Endpoint) tune(c net.Conn) {
	switch t, ok := c.(*net.TCPConn); {
	case !ok:
	case isNear(t):
		tuneNear(t) // and there is no other machine that could vanish
	default:
		keepalive.Enable(t, e.cfg.DeadAfter)
	}
}

// Drop ends everything with a peer, which the layer above knows to be lost.
func (e *Endpoint) Drop(peer int, err error) {
	if p := e.peers.At(peer); p != nil && peer != e.cfg.Rank {
		p.lose(p.broken(err))
	}
}

// Close ends the rank's part: what is queued is written, the peers are told, and theirs is waited
// for, all within Linger. It listens until then: a peer with which this rank is connecting may have
// been promised that its own connection will be the one that is used.
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
		if e.eyes != nil {
			e.closeErr = errors.Join(e.closeErr, e.eyes.end(e.cfg.Linger))
		}
		e.wg.Wait()
		e.expected.Close()
	})
	return e.closeErr
}
