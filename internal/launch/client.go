// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weft/internal/env"
	"weft/internal/waits"
)

const (
	// lostGrace is the time in which a rank whose launcher is gone may end by itself.
	lostGrace = 2 * time.Second
	// lostStatus is the exit status of a rank that does not end by itself then: 129, as a shell
	// reports for SIGHUP, which has a similar meaning.
	lostStatus = 129
)

// endProcess ends a rank that does not end by itself. Tests with the Client in the launcher's
// process replace it.
var endProcess = func(rank int, why error) {
	fmt.Fprintf(os.Stderr, "weft: rank %d ends: %v\n", rank, why)
	os.Exit(lostStatus)
}

// Client is a rank's connection to its launcher. All methods may be called at any time by any
// goroutine.
type Client struct {
	// Constant after construction.
	identity Identity
	c        net.Conn
	id       string
	part     int
	spread   bool
	secret   Secret
	node     NodeID
	noNode   error         // why node is not known; Meet fails with it
	lost     chan struct{} // closed when the launcher is gone
	done     chan struct{} // closed when the reader has ended

	wmu     sync.Mutex // held while a frame is written
	watchMu sync.Mutex // held while watchers are called; above mu

	mu     sync.Mutex
	keys   map[string]bool        // guarded by mu: what this rank has put
	bytes  int                    // guarded by mu: of the values of keys
	next   uint64                 // guarded by mu: the id of the last get
	gets   map[uint64]chan answer // guarded by mu: by id, of capacity 1
	round  uint64                 // guarded by mu: exchanges begun
	shares [][]byte               // guarded by mu: values of the exchange in progress, by rank
	// guarded by mu: gets the result of the exchange in progress, of capacity 1; nil: there is none
	exchange chan answer
	broken   error          // guarded by mu: why there can be no more exchanges
	deaths   map[int]*Death // guarded by mu
	watchers []func(error)  // guarded by watchMu
	abort    *Abort         // guarded by mu: the job is being ended
	err      error          // guarded by mu: why the connection has ended
	left     bool           // guarded by mu
}

type answer struct {
	value  []byte
	shares [][]byte
	err    error
}

// Join connects this process to its launcher as the rank of the identity. A process does so once.
func (p *Identity) Join(ctx context.Context) (*Client, error) {
	var c *Client
	err := retryHandshake(ctx, func() (err error) { c, err = p.join(ctx); return err })
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &Error{Op: "join", Rank: p.Rank, Err: err}
	}
	return c, nil
}

func (p *Identity) join(ctx context.Context) (_ *Client, err error) {
	c := &Client{identity: *p, lost: make(chan struct{}), done: make(chan struct{}), keys: map[string]bool{}, gets: map[uint64]chan answer{}, deaths: map[int]*Death{}}
	c.node, c.noNode = Node()
	st, err := os.Lstat(p.Dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrLauncherLost, env.Job.Name, err)
	case !st.IsDir() || !private(st) || jobID(p.Dir) == "":
		return nil, fmt.Errorf("%w: %s=%q is not the directory of a job of this user", ErrEnvironment, env.Job.Name, p.Dir)
	}
	if c.secret, err = readSecret(p.Dir); err != nil {
		return nil, err
	}
	var d net.Dialer
	if c.c, err = d.DialContext(ctx, "unix", filepath.Join(p.Dir, socketFile)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLauncherLost, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.c.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			_ = c.c.Close()
		} else {
			go waits.Service(c.read)()
		}
	}()
	if err = c.greet(); err != nil {
		return nil, err
	}
	return c, nil
}

// greet shakes hands with the launcher, and handles its answer.
func (c *Client) greet() error {
	_, f, err := introduce(c.c, &c.secret, jobLabel, binary.BigEndian.AppendUint32(nil, uint32(c.identity.Rank)))
	switch {
	case err != nil:
		return err
	case f.kind != jobWelcomes || jobID(dirPrefix+f.key) == "":
		return fmt.Errorf("%w: the launcher answers with a frame of kind %d", ErrProtocol, f.kind)
	case int(f.rank) != c.identity.Ranks:
		return fmt.Errorf("%w: %s=%d in a job of %d ranks", ErrEnvironment, env.Ranks.Name, c.identity.Ranks, f.rank)
	}
	c.id, c.part, c.spread = f.key, int(f.code), f.id == 1
	return nil
}

