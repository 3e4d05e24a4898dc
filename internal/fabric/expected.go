// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"sync"
)

// Expected is the table of the transfers that an endpoint waits for, for fabrics that carry them in
// pieces: Expect is [Expected.Add], Forget is [Expected.Forget], and whoever reads a piece asks for
// its place by Begin and calls End. The pieces of a transfer come in order. The zero value is
// ready; any goroutine may call anything.
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

// expectation is guarded by the table's mu, but for dst, whose bytes from here on are written by
// whoever has begun a piece.
type expectation struct {
	dst    []byte
	done   func(error)
	here   int   // bytes that are in place
	busy   bool  // a piece is being written behind here
	broken error // ends with this when busy is over
}

// Add begins to wait for len(dst) bytes.
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

// Forget ends the waiting, unless a piece is being written: then it ends with ErrClosed behind that
// piece.
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

// Waiting reports whether there are transfers to wait for.
func (x *Expected) Waiting() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.waits) > 0
}

// Begin returns the place of the next n bytes of a transfer, which begin at off; nil if they are to
// be dropped. The caller calls End if it gets a place.
func (x *Expected) Begin(src int, key, off uint64, n int) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.waits[transfer{src, key}]
	switch {
	case e == nil || e.broken != nil:
		return nil, nil
	case n <= 0 || off != uint64(e.here) || n > len(e.dst)-e.here || e.busy:
		return nil, fmt.Errorf("it sends %d bytes at %d of the transfer %d, of which %d of %d are here", n, off, key, e.here, len(e.dst))
	}
	e.busy = true
	return e.dst[e.here : e.here+n : e.here+n], nil
}

// End says that the place which Begin returned is written, or, with an error, that it never will
// be.
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

// Put brings all bytes of a transfer at once.
func (x *Expected) Put(src int, key uint64, data []byte) error {
	place, err := x.Begin(src, key, 0, len(data))
	if place != nil {
		copy(place, data)
		x.End(src, key, len(data), nil)
	}
	return err
}

// Lose ends all transfers from a rank, those that are to come too.
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

// end ends those of the chosen transfers that nobody is writing to, and marks the others. The
// caller holds mu, which end unlocks.
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
