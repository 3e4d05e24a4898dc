// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// Calls that are refused, with their errors, and calls for the rank itself.
func TestRefused(t *testing.T) {
	e, err := New(Config{Rank: 1, Size: 2, Secret: testSecret, Lookup: noLookup})
	require.NoError(t, err)
	k := &keeper{}
	bind(e, k)
	bind(e, &keeper{}) // the first one counts
	require.Equal(t, fabric.Handler(k), e.Local(1))
	require.Nil(t, e.Local(0))
	require.Nil(t, e.Local(2))
	pushed := func(dst int, key uint64, n int) (err error) {
		ends := 0
		e.Push(dst, key, frameOf(1, n).Data, func(e error) { ends++; err = e })
		require.Equal(t, 1, ends)
		return err
	}
	for _, dst := range []int{-1, 2, 3} {
		require.EqualError(t, e.Send(dst, fabric.Frame{}), fmt.Sprintf("fabric: no such rank: %d of 2", dst))
		require.EqualError(t, pushed(dst, 1, 1), fmt.Sprintf("fabric: no such rank: %d of 2", dst))
		e.Drop(dst, io.EOF)
	}
	e.Drop(1, io.EOF)
	require.Empty(t, k.errs)
	err = e.Send(1, fabric.Frame{Data: make([]byte, MaxFrame+1)})
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	require.ErrorContains(t, err, "a frame of 262145 bytes; the largest is 262144")
	require.NoError(t, e.Send(1, fabric.Frame{Data: make([]byte, MaxFrame)}))
	require.Len(t, k.frames, 1)
	require.NoError(t, pushed(1, 5, 10), "not expected")
	dst := make([]byte, 10)
	ends := 0
	e.Expect(1, 5, dst, func(err error) {
		require.NoError(t, err)
		require.Equal(t, frameOf(1, 10).Data, dst, "the bytes arrive before the end")
		ends++
	})
	require.ErrorContains(t, pushed(1, 5, 11), "it sends 11 bytes at offset 0")
	require.Zero(t, ends)
	require.NoError(t, pushed(1, 5, 10))
	require.Equal(t, 1, ends)
	require.Equal(t, frameOf(1, 10).Data, dst)
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.Send(1, fabric.Frame{}), fabric.ErrClosed)
	require.ErrorIs(t, pushed(1, 5, 1), fabric.ErrClosed)
	require.ErrorIs(t, pushed(0, 5, 1), fabric.ErrClosed)
	require.Len(t, k.frames, 1)
}

// door is a listener with errors.
type door struct {
	net.Listener
	refuses atomic.Int32 // number of further calls of Accept that fail
	asked   atomic.Int32 // number of calls of Accept
	err     error        // of Close
}

func (d *door) Accept() (net.Conn, error) {
	d.asked.Add(1)
	if d.refuses.Add(-1) >= 0 {
		return nil, errFails
	}
	return d.Listener.Accept()
}

func (d *door) Close() error { return errors.Join(d.Listener.Close(), d.err) }

// Accept is called again after an error. An error of closing the listener is reported. Close does
// not wait for the next Accept.
func TestListenerFails(t *testing.T) {
	eps := openAll(t, 2, nil)
	d := &door{Listener: eps[1].ln, err: errFails}
	d.refuses.Store(3)
	eps[1].ln = d
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	require.GreaterOrEqual(t, d.asked.Load(), int32(4))
	require.ErrorIs(t, eps[1].Close(), errFails)
	require.ErrorIs(t, eps[1].Close(), errFails)

	e, err := New(Config{Size: 1, Secret: testSecret})
	require.NoError(t, err)
	d = &door{Listener: e.ln}
	d.refuses.Store(1 << 30)
	e.ln = d
	bind(e, newCollect())
	eventually(t, func() bool { return d.asked.Load() > 2 })
	before := runtime.NumGoroutine()
	require.NoError(t, e.Close())
	eventually(t, func() bool { return runtime.NumGoroutine() < before })
}