// Rank returns this process's rank.
func (c *Client) Rank() int { return c.identity.Rank }

// Size returns the number of ranks of the job.
func (c *Client) Size() int { return c.identity.Ranks }

// Part returns the part of the command line that started this rank: 0 for the first part, 1 for the
// one after the first colon.
func (c *Client) Part() int { return c.part }

// Node returns the identity of this rank's node; "" if it is not known, and then Meet returns the
// reason.
func (c *Client) Node() NodeID { return c.node }

// JobID returns the name of the job, which is in the names of its files.
func (c *Client) JobID() string { return c.id }

// Dir returns the job directory: mode 0700, for sockets and small files. It is removed at the end
// of the job. Its path is short enough for the address of a socket if file names in it have at most
// 16 bytes.
func (c *Client) Dir() string { return c.identity.Dir }

// Spread reports whether the job has ranks on other machines.
func (c *Client) Spread() bool { return c.spread }

// Secret returns the secret of the job, for Handshake.
func (c *Client) Secret() *Secret { return &c.secret }

// Lost returns a channel that is closed when the launcher is gone. The job is over then: this
// process is ended two seconds later if it does not end by itself.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// write sends a frame.
func (c *Client) write(f *frame) error {
	b := f.encode()
	c.wmu.Lock()
	defer c.wmu.Unlock()
	_, err := c.c.Write(b)
	return err
}

// fail wraps err in an *Error; it returns nil for nil.
func (c *Client) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Rank: c.identity.Rank, Err: err}
}

// usableLocked returns why the launcher can serve no more requests; nil if it can.
// +checklocks:c.mu
func (c *Client) usableLocked() error {
	switch {
	case c.left:
		return ErrLeft
	case c.abort != nil:
		return c.abort
	}
	return c.err
}

// Put publishes a value under this rank and a key; it can do so once for each key. It does not wait
// for other ranks. The value is copied.
func (c *Client) Put(key string, value []byte) error {
	return c.ask("put", &frame{kind: rankPuts, key: key, value: value}, func(*frame) error {
		if err := checkPut(c.keys, c.bytes, key, value); err != nil {
			return err
		}
		c.keys[key] = true
		c.bytes += len(value)
		return nil
	})
}

// ask sends a request. It fails if the launcher can serve no more requests, if note returns an
// error, or if the connection fails. note is called with mu held and may change the frame; nil:
// there is nothing to note.
func (c *Client) ask(op string, f *frame, note func(f *frame) error) error {
	c.mu.Lock()
	err := c.usableLocked()
	if err == nil && note != nil {
		err = note(f)
	}
	c.mu.Unlock()
	if err == nil {
		if err = c.write(f); err != nil {
			err = fmt.Errorf("%w: %w", ErrLauncherLost, err)
		}
	}
	return c.fail(op, err)
}

