// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"sync"
)

// Expected is the table of the transfers that an endpoint expects. Fabrics use it that carry a
// transfer in pieces: Endpoint.Expect is [Expected.Add], Endpoint.Forget is [Expected.Forget]. The
// goroutine that reads a piece calls [Expected.Begin] for the memory where the piece belongs, and
// then [Expected.End]. The pieces of a transfer arrive in order.
//
//	            ┌── Forget ─────────► removed, done is not called
//	──Add──► waiting ── Lose, Close ► removed, done(error)
//	      Begin │ ▲
//	            ▼ │ End, unless it was the last piece
//	          busy: a piece is being written
//	            │ Forget, Lose, Close: the entry stays, marked broken
//	            └── End of the last piece, of a broken entry or with an error ─► removed, done
//
// So done is not called, and the memory is not given back, while a piece is being written. The zero
// value is ready for use. Any goroutine may call any method.
type Expected struct {
	mu     sync.Mutex
	waits  map[transfer]*expectation // guarded by mu
	lost   map[int]error             // guarded by mu
	closed bool                      // guarded by mu
}

type transfer struct {
	src int
	key uint64
}

// expectation is guarded by the table's mu, except the bytes of dst after the first here: the
// goroutine that has begun a piece writes them.
type expectation struct {
	dst    []byte
	done   func(error)
	here   int   // number of bytes that have arrived
	busy   bool  // a piece is being written to dst[here:]
	broken error // the transfer ends with this error when busy is over
}

// Add begins to wait for len(dst) bytes. If the rank is lost or the table is closed, Add calls done
// at once, with the error.
func (x *Expected) Add(src int, key uint64, dst []byte, done func(error)) {
	x.mu.Lock()
	err := x.lost[src]
	switch {
	case err != nil:
	case x.closed:
		err = ErrClosed
	default:
		if x.waits == nil {
			x.waits = make(map[transfer]*expectation)
		}
		x.waits[transfer{src, key}] = &expectation{dst: dst, done: done}
		x.mu.Unlock()
		return
	}
	x.mu.Unlock()
	done(err)
}

// Forget removes a transfer, and returns true. If a piece of the transfer is being written, Forget
// returns false, and the transfer ends after that piece: with ErrClosed, unless the piece is the
// last one.
func (x *Expected) Forget(src int, key uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := transfer{src, key}
	e := x.waits[t]
	switch {
	case e == nil:
		return false
	case e.busy:
		e.broken = cmp.Or(e.broken, ErrClosed)
		return false
	}
	delete(x.waits, t)
	return true
}

// Waiting reports whether the table has transfers.
func (x *Expected) Waiting() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.waits) > 0
}

// Begin returns the memory for the next n bytes of a transfer, which begin at offset off; nil if
// the bytes are to be dropped. If Begin returns memory, the caller must call End.
func (x *Expected) Begin(src int, key, off uint64, n int) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.waits[transfer{src, key}]
	switch {
	case e == nil || e.broken != nil:
		return nil, nil
	case n <= 0 || off != uint64(e.here) || n > len(e.dst)-e.here || e.busy:
		return nil, fmt.Errorf("it sends %d bytes at offset %d of transfer %d, of which %d of %d bytes have arrived", n, off, key, e.here, len(e.dst))
	}
	e.busy = true
	return e.dst[e.here : e.here+n : e.here+n], nil
}

// End reports that the memory which Begin returned is written, or, with an error, that it never
// will be.
func (x *Expected) End(src int, key uint64, n int, err error) {
	x.mu.Lock()
	t := transfer{src, key}
	e := x.waits[t]
	e.busy = false
	if err == nil {
		if e.here += n; e.here < len(e.dst) {
			if err = e.broken; err == nil {
				x.mu.Unlock()
				return
			}
		}
	}
	delete(x.waits, t)
	x.mu.Unlock()
	e.done(err)
}

// Put writes all bytes of a transfer at once.
func (x *Expected) Put(src int, key uint64, data []byte) error {
	dst, err := x.Begin(src, key, 0, len(data))
	if dst != nil {
		copy(dst, data)
		x.End(src, key, len(data), nil)
	}
	return err
}

// Lose ends all transfers from a rank with err, and so all that are added later.
func (x *Expected) Lose(src int, err error) {
	x.mu.Lock()
	if x.lost == nil {
		x.lost = make(map[int]error)
	}
	x.lost[src] = cmp.Or(x.lost[src], err)
	x.end(err, func(t transfer) bool { return t.src == src })
}

// Close ends all transfers with ErrClosed.
func (x *Expected) Close() {
	x.mu.Lock()
	x.closed = true
	x.end(ErrClosed, func(transfer) bool { return true })
}

// end ends the chosen transfers to which no piece is being written, and marks the others as broken.
// The caller holds mu, which end unlocks.
func (x *Expected) end(err error, chosen func(transfer) bool) {
	var over []*expectation
	for t, e := range x.waits {
		switch {
		case !chosen(t):
		case e.busy:
			e.broken = cmp.Or(e.broken, err)
		default:
			delete(x.waits, t)
			over = append(over, e)
		}
	}
	x.mu.Unlock()
	for _, e := range over {
		e.done(err)
	}
}
