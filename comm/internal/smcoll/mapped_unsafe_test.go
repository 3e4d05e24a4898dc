//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Cells do not share cache lines. A word that other ranks poll is in a line of its own, or with
// words that are read together.
func TestLayout(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(cell{})%64, "%d", unsafe.Sizeof(cell{}))
	require.EqualValues(t, 40, unsafe.Offsetof(cell{}.data), "8 bytes are in the first line, and aligned")
	require.Zero(t, unsafe.Sizeof(pieceCount{})%64)
	require.Zero(t, unsafe.Sizeof(row{})%64, "%d", unsafe.Sizeof(row{}))
	require.Zero(t, unsafe.Offsetof(row{}.cells)%64)
	require.Zero(t, unsafe.Offsetof(row{}.queuedAll)%64)
	require.Zero(t, unsafe.Offsetof(row{}.step)%64)
	require.EqualValues(t, 256, unsafe.Sizeof(Member{}), "a size class whose objects begin at a cache line")
	require.Zero(t, unsafe.Offsetof(Member{}.known)%64)
}

// Rows and staging buffers are within a rank's memory.
func TestMemory(t *testing.T) {
	const size = int(unsafe.Sizeof(row{}))
	require.Nil(t, rowAt(make([]byte, size), -1))
	m := make([]byte, memorySize)
	require.NotNil(t, rowAt(m, MaxMapped-1))
	require.Nil(t, rowAt(m, MaxMapped))
	require.NotNil(t, rowAt(m[:2*size], 1))
	require.Nil(t, rowAt(m[:2*size-1], 1))
	require.EqualValues(t, unsafe.Pointer(&m[size]), unsafe.Pointer(rowAt(m, 1)))
	w := stagingAt(m)
	require.Len(t, w.in, stagingSize)
	require.Equal(t, stagingSize, cap(w.in))
	require.Len(t, w.result, resultSize)
	require.Same(t, &m[memorySize-1], &w.result[resultSize-1])
	require.Same(t, &m[memorySize-resultSize-stagingSize], &w.in[0])
	require.Empty(t, stagingAt(m[:memorySize-1]).in)
	require.Nil(t, NewMapped(2, 0, 1, m[:2*size-1], nil, nil, nil, nil))
	require.NotNil(t, NewMapped(2, 0, 1, m[:2*size], nil, nil, nil, nil))
}

// The four lowest free indices are offered, each to one communicator at a time, until they are
// given back.
func TestIndices(t *testing.T) {
	x := NewIndices()
	require.EqualValues(t, 0b11110, x.Offer())
	require.EqualValues(t, 0b111100000, x.Offer())
	x.GiveBack(0b11110)
	require.EqualValues(t, 0b11110, x.Offer())
	x.GiveBack(0b10110)
	require.EqualValues(t, 0b1000010110, x.Offer())
	x.free = 1 << 63
	require.Equal(t, uint64(1<<63), x.Offer())
	require.Zero(t, x.Offer())
	x.GiveBack(1 << 63)
	require.Equal(t, 1, bits.OnesCount64(x.free))
}

// A round has whole elements, and each rank combines a block of it.
func TestRoundBounds(t *testing.T) {
	for _, size := range []int{1, 2, 8, 12, 16, 1000, elemMax} {
		for _, unit := range []int{DataMax/size*size + size, stagingSize / size * size, 3*(stagingSize/size*size) + size} {
			d := &coll.Call{Kind: coll.Allreduce, Unit: unit, In: mem.Sized(make([]byte, unit), size)}
			next := 0
			for k := 0; ; k++ {
				lo, hi := roundBounds(d, k)
				require.Equal(t, next, lo)
				if lo == hi {
					break
				}
				next = hi
				require.LessOrEqual(t, hi-lo, stagingSize)
				at := lo
				for r := range 5 {
					from, to := blockBounds(d, r, 5, lo, hi)
					require.Equal(t, at, from)
					require.Zero(t, (to-from)%size)
					at = to
				}
				require.Equal(t, hi, at)
				from, to := blockBounds(d, 1, 2, lo, hi)
				require.LessOrEqual(t, to-from, resultSize)
			}
			require.Equal(t, unit, next)
		}
	}
}

// connected returns ranks that have mapped each other's memory.
func connected(t *testing.T, n int) *lab {
	l := newLab(n, true)
	for _, r := range l.ranks {
		require.NoError(t, r.open())
	}
	return l
}

// One call at a time holds a rank's staging buffer. Another communicator gets it only when no rank
// reads it any more, and never once that is unknown. A rank may have no staging buffer.
func TestStagingBufferIsAcquired(t *testing.T) {
	l := connected(t, 2)
	s, q := l.ranks[0].Member, l.ranks[1].row
	w := s.staging
	require.True(t, w.acquire(s))
	require.False(t, w.acquire(s))
	w.release()
	require.True(t, w.acquire(s))
	require.False(t, w.exposedFor(s, 7))
	w.expose(s, 7)
	require.True(t, w.exposedFor(s, 7))
	require.False(t, w.exposedFor(s, 8))
	w.release()
	require.False(t, w.exposedFor(s, 7))
	require.True(t, w.acquire(s), "the same communicator needs no check")
	w.release()
	other := NewMapped(2, 0, 1, l.ranks[0].mem, l.ranks[0], new(coll.History), &l.ranks[0].hasFailed, w)
	require.NoError(t, other.open())
	require.False(t, w.acquire(other))
	s.row.step.Store(7<<stepBits | stepOver)
	for step, over := range map[uint64]bool{7<<stepBits | stepOver - 1: false, 7<<stepBits | stepOver: true, 8<<stepBits | 1: true, 6<<stepBits | stepOver: false} {
		q.step.Store(step)
		require.Equal(t, over, w.acquire(other), "%#x", step)
		if over {
			w.release()
		}
	}
	q.step.Store(8 << stepBits)
	w.retire()
	require.False(t, w.acquire(other))
	require.False(t, w.acquire(s))

	l = newLab(2, true)
	for _, r := range l.ranks {
		r.mem = r.mem[:memorySize-1] // the same length at all ranks
	}
	require.NoError(t, l.ranks[0].open())
	require.False(t, l.ranks[0].staging.acquire(l.ranks[0].Member), "there is none")
}

