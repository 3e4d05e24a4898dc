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

// onWire is a frame as it is on the wire.
func onWire(kind uint32, f fabric.Frame) []byte { return append(appendHead(nil, kind, &f), f.Data...) }

// pieceOf is a piece of transfer key, of n bytes, which begins at off.
func pieceOf(key, off uint64, n int) fabric.Frame {
	f := frameOf(key, n)
	f.Head[0], f.Head[1] = key, off
	return f
}

// keeper is a handler that keeps what comes.
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

// newIn returns what takes apart what rank 1 says to rank 0, and the handler.
func newIn() (*intake, *keeper) {
	k := &keeper{}
	return newIntake(newPeer(lone(Config{Size: 2}, k), 1)), k
}

// put puts bytes into room, at most so many at a time, and returns the first error.
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

// Frames and transfers of sizes around each bound, cut anywhere, and the memory that they came in
// used again at once: all comes as it was sent.
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
		places, ends := map[uint64][]byte{}, map[uint64]int{}
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
			if r.IntN(4) > 0 { // else nobody waits for it
				places[i] = make([]byte, n)
				x.Add(1, i, places[i], func(err error) {
					if err == nil && bytes.Equal(f.Data, places[i]) {
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
		require.Len(t, ends, len(places), "seed %d", seed)
		for i, n := range ends {
			require.Equal(t, 1, n, "seed %d: transfer %d", seed, i)
		}
		require.True(t, in.p.bye)
		require.False(t, in.p.placing)
		require.False(t, x.Waiting())
		require.NoError(t, in.put(bytes.Repeat([]byte{0xff}, 3*readBuffer), 1000), "nothing that comes behind the closing frame matters")
		require.Len(t, k.frames, len(want))
	}
}

// How much is read at once, step by step.
func TestRoom(t *testing.T) {
	small := onWire(kindFrame, frameOf(1, 10))
	huge := onWire(kindFrame, frameOf(2, readBuffer)) // more than the buffer, with its head
	whole := onWire(kindFrame, frameOf(3, readBuffer-headSize))
	long := onWire(kindFrame, frameOf(3, readBuffer/2))
	large := onWire(kindPiece, pieceOf(1, 0, readBuffer+1))
	full := onWire(kindPiece, pieceOf(1, 0, readBuffer))
	type step struct {
		put  []byte
		room int // behind it
	}
	for name, row := range map[string]struct {
		steps  []step
		expect int // bytes of transfer 1
	}{
		"a frame":                {[]step{{nil, readBuffer}, {small, readBuffer}, {small, readBuffer}}, 0},
		"half a head":            {[]step{{small[:1], readBuffer - 1}, {small[1 : headSize-1], readBuffer - headSize + 1}, {small[headSize-1:], readBuffer}}, 0},
		"half a frame":           {[]step{{small[:headSize+1], readBuffer - headSize - 1}, {small[headSize+1:], readBuffer}}, 0},
		"behind a frame":         {[]step{{append(bytes.Clone(small), small[:5]...), readBuffer - len(small) - 5}}, 0},
		"it fits to the end":     {[]step{{whole[:100], readBuffer - 100}, {whole[100:], readBuffer}}, 0},
		"it does not fit behind": {[]step{{append(bytes.Clone(small), whole[:100]...), readBuffer - 100}, {whole[100:], readBuffer}}, 0},
		"it just fits behind": {[]step{
			{append(bytes.Clone(long), onWire(kindFrame, frameOf(3, readBuffer-len(long)-headSize))[:100]...), readBuffer - len(long) - 100},
		}, 0},
		"one byte more": {[]step{
			{append(bytes.Clone(long), onWire(kindFrame, frameOf(3, readBuffer-len(long)-headSize+1))[:100]...), readBuffer - 100},
		}, 0},
		"a huge frame": {[]step{
			{huge[:headSize], readBuffer}, {huge[headSize : headSize+7], readBuffer - 7}, {huge[headSize+7:], readBuffer}, {huge[:headSize+9], readBuffer - 9}, {huge[headSize+9:], readBuffer},
		}, 0},
		"a large piece": {[]step{
			{large[:headSize], readBuffer + 1}, {large[headSize : headSize+5], readBuffer - 4}, {large[headSize+5:], headSize + shyBuffer},
			{small[:10], headSize - 10 + shyBuffer}, {small[10:headSize], readBuffer - headSize}, {small[headSize:], readBuffer},
		}, 2*readBuffer + 2},
		"a small frame behind it": {[]step{{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shyBuffer}, {small, readBuffer}}, readBuffer + 1},
		"a huge frame behind it": {[]step{
			{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shyBuffer}, {huge[:headSize], readBuffer}, {huge[headSize:], readBuffer},
		}, readBuffer + 1},
		"another one behind it": {[]step{{large[:headSize], readBuffer + 1}, {large[headSize:], headSize + shyBuffer}, {pieceHead(1, readBuffer+1, 5), 5}}, 2*readBuffer + 2},
		"a piece of a buffer":   {[]step{{full[:headSize+1], readBuffer - 1}, {full[headSize+1:], readBuffer}}, readBuffer},
		"for nobody":            {[]step{{large[:headSize], readBuffer}, {large[headSize : headSize+3], readBuffer - 2}, {large[headSize+3:], headSize + shyBuffer}}, 0},
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
	require.Same(t, before, &in.big[0], "memory for huge frames is used again")
	require.NoError(t, in.put(appendHead(nil, kindClose, &fabric.Frame{}), headSize))
	require.Len(t, in.room(), readBuffer)
}

func pieceHead(key, off uint64, n int) []byte {
	return onWire(kindPiece, pieceOf(key, off, n))[:headSize]
}

// A piece whose transfer is not as it says ends the connection, and whoever waits hears of it when
// the peer is lost.
func TestWrongPieces(t *testing.T) {
	for name, row := range map[string]struct {
		says []byte
		err  string
	}{
		"behind the end":   {pieceHead(1, 0, 11), "it sends 11 bytes at 0 of the transfer 1, of which 0 of 10 are here"},
		"a gap":            {pieceHead(1, 1, 9), "it sends 9 bytes at 1 of the transfer 1, of which 0 of 10 are here"},
		"nothing":          {pieceHead(1, 0, 0), "it sends 0 bytes at 0 of the transfer 1, of which 0 of 10 are here"},
		"too large":        {appendHead(nil, kindPiece, &fabric.Frame{Data: make([]byte, maxPiece+1)}), "a frame of kind 3 with 1048577 bytes"},
		"too large, frame": {appendHead(nil, kindFrame, &fabric.Frame{Data: make([]byte, MaxFrame+1)}), "a frame of kind 1 with 262145 bytes"},
	} {
		in, _ := newIn()
		in.p.e.expected.Add(1, 1, make([]byte, 10), func(error) {})
		require.EqualError(t, in.put(row.says, len(row.says)), row.err, name)
		require.True(t, in.p.e.expected.Waiting(), name)
	}
}

// While a piece is half here the peer says which it is, and whoever forgets it, or loses the peer,
// has it ended once; a piece that comes whole is never half here.
func TestPlacing(t *testing.T) {
	half := func() (*intake, *int, *error) {
		in, _ := newIn()
		ends, last := 0, error(nil)
		in.p.e.expected.Add(1, 7, make([]byte, 20), func(err error) { ends++; last = err })
		require.NoError(t, in.put(onWire(kindPiece, pieceOf(7, 0, 10))[:headSize+4], readBuffer))
		require.True(t, in.p.placing)
		require.EqualValues(t, 7, in.p.place)
		return in, &ends, &last
	}
	in, ends, last := half()
	require.False(t, in.stirred(), "nobody wants that")
	require.True(t, in.p.placing)
	in.p.stir(8)
	require.False(t, in.p.stirred, "it is another one")
	require.NoError(t, in.put(make([]byte, 6), 6))
	require.False(t, in.p.placing)
	in.p.stir(7)
	require.False(t, in.p.stirred, "it is not half here any more")
	in.broken(io.EOF)
	require.Zero(t, *ends)
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(7, 10, 10)), readBuffer))
	require.Equal(t, 1, *ends)
	require.NoError(t, *last)

	in, ends, last = half()
	in.p.stir(7)
	require.True(t, in.p.stirred)
	require.True(t, in.stirred())
	require.False(t, in.p.stirred)
	require.False(t, in.p.placing)
	require.False(t, in.stirred(), "it is done")
	require.Equal(t, 1, *ends)
	require.ErrorIs(t, *last, fabric.ErrClosed)
	in.broken(io.EOF)
	require.NoError(t, in.put(make([]byte, 6), 6))
	require.Equal(t, 1, *ends)

	in, ends, last = half()
	in.broken(io.EOF)
	require.False(t, in.p.placing)
	in.broken(io.ErrClosedPipe)
	require.Equal(t, 1, *ends)
	require.ErrorIs(t, *last, io.EOF)

	in, _ = newIn() // for nobody: there is nothing to be ended
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(9, 0, 10))[:headSize+4], readBuffer))
	in.p.stir(9)
	require.True(t, in.stirred())
	in.broken(io.EOF)
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(9, 0, 10))[headSize+4:], readBuffer))
	require.Zero(t, in.kind)
	in.p.e.expected.Add(1, 10, make([]byte, 10), func(error) { require.False(t, in.p.placing) })
	require.NoError(t, in.put(onWire(kindPiece, pieceOf(10, 0, 10)), readBuffer))
}

