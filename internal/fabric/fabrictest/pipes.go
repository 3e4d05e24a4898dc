// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// fill fills b with bytes that depend on seed and on their offsets.
func fill(b []byte, seed uint64) []byte {
	for i := range b {
		b[i] = byte(uint64(i)*7 + uint64(i)>>8 + seed)
	}
	return b
}

// headOf is a head whose words depend on seed and on their indices.
func headOf(seed uint64) (h [fabric.HeadWords]uint64) {
	for w := range h {
		h[w] = uint64(w)<<60 | seed<<8 | uint64(w)
	}
	return h
}

// word is a frame whose head begins with w.
func word(w uint64) fabric.Frame { return fabric.Frame{Head: [fabric.HeadWords]uint64{w}} }

// tally waits for ends, and counts those with an error.
type tally struct {
	sync.WaitGroup
	failed atomic.Int32
}

func (y *tally) end(err error) {
	if err != nil {
		y.failed.Add(1)
	}
	y.Done()
}

// edges returns sizes around the limits of fabrics, with and without a head.
func edges(limit int) (sizes []int) {
	const small, head = 8 + 8*fabric.HeadWords, 16 + 8*fabric.HeadWords
	bounds := []int{0, limit, limit / 2, limit / 4}
	for b := 64; b <= 4<<20; b *= 4 {
		bounds = append(bounds, b, 2*b)
	}
	for _, b := range bounds {
		for _, n := range []int{b - 1, b, b + 1, b - small - 1, b - small, b - small + 1, b - head - 1, b - head, b - head + 1} {
			if n >= 0 && n <= limit {
				sizes = append(sizes, n)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// bounds checks that frames and transfers of every size around a limit arrive as they were sent, in
// order, though the sender reuses its memory at once.
func bounds(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	limit := cmp.Or(eps[0].Caps(1).MaxFrame, 1<<20)
	sizes := edges(limit)
	data := make([]byte, limit)
	for i, n := range sizes {
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: headOf(uint64(i)), Data: fill(data[:n], uint64(i))}))
	}
	for i, g := range sinks[1].wait(len(sizes)) {
		require.Equal(t, headOf(uint64(i)), g.head, "%d bytes", sizes[i])
		require.True(t, bytes.Equal(fill(data[:sizes[i]], uint64(i)), g.data), "%d bytes, of which %d have arrived", sizes[i], len(g.data))
	}
	// The same for transfers; memory around the expected bytes is not written.
	sizes = edges(4*limit + 1)[1:]
	for i, n := range sizes {
		const guard = 64
		dst := bytes.Repeat([]byte{0xa5}, n+2*guard)
		from := fill(make([]byte, n), uint64(i))
		ends := make(chan error, 4)
		eps[1].Expect(0, uint64(i), dst[guard:guard+n], func(err error) { ends <- err })
		eps[0].Push(1, uint64(i), from, func(err error) { ends <- err })
		for range 2 {
			require.NoError(t, <-ends)
		}
		require.Empty(t, ends)
		require.True(t, bytes.Equal(from, dst[guard:guard+n]), "%d bytes", n)
		require.Equal(t, bytes.Repeat([]byte{0xa5}, 2*guard), append(bytes.Clone(dst[:guard]), dst[guard+n:]...), "%d bytes", n)
	}
}

// Crumbs tests connections that deliver bytes in small pieces. It calls connected when the two
// ranks are connected.
func Crumbs(t *testing.T, eps []fabric.Endpoint, connected func()) {
	sinks := bindAll(t, eps)
	require.NoError(t, eps[1].Send(0, fabric.Frame{})) // rank 1 connects
	sinks[0].wait(1)
	connected()
	sizes := []int{0, 1, 7, 55, 56, 57, 1023, 1024, 1025, 65479, 65480, 65481, 70000}
	ends := make(chan error, 2*len(sizes))
	end := func(err error) { ends <- err }
	dst := make([][]byte, len(sizes))
	for i, n := range sizes {
		data := fill(make([]byte, n), uint64(i))
		if n > 0 {
			dst[i] = make([]byte, n)
			eps[1].Expect(0, uint64(i), dst[i], end)
			eps[0].Push(1, uint64(i), data, end)
		}
		require.NoError(t, eps[0].Send(1, fabric.Frame{Head: headOf(uint64(i)), Data: bytes.Clone(data)}))
	}
	for i, g := range sinks[1].wait(len(sizes)) {
		require.Equal(t, headOf(uint64(i)), g.head)
		require.True(t, bytes.Equal(fill(make([]byte, sizes[i]), uint64(i)), g.data), "%d bytes", sizes[i])
	}
	for range 2 * (len(sizes) - 1) {
		require.NoError(t, <-ends)
	}
	for i, p := range dst {
		require.True(t, bytes.Equal(fill(make([]byte, sizes[i]), uint64(i)), p), "%d bytes", sizes[i])
	}
}

// gate blocks a handler until open is called. In a fabric that delivers on the sender's goroutine,
// the gate would block the sender: there it is open from the start.
func gate(eps []fabric.Endpoint, s *sink, each func(src int, f fabric.Frame)) (open func()) {
	held := make(chan struct{})
	open = sync.OnceFunc(func() { close(held) })
	if eps[0].Local(1) != nil {
		open()
	}
	s.extra = func(src int, f fabric.Frame) {
		<-held
		if each != nil {
			each(src, f)
		}
	}
	return open
}

// backlog has several goroutines of two ranks send more than rings and sockets hold to a rank whose
// handler is blocked. Each goroutine reuses its memory at once, and transfers go in between. All
// bytes arrive, in the order of each goroutine.
func backlog(t *testing.T, eps []fabric.Endpoint) {
	const senders, frames = 2, 150
	limit := min(cmp.Or(eps[0].Caps(1).MaxFrame, 64<<10), 64<<10)
	sinks := bindAll(t, eps)
	var mu sync.Mutex
	var next [3][senders]uint64
	var wrong []string
	buf := make([]byte, limit)
	open := gate(eps, sinks[1], func(src int, f fabric.Frame) {
		mu.Lock()
		defer mu.Unlock()
		s := f.Head[0] % senders
		seed := uint64(src)<<32 | f.Head[0]
		head := headOf(seed)
		head[0] = f.Head[0]
		if f.Head[0]/senders != next[src][s] || f.Head != head || !bytes.Equal(f.Data, fill(buf[:len(f.Data)], seed)) || uint64(len(f.Data)) != sizeOf(seed, limit) {
			wrong = append(wrong, "order, head or bytes")
		}
		next[src][s]++
	})
	defer open()
	var sent sync.WaitGroup
	var transfers tally
	var pairs [][2][]byte
	for _, src := range []int{0, 2} {
		for s := range senders {
			for k := range 5 {
				key := uint64(s*5 + k)
				data, dst := fill(make([]byte, 300_000), key), make([]byte, 300_000)
				pairs = append(pairs, [2][]byte{data, dst})
				transfers.Add(2)
				eps[1].Expect(src, key, dst, transfers.end)
				sent.Go(func() { eps[src].Push(1, key, data, transfers.end) })
			}
			sent.Go(func() {
				data := make([]byte, limit)
				for i := range uint64(frames) {
					id := i*senders + uint64(s)
					seed := uint64(src)<<32 | id
					f := fabric.Frame{Head: headOf(seed), Data: fill(data[:sizeOf(seed, limit)], seed)}
					f.Head[0] = id
					if eps[src].Send(1, f) != nil {
						transfers.failed.Add(1)
					}
					clear(data)
				}
			})
		}
	}
	sent.Wait()
	open()
	sinks[1].wait(2 * senders * frames)
	transfers.Wait()
	require.Zero(t, transfers.failed.Load())
	require.Empty(t, wrong)
	for _, p := range pairs {
		require.True(t, bytes.Equal(p[0], p[1]))
	}
}

// sizeOf is the size of a frame. Most are small, so that many whole frames are queued and copied.
func sizeOf(seed uint64, limit int) uint64 {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	r := rand.NewChaCha8(b).Uint64()
	if r%3 == 0 {
		return r >> 8 % uint64(limit+1)
	}
	return r >> 8 % 2000
}

// late is the time after which something ends: by then, all waiters have gone to sleep.
const late = 300 * time.Millisecond

// ends checks that an end wakes each waiter, though all have long gone to sleep. An expected
// transfer and one that is not taken end once each. Ranks that are not affected continue.
func ends(t *testing.T, open func(t *testing.T, n int) []fabric.Endpoint) {
	why := errors.New("the reason")
	var finish []func()
	for name, row := range map[string]struct {
		end   func(eps []fabric.Endpoint, unhold func())
		fails bool // the transfer that rank 0 expects from rank 1 fails
		cut   bool // the transfer that rank 0 pushes fails
	}{
		"a frame arrives":  {func(eps []fabric.Endpoint, _ func()) { _ = eps[1].Send(0, fabric.Frame{}) }, false, false},
		"the bytes arrive": {func(eps []fabric.Endpoint, _ func()) { eps[1].Push(0, 1, make([]byte, 1<<14), func(error) {}) }, false, false},
		"it closes":        {func(eps []fabric.Endpoint, unhold func()) { unhold(); _ = eps[0].Close() }, true, false},
		"the peer closes":  {func(eps []fabric.Endpoint, unhold func()) { unhold(); _ = eps[1].Close() }, true, false},
		"it drops":         {func(eps []fabric.Endpoint, _ func()) { eps[0].Drop(1, why) }, true, true},
	} {
		eps := open(t, 3)
		sinks := bindAll(t, eps)
		if name == "the peer closes" && eps[0].Local(1) != nil || name == "it drops" && eps[0].Local(1) != nil {
			continue // ranks of one process end together
		}
		unhold := gate(eps, sinks[1], nil)
		t.Cleanup(unhold)
		expected, pushed := make(chan error, 2), make(chan error, 2)
		eps[0].Expect(1, 1, make([]byte, 1<<14), func(err error) { expected <- err })
		require.NoError(t, eps[0].Send(1, fabric.Frame{})) // blocks rank 1's handler
		sinksGot(sinks[1], 1)
		require.NoError(t, eps[2].Send(0, fabric.Frame{}))
		sinks[0].wait(1)
		data := make([]byte, 32<<20)
		if eps[0].Local(1) == nil { // otherwise the bytes arrive at once
			eps[1].Expect(0, 2, make([]byte, len(data)), func(error) {})
			eps[0].Push(1, 2, data, func(err error) { pushed <- err })
		}
		finish = append(finish, func() {
			require.Empty(t, expected)
			require.Empty(t, pushed, "rank 1 takes nothing")
			row.end(eps, unhold)
			if row.fails {
				require.Error(t, <-expected)
				require.Error(t, eps[0].Send(1, fabric.Frame{}))
			} else if name == "the bytes arrive" {
				require.NoError(t, <-expected)
			} else {
				sinks[0].wait(1)
			}
			unhold()
			if eps[0].Local(1) == nil {
				if err := <-pushed; row.cut || !row.fails {
					require.Equal(t, row.cut, err != nil, "%v", err)
				}
			}
			require.Empty(t, expected)
			require.Empty(t, pushed)
			if name != "the peer closes" {
				require.NoError(t, eps[2].Send(1, fabric.Frame{}))
				require.Equal(t, 2, sinks[1].wait(2)[1].src)
			}
		})
	}
	time.Sleep(late) // for all cases together
	for _, f := range finish {
		f()
	}
}

// bothClose has two ranks close at once, each with more to write than the other has taken. Each
// closing rank must go on taking what the other writes. Otherwise both would wait for as long as
// Close waits for a peer that takes nothing.
func bothClose(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(t, eps)
	var wg sync.WaitGroup
	opens := []func(){gate(eps, sinks[0], nil), gate(eps, sinks[1], nil)}
	defer opens[0]()
	defer opens[1]()
	for i, e := range eps { // until the two are connected
		require.NoError(t, e.Send(1-i, fabric.Frame{}))
		sinksGot(sinks[1-i], 1)
	}
	data := make([]byte, 16<<10)
	for range 200 {
		for i, e := range eps {
			require.NoError(t, e.Send(1-i, fabric.Frame{Data: data}))
		}
	}
	start := time.Now()
	for i, e := range eps {
		wg.Go(func() { opens[i](); _ = e.Close() })
	}
	wg.Wait()
	require.Less(t, time.Since(start), 4*time.Second)
}

// sinksGot waits until a handler has been called n times, whether it has returned or not.
func sinksGot(s *sink, n int) {
	for here := 0; here < n; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		here = len(s.got)
		s.mu.Unlock()
	}
}
