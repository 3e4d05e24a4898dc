// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// frameOf returns a frame whose head and n bytes depend on seed.
func frameOf(seed uint64, n int) (f fabric.Frame) {
	for i := range f.Head {
		f.Head[i] = seed<<32 | uint64(i+1)<<24 | uint64(n)
	}
	f.Data = make([]byte, n)
	for i := range f.Data {
		f.Data[i] = byte(uint64(i)*7 + seed + uint64(i>>8))
	}
	return f
}

// onWire returns the bytes of a frame on the wire.
func onWire(kind uint32, f fabric.Frame) []byte { return append(appendHead(nil, kind, &f), f.Data...) }

// pieceOf returns a piece of n bytes of transfer key. The piece begins at off.
func pieceOf(key, off uint64, n int) fabric.Frame {
	f := frameOf(key, n)
	f.Head[0], f.Head[1] = key, off
	return f
}

// keeper is a handler that keeps frames and losses.
type keeper struct {
	frames []fabric.Frame
	errs   []error
	each   func(f fabric.Frame)
	lose   func(err error)
}

func (k *keeper) Deliver(came *fabric.Frame) bool {
	f := *came
	f.Data = bytes.Clone(f.Data)
	k.frames = append(k.frames, f)
	if k.each != nil {
		k.each(f)
	}
	return false
}

func (k *keeper) Lost(_ int, err error) {
	k.errs = append(k.errs, err)
	if k.lose != nil {
		k.lose(err)
	}
}

// newIn returns the intake of rank 0 for the bytes of rank 1, and the handler.
func newIn() (*intake, *keeper) {
	k := &keeper{}
	return newIntake(newPeer(lone(Config{Size: 2}, k), 1)), k
}

