//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// setUp sets both ends of an empty ring to position pos.
func (c *ring) setUp(p *ring, pos uint64) {
	p.pos, p.head, c.pos, c.published = pos, pos, pos, pos
	c.ctl.head.Store(pos)
}

// at returns the first word of the line at a position.
func (r *ring) at(pos uint64) uint64 { return r.word(pos & (ringSize - 1)).Load() }

func TestLines(t *testing.T) {
	for n, want := range map[int]uint64{0: 0, 1: 64, 63: 64, 64: 64, 65: 128, 127: 128, 128: 128, 129: 192} {
		require.Equal(t, want, lines(n), "%d", n)
	}
}

// A frame is written at the next line. If it does not fit before the end of the lap, a wrap word is
// written there, and the frame at the beginning. It is read unchanged, and the first words of its
// lines are zero afterwards.
func TestRingLayout(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 72, 73, 1000, MaxFrame - 1, MaxFrame} {
		need := lines(headSize + size)
		// before is the number of bytes to the end of the lap.
		for _, before := range []uint64{need - lineSize, need, need + lineSize, lineSize, ringSize - lineSize, ringSize} {
			if before == 0 || before > ringSize {
				continue
			}
			for _, lap := range []uint64{0, ringSize, 3 * ringSize} {
				p, c := pair()
				pos := lap + ringSize - before
				c.setUp(p, pos)
				f := fabric.Frame{Origin: 5, Target: MaxSize - 1, Head: [fabric.HeadWords]uint64{1, 2, 3, 4, 5, 1 << 63}, Data: make([]byte, size)}
				for i := range f.Data {
					f.Data[i] = byte(i) | 1
				}
				require.False(t, c.ready())
				require.True(t, p.put(kindOver, &f))
				require.True(t, c.ready())
				begin := pos
				if need > before {
					require.Equal(t, uint64(1<<63|2<<20), p.at(pos), "the rest of the lap is not used")
					begin = lap + ringSize
				}
				require.Equal(t, begin+need, p.pos)
				require.Equal(t, uint64(1<<63|0x3fff<<42|5<<28|7<<20)|uint64(size), p.at(begin))
				off := begin & (ringSize - 1)
				require.Equal(t, f.Head, *p.words(off))
				require.True(t, bytes.Equal(f.Data, p.data[off+56:off+56+uint64(size)]))

				next := uint64(valid | kindFrame<<kindShift)
				p.word(p.pos & (ringSize - 1)).Store(next) // must stay unchanged
				var got fabric.Frame
				kind, n, err := c.get(&got)
				require.NoError(t, err)
				require.EqualValues(t, kindOver, kind)
				require.Equal(t, need, n)
				require.Equal(t, f.Head, got.Head)
				require.Equal(t, []int32{5, MaxSize - 1}, []int32{got.Origin, got.Target})
				require.True(t, bytes.Equal(f.Data, got.Data))
				require.Equal(t, size, cap(got.Data), "an append by the handler does not write to the ring")
				require.Equal(t, begin, c.pos)
				if begin != pos {
					require.Zero(t, p.at(pos), "the word in the rest of the lap is gone")
				}
				require.False(t, c.done(n))
				require.Equal(t, p.pos, c.pos)
				var left uint64
				for i := begin; i < begin+need; i += lineSize {
					left |= p.at(i)
				}
				require.Zero(t, left, "a line does not begin with zero")
				require.Equal(t, next, p.at(p.pos))
			}
		}
	}
}