// The pauses between attempts double, up to a second; the time for all attempts is bounded.
func TestPauses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close()) // no listener is there
	for retry, want := range map[int]time.Duration{0: 0, 1: 10, 2: 30, 7: 1270, 8: 2270, 10: 4270, 1000: 5000} {
		synctest.Test(t, func(t *testing.T) {
			e := &Endpoint{cfg: Config{Size: 2, Secret: testSecret, Retry: retry, DialTimeout: time.Hour, Lookup: func(context.Context, int) (string, error) { return addr, nil }}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			start := time.Now()
			require.ErrorContains(t, e.connect(ctx, newPeer(e, 1)), addr)
			require.Equal(t, want*time.Millisecond, time.Since(start), "%d times", retry)
		})
	}
	synctest.Test(t, func(t *testing.T) { // the peer connects meanwhile
		e := &Endpoint{cfg: Config{Size: 2, Secret: testSecret, Retry: 1000, DialTimeout: time.Hour, Lookup: func(context.Context, int) (string, error) { return addr, nil }}}
		p := newPeer(e, 1)
		time.AfterFunc(time.Second, func() { close(p.opened) })
		start := time.Now()
		require.ErrorIs(t, e.connect(t.Context(), p), errDuplicate)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// An accepted connection that was evicted is not used. If one breaks before the verdict, the peer
// is lost.
func TestAcceptPeer(t *testing.T) {
	for _, row := range []struct {
		proved, breaks bool
		want           state
	}{{true, false, open}, {false, false, idle}, {true, true, lost}} {
		c := newCollect()
		e := &Endpoint{cfg: Config{Size: 2, Secret: testSecret, DialTimeout: time.Minute}, handler: c}
		e.ctx, e.cancel = context.WithCancel(t.Context())
		require.NoError(t, e.Grow(2))
		here, there := net.Pipe()
		met := make(chan struct{})
		go func() {
			e.acceptPeer(here, func() bool { return row.proved })
			close(met)
		}()
		hello := append([]byte("weft"), words(3, 1)...)
		_, err := there.Write(append(hello, aNonce...))
		require.NoError(t, err)
		answer := take(t, there, nonceSize+32)
		_, err = there.Write(mac(testSecret, 'd', 1, 0, aNonce, answer[:nonceSize]))
		require.NoError(t, err)
		if row.breaks {
			require.NoError(t, there.Close())
			require.Equal(t, 1, <-c.lost)
			require.EqualError(t, c.errors()[0], "tcp: rank 1: io: read/write on closed pipe")
		} else if row.proved {
			require.Equal(t, []byte{accepted}, take(t, there, 1))
		} else {
			_, err = there.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
		}
		<-met
		e.peers.At(1).mu.Lock()
		require.Equal(t, row.want, e.peers.At(1).state, "%+v", row)
		e.peers.At(1).mu.Unlock()
		_ = there.Close()
		e.cancel()
		e.wg.Wait()
	}
}

// An error of Lookup loses the peer.
func TestLookupFails(t *testing.T) {
	e, err := New(Config{Size: 2, Secret: testSecret, Lookup: noLookup})
	require.NoError(t, err)
	c := newCollect()
	bind(e, c)
	require.NoError(t, e.Send(1, fabric.Frame{}))
	require.Equal(t, 1, <-c.lost)
	require.EqualError(t, c.errors()[0], "tcp: connecting to rank 1: no address is known")
	require.NoError(t, e.Close())
}

// A connection is made also if DialTimeout is less than Linger.
func TestShortDialTimeout(t *testing.T) {
	eps := openAll(t, 2, func(c *Config) { c.DialTimeout, c.Linger = 20*time.Second, time.Minute })
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 || len(cs[0].lost) > 0 })
	require.Empty(t, cs[0].errors())
}

// A connection is not affected by the end of DialTimeout after it was made.
func TestBeyondTheTimeToDial(t *testing.T) {
	for name, conf := range map[string]*tls.Config{"plain": nil, "TLS": testTLS(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = time.Second
			eps := openAll(t, 2, func(c *Config) { c.TLS, c.DialTimeout, c.Retry = conf, limit, 1000 })
			cs := bindAll(eps)
			require.NoError(t, eps[0].Send(1, fabric.Frame{}))
			eventually(t, func() bool { return cs[1].n.Load() == 1 })
			time.Sleep(limit + limit/10) // the test needs that time to pass
			for k := range uint64(3) {
				for r := range eps {
					require.NoError(t, eps[r].Send(1-r, fabric.Frame{Head: [fabric.HeadWords]uint64{k + uint64(1-r)}}))
				}
				eventually(t, func() bool { return cs[0].n.Load() == int64(k+1) && cs[1].n.Load() == int64(k+2) })
			}
			require.Empty(t, cs[0].errors())
			require.Empty(t, cs[1].errors())
		})
	}
}

