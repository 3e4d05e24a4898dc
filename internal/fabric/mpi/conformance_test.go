//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"encoding/gob"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
)

// The conformance suite uses all endpoints of a fabric in one process. Here they are in several
// processes. Rank 0 of a job runs the suite, and has a remote for each other rank. The remote sends
// calls to that rank's endpoint, which sends back what it delivers and the ends of transfers.

const (
	suiteRanks = 4
	envSuite   = "WEFT_TEST_MPI_SUITE" // the directory with the socket
)

// request is a call of an endpoint's method; reply is the result, or a call that the endpoint has
// made.
type (
	request struct {
		What      string
		Peer, N   int
		Key       uint64
		Origin    int32
		Target    int32
		Head      [fabric.HeadWords]uint64
		Data      []byte
		Forgotten bool
	}
	reply struct {
		What      string // "reply", "deliver", "lost", "done"
		Peer      int
		Target    int32
		Key       uint64 // of the request that is done
		Head      [fabric.HeadWords]uint64
		Data      []byte
		Err       string
		Forgotten bool
	}
)

var sentinels = []error{fabric.ErrClosed, fabric.ErrRank, fabric.ErrUnsupported}

// wireError is an error of another process.
type wireError struct {
	text string
	is   error
}

func (e *wireError) Error() string { return e.text }
func (e *wireError) Unwrap() error { return e.is }

func text(err error) string {
	if err == nil {
		return ""
	}
	for i, s := range sentinels {
		if errors.Is(err, s) {
			return string(rune('0'+i)) + err.Error()
		}
	}
	return "-" + err.Error()
}

func untext(s string) error {
	switch {
	case s == "":
		return nil
	case s[0] == '-':
		return &wireError{text: s[1:]}
	}
	return &wireError{text: s[1:], is: sentinels[s[0]-'0']}
}

// TestConformance starts the suite as a job. Rank 0 of that job runs this function, too: see suite.
func TestConformance(t *testing.T) {
	if process == nil {
		out, err := job(t, suiteRanks, "suite", []string{"-test.run=^TestConformance$", "-test.v", "-test.timeout=90s"}, envSuite+"="+t.TempDir())
		require.NoError(t, err, "%s", out)
		require.Contains(t, out, "--- PASS: TestConformance/")
		return
	}
	remotes := acceptRemotes(t)
	fabrictest.RunAlone(t, func(t *testing.T, n int) []fabric.Endpoint {
		eps := make([]fabric.Endpoint, n)
		for r := 1; r < n; r++ {
			remotes[r].send(&request{What: "open", N: n})
			eps[r] = remotes[r].reset(r, n)
		}
		var err error
		eps[0], err = process.Open(world(process)[:n])
		require.NoError(t, err)
		eps[0] = near{eps[0]}
		for r := 1; r < n; r++ {
			require.NoError(t, untext((<-remotes[r].replies).Err))
		}
		for _, ep := range eps {
			require.ErrorIs(t, ep.Grow(n+1), fabric.ErrUnsupported, "ranks cannot join")
		}
		t.Cleanup(func() {
			var wg sync.WaitGroup
			for _, ep := range eps {
				wg.Go(func() { _ = ep.Close() })
			}
			wg.Wait()
			for r := 1; r < n; r++ {
				remotes[r].events <- &reply{What: "over"}
			}
		})
		return eps
	})
	for _, r := range remotes[1:] {
		r.send(&request{What: "end"})
	}
}

// Handlers of the suite read, after another process has answered, what the suite has written before
// a call. Accesses to passed tell the race detector about that order.
var passed atomic.Int64

// near is the endpoint of rank 0.
type near struct{ fabric.Endpoint }

func (n near) Bind(h fabric.Handler, p fabric.Progress) { n.Endpoint.Bind(ordered{h}, p) }

func (n near) Send(dst int, f fabric.Frame) error {
	passed.Add(1)
	return n.Endpoint.Send(dst, f)
}