// A producer writes exactly as long as there is room. It reads the consumer's position only when
// the ring seems full, and ignores a position that makes no sense.
func TestRingFull(t *testing.T) {
	small, two := &fabric.Frame{}, &fabric.Frame{Data: make([]byte, 9)}
	for _, lead := range []uint64{0, lineSize, ringSize / 2, ringSize - lineSize, 5*ringSize + 3*lineSize} {
		p, c := pair()
		c.setUp(p, lead)
		n := 0
		for p.put(kindFrame, small) {
			n++
		}
		require.Equal(t, ringSize/lineSize, n)
		require.Equal(t, lead, p.head)
		for _, row := range []struct {
			head uint64 // the consumer's published position
			room uint64
			is   uint64 // the producer's copy of it afterwards
		}{
			{lead - 1, 0, lead}, // backwards
			{lead, 0, lead},
			{lead + ringSize + 1, 0, lead}, // beyond the last written byte
			{^uint64(0), 0, lead},
			{lead + lineSize - 1, 0, lead + lineSize - 1}, // no line, but it makes sense
			{lead + lineSize, 1, lead + lineSize},
			{lead + 2*lineSize, 1, lead + 2*lineSize},
			{lead + 2*lineSize, 0, lead + 2*lineSize},
			{lead, 0, lead + 2*lineSize}, // backwards
			{lead + 2*lineSize + ringSize, ringSize / lineSize, lead + 2*lineSize + ringSize},
		} {
			c.ctl.head.Store(row.head)
			if row.room == 0 {
				pos, word := p.pos, p.at(p.pos)
				require.False(t, p.put(kindFrame, small), "%+v", row)
				require.Equal(t, pos, p.pos)
				require.Equal(t, word, p.at(pos))
			}
			for range row.room {
				require.True(t, p.put(kindFrame, small), "%+v", row)
			}
			require.Equal(t, row.is, p.head, "%+v", row)
		}
	}
	// A frame needs the rest of the lap too if it does not fit there.
	for _, free := range []uint64{lineSize, 2 * lineSize, 3 * lineSize} {
		p, c := pair()
		c.setUp(p, ringSize)
		for range ringSize/lineSize - 1 {
			require.True(t, p.put(kindFrame, small))
		}
		c.ctl.head.Store(ringSize + free - lineSize)
		require.Equal(t, free == 3*lineSize, p.put(kindFrame, two), "%d bytes are free, of which a line at the end", free)
	}
	// It does not read the position while there is room.
	p, c := pair()
	c.setUp(p, 0)
	require.True(t, p.put(kindFrame, small))
	c.ctl.head.Store(lineSize)
	for range ringSize/lineSize - 1 {
		require.True(t, p.put(kindFrame, small))
		require.Zero(t, p.head)
	}
	require.True(t, p.put(kindFrame, small))
	require.EqualValues(t, lineSize, p.head)
}

// A consumer publishes its position after a quarter of the ring, and at once if the producer waits.
func TestRingPublishes(t *testing.T) {
	for _, waits := range []int{-1, 0, 1, maxLag/lineSize - 1, maxLag / lineSize} {
		p, c := pair()
		c.setUp(p, ringSize)
		published := uint64(ringSize)
		for i := range 2*maxLag/lineSize + 1 {
			require.True(t, p.put(kindFrame, &fabric.Frame{}))
			var f fabric.Frame
			_, n, err := c.get(&f)
			require.NoError(t, err)
			if i == waits {
				p.ctl.waiting.Store(1)
			}
			require.Equal(t, i == waits, c.done(n), "frame %d", i)
			require.Zero(t, p.ctl.waiting.Load())
			if c.pos-published == maxLag || i == waits {
				published = c.pos
			}
			require.Equal(t, published, c.ctl.head.Load(), "frame %d", i)
			require.Equal(t, published, c.published)
		}
	}
}