// The sending of a frame happens before its delivery, also for the race detector.
func TestSeenInOrder(t *testing.T) {
	eps := openAll(t, 2, nil)
	cs := bindAll(eps)
	written, seen := make([]int, 64), make(chan int, 1) // by frame
	cs[1].each = func(_ int, f fabric.Frame) { seen <- written[f.Head[0]] + len(f.Data) }
	for k := range written {
		n := []int{0, 10, 2000, 100_000}[k%4] // copied after its head, or not
		written[k] = k + 1
		data := bytes.Repeat([]byte{byte(k)}, n)
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(k)}, Data: data}))
		clear(data) // the sender may reuse it at once
		require.Equal(t, k+1+n, <-seen)
	}
}

// wires is a connection that keeps the written bytes, or whose writes fail.
type wires struct {
	net.Conn
	mu     sync.Mutex
	wrote  bytes.Buffer
	ends   chan struct{} // closed by Close; then reads end
	once   sync.Once
	fails  bool
	halves int
}

func (w *wires) Read([]byte) (int, error) { <-w.ends; return 0, io.EOF }

func (w *wires) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fails {
		return 0, errFails
	}
	return w.wrote.Write(b)
}

func (w *wires) CloseWrite() error { w.halves++; return nil }
func (w *wires) Close() error      { w.once.Do(func() { close(w.ends) }); return nil }

func (w *wires) LocalAddr() net.Addr  { return nil }
func (w *wires) RemoteAddr() net.Addr { return nil }

// A connection with a writer goroutine: the writer is woken, and writes frames and pieces in their
// order. An error ends everything that waits, and loses the peer.
func TestWriter(t *testing.T) {
	open := func(fails bool) (*peer, *wires, *collect) {
		c := newCollect()
		p := newPeer(lone(Config{Size: 2}, c), 1)
		p.state = connecting
		return p, &wires{ends: make(chan struct{}), fails: fails}, c
	}
	p, w, c := open(false)
	a, b := frameOf(1, 0), frameOf(2, 300)
	require.NoError(t, p.send(kindFrame, &a, nil)) // before the connection is open
	done := make(chan error, 8)
	p.piece = 200
	p.push(7, b.Data, func(err error) { done <- err })
	p.establish(w)
	require.NoError(t, <-done)
	require.NoError(t, p.send(kindFrame, &b, nil))
	want := onWire(kindFrame, a)
	want = append(want, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{7}, Data: b.Data[:200]})...)
	want = append(want, onWire(kindPiece, fabric.Frame{Head: [fabric.HeadWords]uint64{7, 200}, Data: b.Data[200:]})...)
	want = append(want, onWire(kindFrame, b)...)
	written := func() []byte {
		w.mu.Lock()
		defer w.mu.Unlock()
		return bytes.Clone(w.wrote.Bytes())
	}
	eventually(t, func() bool { return len(written()) == len(want) })
	require.Equal(t, want, written())
	p.push(8, b.Data[:10], func(err error) { done <- err })
	require.NoError(t, <-done)
	expired := make(chan struct{})
	closed := make(chan struct{})
	go func() { p.close(expired); close(closed) }()
	eventually(t, func() bool { return bytes.HasSuffix(written(), appendHead(nil, kindClose, &fabric.Frame{})) })
	<-p.flushed
	eventually(t, func() bool { return parked("(*peer).close") == 1 })
	select {
	case <-closed:
		t.Fatal("the peer has not closed")
	default:
	}
	close(expired)
	<-closed
	p.e.wg.Wait()
	require.Equal(t, 1, w.halves, "this side ends first")
	require.Empty(t, c.errors())

	p, w, c = open(true)
	require.NoError(t, p.send(kindFrame, &a, nil))
	p.push(7, b.Data, func(err error) { done <- err })
	p.establish(w)
	require.EqualError(t, <-done, "tcp: rank 1: it fails")
	require.Equal(t, 1, <-c.lost)
	p.e.wg.Wait()
	require.EqualError(t, c.errors()[0], "tcp: rank 1: it fails")
	require.EqualError(t, p.send(kindFrame, &a, nil), "tcp: rank 1: it fails")
	require.Empty(t, done)
}

// If each connection has a reader, no goroutine polls.
func TestReaders(t *testing.T) {
	s := new(Endpoint).Sources()
	require.Len(t, s, 1)
	require.Equal(t, fabric.Costs{Readers: true}, s[0].Costs())
	require.False(t, progress.New(s, progress.Config{Ranks: 1}).Polls())
}