// put puts bytes into room, at most most at a time, and returns the first error.
func (in *intake) put(b []byte, most int) error {
	for len(b) > 0 {
		n := copy(in.room(), b[:min(len(b), most)])
		if n == 0 {
			return errors.New("there is no room")
		}
		if err := in.took(n); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Frames and transfers of sizes around each limit, cut anywhere, arrive as they were sent, though
// their memory is reused at once.
func TestIntake(t *testing.T) {
	sizes := []int{0, 1, 100, readBuffer - headSize - 1, readBuffer - headSize, readBuffer - headSize + 1, readBuffer - 1, readBuffer, readBuffer + 1, MaxFrame - 1, MaxFrame}
	pieces := []int{1, 100, readBuffer - headSize, readBuffer - 1, readBuffer, readBuffer + 1, 2*readBuffer + 1, maxPiece - 1, maxPiece}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 8 {
		in, k := newIn()
		x := &in.p.e.expected
		var stream []byte
		var want []fabric.Frame
		expected, ends := map[uint64][]byte{}, map[uint64]int{}
		for i := range uint64(20) {
			if r.IntN(3) > 0 {
				f := frameOf(i, sizes[r.IntN(len(sizes))])
				want = append(want, f)
				stream = append(stream, onWire(kindFrame, f)...)
				continue
			}
			n := pieces[r.IntN(len(pieces))]
			f := pieceOf(i, 0, n)
			cut := 1 + r.IntN(n)
			stream = append(stream, onWire(kindPiece, fabric.Frame{Head: f.Head, Data: f.Data[:cut]})...)
			if cut < n {
				f.Head[1] = uint64(cut)
				stream = append(stream, onWire(kindPiece, fabric.Frame{Head: f.Head, Data: f.Data[cut:]})...)
			}
			if r.IntN(4) > 0 { // otherwise it is not expected
				expected[i] = make([]byte, n)
				x.Add(1, i, expected[i], func(err error) {
					if err == nil && bytes.Equal(f.Data, expected[i]) {
						ends[i]++
					}
				})
			}
		}
		stream = append(stream, appendHead(nil, kindClose, &fabric.Frame{})...)
		most := []int{len(stream), readBuffer, 1 + r.IntN(5000), 1 + r.IntN(300)}[round%4]
		for b := stream; len(b) > 0; {
			room := in.room()
			require.NotEmpty(t, room, "seed %d", seed)
			n := copy(room, b[:min(len(b), 1+r.IntN(most))])
			require.NoError(t, in.took(n), "seed %d", seed)
			b = b[n:]
		}
		require.Len(t, k.frames, len(want), "seed %d", seed)
		for i := range want {
			require.Equal(t, want[i].Head, k.frames[i].Head, "seed %d: frame %d", seed, i)
			require.True(t, bytes.Equal(want[i].Data, k.frames[i].Data), "seed %d: frame %d of %d bytes", seed, i, len(want[i].Data))
		}
		require.Len(t, ends, len(expected), "seed %d", seed)
		for i, n := range ends {
			require.Equal(t, 1, n, "seed %d: transfer %d", seed, i)
		}
		require.True(t, in.p.bye)
		require.False(t, in.p.filling)
		require.False(t, x.Waiting())
		require.NoError(t, in.put(bytes.Repeat([]byte{0xff}, 3*readBuffer), 1000), "bytes after the closing frame are ignored")
		require.Len(t, k.frames, len(want))
	}
}

// How many bytes are read at once, step by step.
func TestRoom(t *testing.T) {
	small := onWire(kindFrame, frameOf(1, 10))
	huge := onWire(kindFrame, frameOf(2, readBuffer)) // more than the buffer, with its head
	whole := onWire(kindFrame, frameOf(3, readBuffer-headSize))
	long := onWire(kindFrame, frameOf(3, readBuffer/2))
	large := onWire(kindPiece, pieceOf(1, 0, readBuffer+1))
	full := onWire(kindPiece, pieceOf(1, 0, readBuffer))
	type step struct {
		put  []byte
		room int // the room after that
	}
	for name, row := range map[string]struct {
		steps  []step
		expect int // bytes of transfer 1
	}{
		"a frame":               {[]step{{nil, readBuffer}, {small, readBuffer}, {small, readBuffer}}, 0},
		"half a head":           {[]step{{small[:1], readBuffer - 1}, {small[1 : headSize-1], readBuffer - headSize + 1}, {small[headSize-1:], readBuffer}}, 0},
		"half a frame":          {[]step{{small[:headSize+1], readBuffer - headSize - 1}, {small[headSize+1:], readBuffer}}, 0},
		"after a frame":         {[]step{{append(bytes.Clone(small), small[:5]...), readBuffer - len(small) - 5}}, 0},
		"it fits to the end":    {[]step{{whole[:100], readBuffer - 100}, {whole[100:], readBuffer}}, 0},
		"it does not fit after": {[]step{{append(bytes.Clone(small), whole[:100]...), readBuffer - 100}, {whole[100:], readBuffer}}, 0},
		"it just fits after": {[]step{
			{append(bytes.Clone(long), onWire(kindFrame, frameOf(3, readBuffer-len(long)-headSize))[:100]...), readBuffer - len(long) - 100},
		}, 0},
		"one byte more": {[]step{
			{append(bytes.Clone(long), onWire(kindFrame, frameOf(3, readBuffer-len(long)-headSize+1))[:100]...), readBuffer - 100},
		}, 0},
		"a huge frame": {[]step{
			{huge[:headSize], readBuffer}, {huge[headSize : headSize+7], readBuffer - 7}, {huge[headSize+7:], readBuffer}, {huge[:headSize+9], readBuffer - 9}, {huge[headSize+9:], readBuffer},
		}, 0},
		"a large piece": {[]step{
			{large[:headSize], readBuffer + 1}, {large[headSize : headSize+5], readBuffer - 4}, {large[headSize+5:], headSize + shortBuffer},
			{small[:10], headSize - 10 + shortBuffer}, {small[10:headSize], readBuffer - headSize}, {small[headSize:], readBuffer},
		}, 2*readBuffer + 2},
		"a small frame after it": {[]step{{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shortBuffer}, {small, readBuffer}}, readBuffer + 1},
		"a huge frame after it": {[]step{
			{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shortBuffer}, {huge[:headSize], readBuffer}, {huge[headSize:], readBuffer},
		}, readBuffer + 1},
		"another one after it": {[]step{{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shortBuffer}, {pieceHead(1, readBuffer+1, 5), 5}}, 2*readBuffer + 2},
		"a piece of a buffer":  {[]step{{full[:headSize+1], readBuffer - 1}, {full[headSize+1:], readBuffer}}, readBuffer},
		"not expected":         {[]step{{large[:headSize], readBuffer}, {large[headSize : headSize+3], readBuffer - 2}, {large[headSize+3:], headSize + shortBuffer}}, 0},
	} {
		in, _ := newIn()
		if row.expect > 0 {
			in.p.e.expected.Add(1, 1, make([]byte, row.expect), func(error) {})
		}
		for i, s := range row.steps {
			if len(s.put) > 0 {
				require.Equal(t, len(s.put), copy(in.room(), s.put), "%s: step %d fits", name, i)
				require.NoError(t, in.took(len(s.put)), "%s: step %d", name, i)
			}
			require.Len(t, in.room(), s.room, "%s: step %d", name, i)
		}
	}
	in, _ := newIn()
	require.NoError(t, in.put(huge, len(huge)))
	before := &in.big[0]
	require.NoError(t, in.put(huge, len(huge)))
	require.Same(t, before, &in.big[0], "memory for huge frames is reused")
	require.NoError(t, in.put(appendHead(nil, kindClose, &fabric.Frame{}), headSize))
	require.Len(t, in.room(), readBuffer)
}

func pieceHead(key, off uint64, n int) []byte {
	return onWire(kindPiece, pieceOf(key, off, n))[:headSize]
}

// A piece that does not fit its transfer is an error, which ends the connection. The transfer ends
// when the peer is lost, not before.
func TestWrongPieces(t *testing.T) {
	for name, row := range map[string]struct {
		says []byte
		err  string
	}{
		"beyond the end":   {pieceHead(1, 0, 11), "it sends 11 bytes at offset 0 of transfer 1, of which 0 of 10 bytes have arrived"},
		"a gap":            {pieceHead(1, 1, 9), "it sends 9 bytes at offset 1 of transfer 1, of which 0 of 10 bytes have arrived"},
		"nothing":          {pieceHead(1, 0, 0), "it sends 0 bytes at offset 0 of transfer 1, of which 0 of 10 bytes have arrived"},
		"too large":        {appendHead(nil, kindPiece, &fabric.Frame{Data: make([]byte, maxPiece+1)}), "a frame of kind 3 with 1048577 bytes"},
		"too large, frame": {appendHead(nil, kindFrame, &fabric.Frame{Data: make([]byte, MaxFrame+1)}), "a frame of kind 1 with 262145 bytes"},
	} {
		in, _ := newIn()
		in.p.e.expected.Add(1, 1, make([]byte, 10), func(error) {})
		require.EqualError(t, in.put(row.says, len(row.says)), row.err, name)
		require.True(t, in.p.e.expected.Waiting(), name)
	}
}

// While a piece is half read, the peer's fields say so. Its transfer ends once if it is forgotten,
// or the peer is lost. A piece that is read whole never sets these fields.
func TestFilling(t *testing.T) {
	half := func() (*intake, *int, *error) {
		in, _ := newIn()
		ends, last := 0, error(nil)
		in.p.e.expected.Add(1, 7, make([]byte, 20), func(err error) { ends++; last = err })
		require.NoError(t, in.put(onWire(kindPiece, pieceOf(7, 0, 10))[:headSize+4], readBuffer))
		require.True(t, in.p.filling)
		require.EqualValues(t, 7, in.p.fillKey)
		return in, &ends, &last
	}
	in, ends, last := half()
	require.False(t, in.handleInterrupt(), "not interrupted")
	require.True(t, in.p.filling)
	in.p.interrupt(8)
	require.False(t, in.p.interrupted, "another transfer")
	require.NoError(t, in.put(make([]byte, 6), 6))
	require.False(t, in.p.filling)
	in.p.interrupt(7)
	require.False(t, in.p.interrupted, "the piece is complete")
	in.fail(io.EOF)
	require.Zero(t, *ends)
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(7, 10, 10)), readBuffer))
	require.Equal(t, 1, *ends)
	require.NoError(t, *last)

	in, ends, last = half()
	in.p.interrupt(7)
	require.True(t, in.p.interrupted)
	require.True(t, in.handleInterrupt())
	require.False(t, in.p.interrupted)
	require.False(t, in.p.filling)
	require.False(t, in.handleInterrupt(), "handled already")
	require.Equal(t, 1, *ends)
	require.ErrorIs(t, *last, fabric.ErrClosed)
	in.fail(io.EOF)
	require.NoError(t, in.put(make([]byte, 6), 6))
	require.Equal(t, 1, *ends)

	in, ends, last = half()
	in.fail(io.EOF)
	require.False(t, in.p.filling)
	in.fail(io.ErrClosedPipe)
	require.Equal(t, 1, *ends)
	require.ErrorIs(t, *last, io.EOF)

	in, _ = newIn() // not expected: there is nothing to end
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(9, 0, 10))[:headSize+4], readBuffer))
	in.p.interrupt(9)
	require.True(t, in.handleInterrupt())
	in.fail(io.EOF)
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(9, 0, 10))[headSize+4:], readBuffer))
	require.Zero(t, in.kind)
	in.p.e.expected.Add(1, 10, make([]byte, 10), func(error) { require.False(t, in.p.filling) })
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(10, 0, 10)), readBuffer))
}