func (n near) Relay(hop int, f fabric.Frame) error {
	passed.Add(1)
	return n.Endpoint.Relay(hop, f)
}

func (n near) Local(peer int) fabric.Handler {
	if h, ok := n.Endpoint.Local(peer).(ordered); ok {
		return h.Handler
	}
	return nil
}

type ordered struct{ fabric.Handler }

func (t ordered) Deliver(f *fabric.Frame) bool {
	passed.Load()
	return t.Handler.Deliver(f)
}

// suite is the role of the ranks of the job: rank 0 runs the tests, the others serve its calls.
func suite(m *testing.M) int {
	if process.Rank == 0 {
		return m.Run()
	}
	var c net.Conn
	var err error
	for range 1000 {
		if c, err = net.Dial("unix", filepath.Join(os.Getenv(envSuite), "s")); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		println(err.Error())
		return 1
	}
	a := &agent{enc: gob.NewEncoder(c)}
	a.send(&reply{Peer: process.Rank})
	dec := gob.NewDecoder(c)
	for {
		var q request
		if err := dec.Decode(&q); err != nil {
			println(err.Error())
			return 1
		}
		if q.What == "end" {
			return 0
		}
		a.do(&q)
	}
}

// agent makes the calls that rank 0 requests of another rank.
type agent struct {
	mu  sync.Mutex
	enc *gob.Encoder
	ep  fabric.Endpoint
}

func (a *agent) send(r *reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.enc.Encode(r); err != nil {
		println(err.Error())
	}
}

func (a *agent) Deliver(f *fabric.Frame) bool {
	a.send(&reply{What: "deliver", Peer: int(f.Origin), Target: f.Target, Head: f.Head, Data: f.Data})
	return false
}

func (a *agent) Lost(src int, err error) { a.send(&reply{What: "lost", Peer: src, Err: text(err)}) }

func (a *agent) do(q *request) {
	r := &reply{What: "reply"}
	switch q.What {
	case "open":
		ep, err := process.Open(world(process)[:q.N])
		a.ep, r.Err = ep, text(err)
		if err == nil {
			bind(ep, a)
		}
	case "send":
		r.Err = text(a.ep.Send(q.Peer, fabric.Frame{Head: q.Head, Data: q.Data}))
		clear(q.Data)
	case "relay":
		r.Err = text(a.ep.Relay(q.Peer, fabric.Frame{Origin: q.Origin, Target: q.Target, Head: q.Head, Data: q.Data}))
	case "grow":
		r.Err = text(a.ep.Grow(q.N))
	case "expect":
		dst := make([]byte, q.N)
		a.ep.Expect(q.Peer, q.Head[0], dst, func(err error) {
			a.send(&reply{What: "done", Key: q.Key, Data: dst, Err: text(err)})
		})
	case "push":
		a.ep.Push(q.Peer, q.Head[0], q.Data, func(err error) {
			clear(q.Data)
			a.send(&reply{What: "done", Key: q.Key, Err: text(err)})
		})
	case "forget":
		r.Forgotten = a.ep.Forget(q.Peer, q.Head[0])
	case "close":
		r.Err = text(a.ep.Close())
	}
	a.send(r)
}

// remote stands for an endpoint of another process.
type remote struct {
	enc     *gob.Encoder
	replies chan *reply

	mu      sync.Mutex // held while a call waits for its reply
	ends    map[uint64]func(*reply)
	endsMu  sync.Mutex
	last    uint64
	rank, n int
	bound   chan fabric.Handler
	events  chan *reply
}

// acceptRemotes returns the remotes by rank.
func acceptRemotes(t *testing.T) []*remote {
	ln, err := net.Listen("unix", filepath.Join(os.Getenv(envSuite), "s"))
	require.NoError(t, err)
	remotes := make([]*remote, process.Size)
	for range process.Size - 1 {
		c, err := ln.Accept()
		require.NoError(t, err)
		r := &remote{enc: gob.NewEncoder(c), replies: make(chan *reply, 1), ends: map[uint64]func(*reply){}}
		dec := gob.NewDecoder(c)
		var hello reply
		require.NoError(t, dec.Decode(&hello))
		remotes[hello.Peer] = r
		r.events = make(chan *reply, 1<<16)
		go r.read(dec)
	}
	return remotes
}