// Get returns the value that a rank has published under a key, and waits until the rank does. It
// fails with the rank's *Death if the rank has left or ended without. When ctx ends, only the
// waiting ends.
func (c *Client) Get(ctx context.Context, rank int, key string) ([]byte, error) {
	if rank < 0 || rank >= c.identity.Ranks || key == "" || len(key) > MaxKey {
		return nil, c.fail("get", fmt.Errorf("%w: key %q of rank %d; ranks are 0 to %d, keys have 1 to %d bytes", ErrLimit, key, rank, c.identity.Ranks-1, MaxKey))
	}
	ch := make(chan answer, 1)
	err := c.ask("get", &frame{kind: rankGets, rank: int32(rank), key: key}, func(f *frame) error {
		if len(c.gets) >= maxWaiting {
			return fmt.Errorf("%w: %d gets at one time", ErrLimit, maxWaiting)
		}
		c.next++
		f.id = c.next
		c.gets[f.id] = ch // until the answer comes, even if Get does not wait any more
		return nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-ch:
		return a.value, c.fail("get", a.err)
	case <-ctx.Done():
		return nil, c.fail("get", context.Cause(ctx))
	}
}

// Exchange returns the values of all ranks, by rank; empty ones as nil. All ranks must call it,
// each rank equally often and one call at a time. If a rank has left or ended, this call and all
// later ones fail with its *Death, at all ranks. If ctx ends a call, it is the rank's last one.
func (c *Client) Exchange(ctx context.Context, value []byte) ([][]byte, error) {
	if len(value) > MaxValue {
		return nil, c.fail("exchange", fmt.Errorf("%w: %d bytes; a value has %d at most", ErrLimit, len(value), MaxValue))
	}
	ch := make(chan answer, 1)
	err := c.ask("exchange", &frame{kind: rankExchanges, value: value}, func(f *frame) error {
		switch {
		case c.broken != nil:
			return c.broken
		case c.exchange != nil:
			return fmt.Errorf("%w: another exchange of this rank is being made", ErrLimit)
		}
		c.round++
		f.id = c.round
		c.exchange, c.shares = ch, make([][]byte, c.identity.Ranks)
		return nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-ch:
		return a.shares, c.fail("exchange", a.err)
	case <-ctx.Done():
		err := context.Cause(ctx)
		c.mu.Lock()
		c.broken = cmp.Or(c.broken, fmt.Errorf("an earlier exchange was given up: %w", err))
		c.mu.Unlock()
		return nil, c.fail("exchange", err)
	}
}

// Fence returns when all ranks have called it. Get does not wait for values that ranks have put
// before. In all other respects Fence is an Exchange.
func (c *Client) Fence(ctx context.Context) error {
	_, err := c.Exchange(ctx, nil)
	return err
}

// Watch registers f for calls with the *Death of each rank that ends, and with the *Abort when the
// job is being ended: once each, one after the other. The goroutine that reads from the launcher
// makes the calls, except for ends that are known already: Watch makes these before it returns. f
// must not block, and must not call Watch.
func (c *Client) Watch(f func(error)) {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	c.watchers = append(c.watchers, f)
	var known []error
	c.mu.Lock()
	for r := range c.identity.Ranks {
		if d := c.deaths[r]; d != nil {
			known = append(known, d)
		}
	}
	if c.abort != nil {
		known = append(known, c.abort)
	}
	c.mu.Unlock()
	for _, err := range known {
		f(err)
	}
}

// Abort asks the launcher to end the job with an exit status, 1 to 255, and a reason. It does not
// wait for the end. The other ranks hear of the abort, and this process is ended with them if it
// does not end by itself.
func (c *Client) Abort(code int, reason string) error {
	return c.ask("abort", &frame{kind: rankAborts, code: int32(code), value: cut(reason)}, nil)
}

// Deadlock asks the launcher to end the job with StatusDeadlock, because all ranks wait for each
// other. text says what they wait for. Deadlock does not wait for the end.
func (c *Client) Deadlock(text string) error {
	return c.ask("deadlock", &frame{kind: rankAborts, id: 1, code: StatusDeadlock, value: []byte(text[:min(len(text), MaxValue)])}, nil)
}

// Leave tells the launcher that this rank takes no part in the job any more and may end. A rank
// that ends without Leave ends the job. All later calls of the Client fail, except that Leave does
// nothing.
func (c *Client) Leave() error {
	c.mu.Lock()
	already, err := c.left, c.err
	c.left = true
	c.mu.Unlock()
	if already {
		return nil
	}
	if err == nil {
		err = c.write(&frame{kind: rankLeaves})
	}
	_ = c.c.Close()
	<-c.done
	return c.fail("leave", err)
}

// read is the reader goroutine. It ends with the connection.
func (c *Client) read() {
	defer close(c.done)
	var err error
	for err == nil {
		var f frame
		if f, err = readFrame(c.c); err == nil {
			err = c.handle(&f)
		}
	}
	_ = c.c.Close()
	c.mu.Lock()
	left := c.left
	c.mu.Unlock()
	if !left {
		// Remove the files of the job if the launcher is dead. Do that first: code that hears of
		// the loss may end the process. A launcher's connections may end a little before its socket
		// does. A launcher that goes on listening has dropped this rank.
		for tries := 10; tries > 0 && !removeDead(c.identity.Dir); tries-- {
			time.Sleep(2 * time.Millisecond)
		}
	}
	c.mu.Lock()
	left = c.left // Leave may have been called meanwhile
	switch {
	case left:
		c.err = ErrLeft
	case errors.Is(err, ErrProtocol) && !errors.Is(err, io.ErrUnexpectedEOF):
		c.err = err
	default:
		c.err = ErrLauncherLost
	}
	why := c.err
	if c.abort != nil && !left {
		why = c.abort // the launcher ends because the job does
	}
	c.failAllLocked(why)
	c.mu.Unlock()
	if !left {
		close(c.lost)
		time.AfterFunc(lostGrace, func() { endProcess(c.identity.Rank, why) })
	}
}

// removeDead removes the files of a job if its launcher is dead.
func removeDead(dir string) bool {
	if !launcherDead(dir) {
		return false
	}
	_ = Remove(dir) // after an error, other ranks and the next launcher try too
	return true
}

// failAllLocked fails all requests that wait for the launcher.
// +checklocks:c.mu
func (c *Client) failAllLocked(why error) {
	for id, ch := range c.gets {
		delete(c.gets, id)
		ch <- answer{err: why}
	}
	c.endExchangeLocked(answer{err: why})
}

// endExchangeLocked sets the result of the exchange in progress.
// +checklocks:c.mu
func (c *Client) endExchangeLocked(a answer) {
	c.broken = cmp.Or(c.broken, a.err)
	if c.exchange != nil {
		c.exchange <- a
	}
	c.exchange, c.shares = nil, nil
}

// deathLocked returns how a rank has ended, or that it has left.
// +checklocks:c.mu
func (c *Client) deathLocked(rank int32) *Death {
	if d := c.deaths[int(rank)]; d != nil {
		return d
	}
	return &Death{Rank: int(rank), How: "it has left the job", Clean: true}
}

// handle handles a frame from the launcher, and calls the watchers.
func (c *Client) handle(f *frame) error {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	news, err := c.take(f)
	if news != nil {
		for _, w := range c.watchers {
			w(news)
		}
	}
	return err
}

// take handles a frame. It returns the *Death or *Abort that watchers must hear; nil: none.
func (c *Client) take(f *frame) (news, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	bad := func() error {
		return fmt.Errorf("%w: a frame of kind %d with id %d and rank %d from the launcher", ErrProtocol, f.kind, f.id, f.rank)
	}
	switch f.kind {
	case jobDenies, jobFails, jobShares, jobNotifies:
		if f.rank < 0 || int(f.rank) >= c.identity.Ranks {
			return nil, bad()
		}
	case jobAborts:
		if f.rank < -1 || int(f.rank) >= c.identity.Ranks {
			return nil, bad()
		}
	}
	if c.abort != nil && f.kind != jobNotifies {
		return nil, nil // all calls have failed already, and the first abort counts
	}
	switch f.kind {
	case jobAnswers, jobDenies:
		ch := c.gets[f.id]
		if ch == nil {
			return nil, bad()
		}
		delete(c.gets, f.id)
		if f.kind == jobDenies {
			ch <- answer{err: c.deathLocked(f.rank)}
		} else {
			ch <- answer{value: f.value}
		}
	case jobShares, jobShared, jobFails:
		if f.id != c.round || c.exchange == nil {
			if f.kind == jobFails && c.broken != nil {
				return nil, nil // each further rank that ends fails the exchange again
			}
			return nil, bad()
		}
		switch f.kind {
		case jobShares:
			c.shares[f.rank] = f.value
		case jobShared:
			c.endExchangeLocked(answer{shares: c.shares})
		default:
			c.endExchangeLocked(answer{err: c.deathLocked(f.rank)})
		}
	case jobNotifies:
		if c.deaths[int(f.rank)] != nil {
			return nil, bad()
		}
		d, err := parseNotice(f)
		if err == nil && d.Cause != nil && d.Cause.Rank >= c.identity.Ranks {
			err = bad()
		}
		if err != nil {
			return nil, err
		}
		c.deaths[d.Rank] = d
		return d, nil
	case jobAborts:
		c.abort = &Abort{Rank: int(f.rank), Code: int(f.code), Reason: string(f.value)}
		c.failAllLocked(c.abort)
		return c.abort, nil
	default:
		return nil, bad()
	}
	return nil, nil
}