// reads is a connection that answers reads with what a script says, and counts deadlines.
type reads struct {
	net.Conn
	script    []readStep
	deadlines []time.Time
	closed    int
}

type readStep struct {
	data []byte
	err  error
	do   func() // before
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

// What a reader makes of each end of its connection: it is told once, behind all that came, and
// what is half here ends before.
func TestReaderEnds(t *testing.T) {
	whole := onWire(kindFrame, frameOf(1, 3))
	wrong := errors.New("the cable is cut")
	for name, row := range map[string]struct {
		script [][2]any // bytes and an error
		want   string   // the loss; "": none
	}{
		"the end":                   {[][2]any{{whole, nil}, {nil, io.EOF}}, "tcp: rank 1: the connection has ended without a closing frame"},
		"the end of TLS":            {[][2]any{{whole, nil}, {nil, io.ErrUnexpectedEOF}}, "tcp: rank 1: the connection has ended without a closing frame"},
		"an error":                  {[][2]any{{whole, nil}, {nil, wrong}}, "tcp: rank 1: the cable is cut"},
		"an error with bytes":       {[][2]any{{whole, wrong}}, "tcp: rank 1: the cable is cut"},
		"wrong bytes with an end":   {[][2]any{{append(bytes.Clone(whole), make([]byte, headSize)...), io.EOF}}, "tcp: rank 1: a frame of kind 0 with 0 bytes"},
		"a deadline of nobody":      {[][2]any{{whole, nil}, {nil, os.ErrDeadlineExceeded}}, "tcp: rank 1: i/o timeout"},
		"goodbye":                   {[][2]any{{append(bytes.Clone(whole), appendHead(nil, kindClose, &fabric.Frame{})...), nil}, {nil, io.EOF}}, ""},
		"goodbye, and another word": {[][2]any{{append(bytes.Clone(whole), append(appendHead(nil, kindClose, &fabric.Frame{}), 1, 2, 3)...), nil}, {nil, wrong}}, ""},
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

// A transfer that is forgotten while half a piece of it is here: the reader is woken by a deadline,
// which is taken back, once; the rest of the piece is dropped.
func TestReaderStirred(t *testing.T) {
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
	require.ErrorIs(t, p.readAll(), os.ErrDeadlineExceeded, "nobody wanted the second one")
	require.ErrorIs(t, ends[0], fabric.ErrClosed)
	require.Len(t, ends, 1)
	require.Len(t, k.frames, 1)
	require.Len(t, conn.deadlines, 2)
}