// A first word that no producer writes is an error with the word and its offset, which is within
// the ring.
func TestRingDamaged(t *testing.T) {
	const last = ringSize - lineSize
	for _, row := range []struct {
		off, word uint64
		bytes     uint64 // size of the frame if it is valid
		next      bool   // it is a valid wrap word, with no frame at the beginning
	}{
		{off: 0, word: 1},
		{off: 0, word: kindFrame << kindShift},
		{off: 0, word: valid},
		{off: 0, word: valid | 8},
		{off: 0, word: valid | kindFrame<<kindShift, bytes: 64},
		{off: 0, word: valid | kindOver<<kindShift, bytes: 64},
		{off: 0, word: valid | numKinds<<kindShift},
		{off: 0, word: valid | (numKinds+1)<<kindShift},
		{off: 0, word: valid | 1<<62 | kindFrame<<kindShift},
		{off: 0, word: valid | 1<<spareShift | kindFrame<<kindShift},
		{off: 64, word: valid | 1<<originShift | kindWrap<<kindShift},
		{off: 64, word: valid | 1<<targetShift | kindWrap<<kindShift},
		{off: 0, word: valid | kindWrap<<kindShift},
		{off: 64, word: valid | kindWrap<<kindShift, next: true},
		{off: last, word: valid | kindWrap<<kindShift, next: true},
		{off: 64, word: valid | kindWrap<<kindShift | 1},
		{off: 64, word: kindWrap << kindShift},
		{off: 0, word: valid | kindFrame<<kindShift | MaxFrame, bytes: lines(headSize + MaxFrame)},
		{off: 0, word: valid | kindFrame<<kindShift | (MaxFrame + 1)},
		{off: 0, word: valid | kindFrame<<kindShift | (1<<kindShift - 1)},
		{off: last, word: valid | kindFrame<<kindShift | 8, bytes: 64},
		{off: last, word: valid | kindFrame<<kindShift | 9},
		{off: last - 64, word: valid | kindFrame<<kindShift | 72, bytes: 128},
		{off: last - 64, word: valid | kindFrame<<kindShift | 73},
	} {
		p, c := pair()
		c.pos = ringSize + row.off
		p.word(row.off).Store(row.word)
		var f fabric.Frame
		kind, n, err := c.get(&f)
		switch {
		case row.next:
			require.NoError(t, err)
			require.Zero(t, kind)
			require.Zero(t, p.word(row.off).Load())
			require.EqualValues(t, 2*ringSize, c.pos)
		case row.bytes > 0:
			require.NoError(t, err, "%#x", row.word)
			require.Equal(t, row.word&^valid>>kindShift, kind)
			require.Equal(t, row.bytes, n)
			require.Len(t, f.Data, int(row.word&(1<<kindShift-1)))
		default:
			require.EqualError(t, err, fmt.Sprintf("a malformed frame at byte %d of its ring: first word %#x", row.off, row.word))
			require.Zero(t, kind)
			require.Zero(t, n)
			require.Equal(t, fabric.Frame{}, f)
		}
	}
}

// A producer and a consumer in two goroutines, with a ring that is full most of the time. The
// producer waits for room by F2, F3 and C3 of the package comment.
func TestRingHammer(t *testing.T) {
	p, c := pair()
	room, over := make(chan struct{}, 1), make(chan struct{})
	var wrong sync.Once
	fail := func(f string, args ...any) { wrong.Do(func() { t.Errorf(f, args...) }) }
	const frames = 800
	size := func(i int) int { return i * 7919 % 3000 }
	go func() {
		defer close(over)
		for i := 0; i < frames; {
			var f fabric.Frame
			kind, n, err := c.get(&f)
			if err != nil {
				fail("frame %d: %v", i, err)
				return
			}
			if kind == 0 {
				runtime.Gosched()
				continue
			}
			if f.Head[0] != uint64(i) || len(f.Data) != size(i) || !bytes.Equal(f.Data, bytes.Repeat([]byte{byte(i)}, size(i))) {
				fail("frame %d is %d, of %d bytes", i, f.Head[0], len(f.Data))
			}
			if c.done(n) {
				room <- struct{}{}
			}
			i++
		}
	}()
	buf := make([]byte, 3000)
	for i := range frames {
		f := &fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: buf[:size(i)]}
		for k := range f.Data {
			f.Data[k] = byte(i)
		}
		for !p.put(kindFrame, f) {
			p.ctl.waiting.Store(1)
			if p.put(kindFrame, f) {
				break
			}
			<-room
		}
		select { // left over from a wait that F3 has ended
		case <-room:
		default:
		}
	}
	for {
		select {
		case <-over:
			return
		case <-room:
		}
	}
}