// reads is a connection that answers reads from a script, and records deadlines.
type reads struct {
	net.Conn
	script    []readStep
	deadlines []time.Time
	closed    int
}

type readStep struct {
	data []byte
	err  error
	do   func() // called before the answer
}

func (r *reads) Read(b []byte) (int, error) {
	s := r.script[0]
	r.script = r.script[1:]
	if s.do != nil {
		s.do()
	}
	return copy(b, s.data), s.err
}

func (r *reads) SetReadDeadline(at time.Time) error {
	r.deadlines = append(r.deadlines, at)
	return nil
}

func (r *reads) Close() error {
	r.closed++
	return nil
}

// Each end of a reader's connection loses the peer once, after all frames that have arrived, and
// after the end of transfers.
func TestReaderEnds(t *testing.T) {
	whole := onWire(kindFrame, frameOf(1, 3))
	wrong := errors.New("the cable is cut")
	for name, row := range map[string]struct {
		script [][2]any // bytes and an error
		want   string   // the loss; "": none
	}{
		"the end":                 {[][2]any{{whole, nil}, {nil, io.EOF}}, "tcp: rank 1: the connection has ended without a closing frame"},
		"the end of TLS":          {[][2]any{{whole, nil}, {nil, io.ErrUnexpectedEOF}}, "tcp: rank 1: the connection has ended without a closing frame"},
		"an error":                {[][2]any{{whole, nil}, {nil, wrong}}, "tcp: rank 1: the cable is cut"},
		"an error with bytes":     {[][2]any{{whole, wrong}}, "tcp: rank 1: the cable is cut"},
		"wrong bytes with an end": {[][2]any{{append(bytes.Clone(whole), make([]byte, headSize)...), io.EOF}}, "tcp: rank 1: a frame of kind 0 with 0 bytes"},
		"an unexpected deadline":  {[][2]any{{whole, nil}, {nil, os.ErrDeadlineExceeded}}, "tcp: rank 1: i/o timeout"},
		"goodbye":                 {[][2]any{{append(bytes.Clone(whole), appendHead(nil, kindClose, &fabric.Frame{})...), nil}, {nil, io.EOF}}, ""},
		"goodbye, and more bytes": {[][2]any{{append(bytes.Clone(whole), append(appendHead(nil, kindClose, &fabric.Frame{}), 1, 2, 3)...), nil}, {nil, wrong}}, ""},
	} {
		k := &keeper{}
		p := newPeer(lone(Config{Size: 2}, k), 1)
		conn := &reads{}
		for _, s := range row.script {
			data, _ := s[0].([]byte)
			err, _ := s[1].(error)
			conn.script = append(conn.script, readStep{data: data, err: err})
		}
		p.conn, p.state = conn, open
		var events []string
		p.e.expected.Add(1, 5, make([]byte, 3), func(err error) {
			require.Error(t, err, name)
			events = append(events, "transfer")
		})
		k.each = func(fabric.Frame) { events = append(events, "frame") }
		k.lose = func(error) {
			select {
			case <-p.ended:
				events = append(events, "lost")
			default:
				events = append(events, "lost before the end")
			}
		}
		p.read()
		if row.want == "" {
			require.Equal(t, []string{"frame", "transfer"}, events, name)
			require.Empty(t, k.errs)
			require.EqualError(t, p.err, "fabric: endpoint is closed: by rank 1", name)
		} else {
			require.Equal(t, []string{"frame", "transfer", "lost"}, events, name)
			require.EqualError(t, k.errs[0], row.want, name)
		}
		require.Equal(t, lost, p.state)
		require.Positive(t, conn.closed, name)
		require.Empty(t, conn.deadlines, name)
		require.Empty(t, conn.script, name)
	}
}