// A rank copies the other ranks' blocks to its staging buffer. It copies its own block only if it
// cannot combine that from the program's buffer.
func TestFillStaging(t *testing.T) {
	for me := range 3 {
		l := connected(t, 3)
		in := make([]int64, 3*7+stagingSize/8)
		for i := range in {
			in[i] = int64(i + 1)
		}
		wide := make([]int64, 2*len(in))
		for i, x := range in {
			wide[2*i] = x
		}
		s := l.ranks[me]
		buffer := s.buffers[me].in
		for _, buf := range []mem.Buffer{mem.Of(in), mem.Vector(wide, len(in), 1, 2)} {
			d := s.call(coll.Allreduce, coll.Sum, -1, buf, buf)
			clear(buffer)
			s.fillStaging(d, 1)
			lo, hi := roundBounds(d, 1)
			require.Equal(t, 3*7*8, hi-lo)
			_, whole := buf.Contiguous()
			from, to := blockBounds(d, me, 3, lo, hi)
			for i := range 3 * 7 {
				at, want := lo+8*i, int64(stagingSize/8+i+1)
				if at >= hi || whole && at >= from && at < to {
					want = 0
				}
				require.Equal(t, want, *(*int64)(unsafe.Pointer(&buffer[8*i])), "rank %d, whole %v, element %d", me, whole, i)
			}
			require.Zero(t, buffer[hi-lo])
		}
	}
}

// peerFailure returns a failed operator's panic, if there is one. Its text is bounded, whatever
// another process has written.
func TestPeerFailure(t *testing.T) {
	l := connected(t, 3)
	s := l.ranks[1]
	step := func(r int, v uint64) { l.ranks[r].row.step.Store(v) }
	text := func(r int, n uint32, text string) {
		m := s.buffers[r].result
		binary.LittleEndian.PutUint32(m, n)
		copy(m[4:], text)
	}
	require.NoError(t, s.peerFailure(9))
	step(0, 8<<stepBits|stepFailed)
	step(2, 9<<stepBits|3)
	require.NoError(t, s.peerFailure(9), "of another collective, and of no failure")
	step(0, 9<<stepBits|stepGaveUp)
	require.Equal(t, coll.ErrOperator, s.peerFailure(9))
	text(2, 3, "bad")
	step(2, 9<<stepBits|stepFailed)
	require.ErrorIs(t, s.peerFailure(9), coll.ErrOperator)
	require.ErrorContains(t, s.peerFailure(9), " at rank 2: bad")
	step(0, 9<<stepBits|stepFailed)
	text(0, 0, "")
	require.ErrorContains(t, s.peerFailure(9), " at rank 0: ")
	for _, n := range []uint32{maxPanic - 1, maxPanic, maxPanic + 1, 1 << 31, 1<<32 - 1} {
		text(0, n, strings.Repeat("x", resultSize))
		require.Equal(t, min(int(n), maxPanic), strings.Count(s.peerFailure(9).Error(), "x"))
	}
}

// If one rank runs a large collective by messages, all do, whichever publishes first. That rank
// waits for no other. Its cell is free for the next collective.
func TestLargeByMessages(t *testing.T) {
	for _, first := range []bool{true, false} {
		l := newLab(2, true)
		in, out := make([]int64, 1000), make([]int64, 1000)
		for round := range Width + 1 {
			q := new(request)
			if first {
				l.ranks[0].Start(l.ranks[0].sum(in, out), q)
			}
			outcome := make(chan Outcome)
			d := l.ranks[1].sum(in, out)
			go func() {
				o, err := l.ranks[1].Do(d)
				if err != nil {
					panic(err)
				}
				outcome <- o
			}()
			if !first {
				l.ranks[0].Start(l.ranks[0].sum(in, out), q)
			}
			require.Equal(t, UseMessages, <-outcome)
			require.EqualValues(t, 1, q.done.Load())
			require.Len(t, q.messages, 1)
			require.EqualValues(t, round+1, q.messages[0].Seq)
			require.EqualValues(t, round+1, d.Seq)
			require.Equal(t, d.What, q.messages[0].What)
		}
		require.True(t, l.ranks[1].staging.acquire(l.ranks[1].Member), "it was released")
	}
}

// Large sums of several rounds, by ranks that begin at different times.
func TestLarge(t *testing.T) {
	l := newLab(3, true)
	for round := range 5 {
		n := round*stagingSize/16 + DataMax/8 + 1
		errs := make(chan error)
		for me, r := range l.ranks {
			go func() {
				in, out := make([]int64, n), make([]int64, n)
				for i := range in {
					in[i] = int64(me*round + i)
				}
				o, err := r.Do(r.sum(in, out))
				if o != Done {
					err = fmt.Errorf("rank %d: outcome %d", me, o)
				}
				for i := range out {
					if want := int64(3*round + 3*i); out[i] != want && err == nil {
						err = fmt.Errorf("rank %d, round %d: element %d is %d, not %d", me, round, i, out[i], want)
					}
				}
				errs <- err
			}()
		}
		for range l.ranks {
			require.NoError(t, <-errs)
		}
	}
}
