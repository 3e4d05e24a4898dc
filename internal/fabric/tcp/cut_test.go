// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// cutBulk is the size of the transfers in the conversation that is cut.
const cutBulk = 1000

// cuts lists the parts that each side of the conversation writes, in order, with their sizes.
// (TestCutAtEveryPhase has the conversation.)
var cuts = [2][]struct {
	phase string
	size  int
}{
	{{"hello", helloSize}, {"proof", 32}, {"head", headSize}, {"data", 10}, {"head of a piece", headSize}, {"bulk", cutBulk}, {"close", headSize}},
	{{"challenge", 64}, {"verdict", 1}, {"head of a piece", headSize}, {"bulk", cutBulk}, {"head", headSize}, {"close", headSize}},
}

// cutter relays one connection. After a number of bytes in one direction, it ends both directions.
type cutter struct {
	net.Listener
	to    func() string
	side  int // the side whose bytes are counted; 0: the dialler's
	after int64

	met atomic.Bool // the connection was cut
}

// serve relays until a connection has ended.
func (c *cutter) serve() {
	near, err := c.Accept()
	if err != nil {
		return
	}
	defer near.Close()
	if c.after < 0 { // before the relay connects
		c.met.Store(true)
		return
	}
	far, err := net.Dial("tcp", c.to())
	if err != nil {
		return
	}
	defer far.Close()
	ends := [2]net.Conn{near, far}
	var both sync.WaitGroup
	for side := range ends {
		both.Go(func() {
			from, to := ends[side], ends[1-side]
			if side != c.side {
				_, _ = io.Copy(to, from)
				_ = to.(*net.TCPConn).CloseWrite()
				return
			}
			if n, _ := io.CopyN(to, from, c.after); n < c.after {
				_ = to.(*net.TCPConn).CloseWrite()
				return
			}
			c.met.Store(true)
			_ = near.Close()
			_ = far.Close()
		})
	}
	both.Wait()
}

// The connection is cut in every phase of a conversation, after either side's bytes. Each rank that
// takes part learns of the loss once, all transfers end once, and no rank waits for ever.
func TestCutAtEveryPhase(t *testing.T) {
	met := 0
	try := func(phase string, side int, after int64, last bool) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		c := &cutter{Listener: l, side: side, after: after}
		eps := openAll(t, 2, func(cfg *Config) {
			if cfg.Rank == 0 {
				cfg.Lookup = func(context.Context, int) (string, error) { return l.Addr().String(), nil }
			}
		})
		c.to = eps[1].Addr
		var proxy sync.WaitGroup
		proxy.Go(c.serve)

		cs := bindAll(eps)
		var pushed, filled [2]atomic.Int32
		arrived := make(chan int, 2)
		for r := range 2 {
			eps[r].Expect(1-r, 1, make([]byte, cutBulk), func(err error) {
				filled[r].Add(1)
				if err == nil {
					arrived <- r
				}
			})
		}
		// A frame to rank 1, which answers it by a transfer and a frame, which rank 0 answers by a
		// transfer.
		answer := func(r int) {
			eps[r].Push(1-r, 1, make([]byte, cutBulk), func(error) { pushed[r].Add(1) })
		}
		cs[1].each = func(int, fabric.Frame) {
			answer(1)
			_ = eps[1].Send(0, fabric.Frame{})
		}
		answered := false
		cs[0].each = func(int, fabric.Frame) { answered = true; answer(0) }
		require.NoError(t, eps[0].Send(1, fabric.Frame{Data: make([]byte, 10)}))
		lost := 0
		for n := 0; n < 2 && lost == 0; {
			select {
			case <-arrived:
				n++
			case r := <-cs[0].lost:
				require.Equal(t, 1, r)
				lost++
			}
		}
		var both sync.WaitGroup
		both.Go(func() { _ = eps[side].Close() })
		if last {
			// otherwise the other rank's closing frame may come first, and this one writes nothing
			eventually(t, c.met.Load)
		}
		both.Go(func() { _ = eps[1-side].Close() })
		both.Wait()
		_ = l.Close()
		proxy.Wait()

		lost += len(cs[0].lost)
		if last { // no rank waits for these bytes
			require.LessOrEqual(t, lost, 1, phase)
		} else {
			require.Equal(t, 1, lost, "%s, %d bytes of side %d: rank 0 takes part", phase, after, side)
		}
		require.LessOrEqual(t, len(cs[1].lost), 1, phase)
		for r := range 2 {
			require.EqualValues(t, 1, filled[r].Load(), "%s: a transfer to rank %d ends once", phase, r)
			require.LessOrEqual(t, pushed[r].Load(), int32(1), phase)
			require.Zero(t, cs[r].bad.Load())
		}
		if answered {
			require.EqualValues(t, 1, pushed[0].Load(), "%s: the transfer of rank 0 ends", phase)
		}
		require.True(t, c.met.Load(), "%s: not cut after %d bytes of side %d", phase, after, side)
		met++
	}
	try("connect", 0, -1, false)
	for side, list := range cuts {
		before := 0
		for _, part := range list {
			tried := map[int]bool{}
			for _, k := range []int{0, 1, part.size / 2, part.size - 1} {
				if !tried[k] {
					tried[k] = true
					try(part.phase, side, int64(before+k), part.phase == "close")
				}
			}
			before += part.size
		}
	}
	require.Greater(t, met, 40)
}