// A transfer is forgotten while a piece of it is half read. A deadline wakes the reader once, and
// is removed. The rest of the piece is dropped.
func TestReaderInterrupted(t *testing.T) {
	k := &keeper{}
	p := newPeer(lone(Config{Size: 2}, k), 1)
	p.e.peers.All()[1] = p
	piece := onWire(kindPiece, pieceOf(5, 0, 10))
	var ends []error
	conn := &reads{}
	conn.script = []readStep{
		{data: piece[:headSize+2]},
		{err: os.ErrDeadlineExceeded, do: func() {
			require.False(t, p.e.Forget(1, 5))
			require.Equal(t, []time.Time{time.Unix(1, 0)}, conn.deadlines)
			require.Empty(t, ends)
		}},
		{data: piece[headSize+2:], do: func() {
			require.Equal(t, []time.Time{time.Unix(1, 0), {}}, conn.deadlines)
			require.Len(t, ends, 1)
		}},
		{data: onWire(kindFrame, frameOf(1, 3))},
		{err: os.ErrDeadlineExceeded},
	}
	p.conn, p.state = conn, open
	p.e.expected.Add(1, 5, make([]byte, 10), func(err error) { ends = append(ends, err) })
	require.ErrorIs(t, p.readAll(), os.ErrDeadlineExceeded, "the second deadline is nothing of this package")
	require.ErrorIs(t, ends[0], fabric.ErrClosed)
	require.Len(t, ends, 1)
	require.Len(t, k.frames, 1)
	require.Len(t, conn.deadlines, 2)
}