// read reads replies and events. Events go through a queue, since their handlers wait for replies.
func (r *remote) read(dec *gob.Decoder) {
	for {
		var m reply
		if dec.Decode(&m) != nil {
			return
		}
		if m.What == "reply" {
			r.replies <- &m
			continue
		}
		r.events <- &m
	}
}

// reset returns a remote for an endpoint of a new fabric.
func (r *remote) reset(rank, n int) *remote {
	e := &remote{enc: r.enc, replies: r.replies, ends: map[uint64]func(*reply){}, last: r.last, rank: rank, n: n, bound: make(chan fabric.Handler, 1), events: r.events}
	r.last += 1 << 32
	go func() {
		h := <-e.bound
		for m := range e.events {
			passed.Load()
			switch m.What {
			case "over":
				return
			case "deliver":
				h.Deliver(&fabric.Frame{Origin: int32(m.Peer), Target: m.Target, Head: m.Head, Data: m.Data})
			case "lost":
				h.Lost(m.Peer, untext(m.Err))
			case "done":
				e.endsMu.Lock()
				end := e.ends[m.Key]
				delete(e.ends, m.Key)
				e.endsMu.Unlock()
				end(m)
			}
		}
	}()
	return e
}

func (r *remote) send(q *request) { _ = r.enc.Encode(q) }

func (r *remote) call(q *request, end func(*reply)) *reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed.Add(1)
	if end != nil {
		r.endsMu.Lock()
		r.last++
		q.Key = r.last
		r.ends[q.Key] = end
		r.endsMu.Unlock()
	}
	r.send(q)
	return <-r.replies
}

func (r *remote) Rank() int                  { return r.rank }
func (r *remote) Size() int                  { return r.n }
func (r *remote) Caps(int) fabric.Caps       { return caps }
func (r *remote) Sources() []fabric.Source   { return nil } // the other process polls them
func (r *remote) Shared(int) ([]byte, error) { return nil, fabric.ErrUnsupported }
func (r *remote) Drop(int, error)            { panic("only rank 0 drops peers") }

func (r *remote) Bind(h fabric.Handler, _ fabric.Progress) { r.bound <- h }

func (r *remote) Local(int) fabric.Handler   { return nil }
func (r *remote) key(k uint64) (h [6]uint64) { h[0] = k; return h }

func (r *remote) Send(dst int, f fabric.Frame) error {
	return untext(r.call(&request{What: "send", Peer: dst, Head: f.Head, Data: f.Data}, nil).Err)
}

func (r *remote) Relay(hop int, f fabric.Frame) error {
	return untext(r.call(&request{What: "relay", Peer: hop, Origin: f.Origin, Target: f.Target, Head: f.Head, Data: f.Data}, nil).Err)
}

func (r *remote) Grow(size int) error {
	return untext(r.call(&request{What: "grow", N: size}, nil).Err)
}

func (r *remote) Expect(src int, key uint64, dst []byte, done func(error)) {
	r.call(&request{What: "expect", Peer: src, Head: r.key(key), N: len(dst)}, func(m *reply) {
		copy(dst, m.Data)
		done(untext(m.Err))
	})
}

func (r *remote) Push(dst int, key uint64, data []byte, done func(error)) {
	r.call(&request{What: "push", Peer: dst, Head: r.key(key), Data: data}, func(m *reply) { done(untext(m.Err)) })
}

func (r *remote) Forget(src int, key uint64) bool {
	return r.call(&request{What: "forget", Peer: src, Head: r.key(key)}, nil).Forgotten
}

func (r *remote) Close() error {
	return untext(r.call(&request{What: "close"}, nil).Err)
}
