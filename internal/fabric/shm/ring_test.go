//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// pair returns both ends of a ring.
func pair() (producer, consumer *ring) {
	data, ctl := make([]byte, ringSize), new(ringControl)
	return &ring{data: data, ctl: ctl}, &ring{data: data, ctl: ctl}
}

// Frames of all sizes are read unchanged, however full the ring is, and a producer without room is
// woken when there is room.
func TestRing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p, c := pair()
	var in, out []fabric.Frame
	var next *fabric.Frame
	waits := false
	for len(out) < 5000 {
		if rng.IntN(3) > 0 && !waits {
			if next == nil {
				size := rng.IntN(200)
				if rng.IntN(20) == 0 {
					size = rng.IntN(MaxFrame + 1)
				}
				next = &fabric.Frame{Data: bytes.Repeat([]byte{byte(rng.IntN(256))}, size)}
				for i := range next.Head {
					next.Head[i] = rng.Uint64()
				}
			}
			if p.put(kindFrame, next) {
				in = append(in, *next)
				next = nil
				continue
			}
			p.ctl.waiting.Store(1)
			require.False(t, p.put(kindFrame, next), "the consumer has taken nothing")
			waits = true
			continue
		}
		var f fabric.Frame
		kind, n, err := c.get(&f)
		require.NoError(t, err)
		require.Equal(t, c.ready(), kind != 0)
		if kind == 0 {
			require.Equal(t, len(in), len(out))
			require.False(t, waits, "the ring is empty and its producer waits")
			continue
		}
		f.Data = bytes.Clone(f.Data)
		out = append(out, f)
		require.Equal(t, in[len(out)-1], f)
		if c.done(n) {
			require.True(t, waits)
			waits = false
		}
	}
	for {
		var f fabric.Frame
		kind, n, err := c.get(&f)
		require.NoError(t, err)
		if kind == 0 {
			break
		}
		c.done(n)
	}
	require.Equal(t, make([]byte, 8), firstWords(p.data), "a word that is not zero looks like a frame in the next lap")
}

// firstWords returns the bitwise or of the first words of all lines.
func firstWords(data []byte) []byte {
	all := make([]byte, 8)
	for i := 0; i < len(data); i += lineSize {
		for k := range all {
			all[k] |= data[i+k]
		}
	}
	return all
}

// The largest frame fits into an empty ring at each position: the part that the consumer has not
// published is smaller than the rest.
func TestRingIsNeverStuck(t *testing.T) {
	for lead := uint64(0); lead < ringSize; lead += 127 * lineSize {
		p, c := pair()
		small := fabric.Frame{}
		for p.pos < lead {
			require.True(t, p.put(kindFrame, &small))
			var f fabric.Frame
			_, n, err := c.get(&f)
			require.NoError(t, err)
			c.done(n)
		}
		require.True(t, p.put(kindFrame, &fabric.Frame{Data: make([]byte, MaxFrame)}), "at %d", lead)
	}
}

// Whatever another process writes to the ring, the frames that get returns lie within it.
func FuzzRing(f *testing.F) {
	f.Add(uint64(valid|kindFrame<<kindShift|8), uint64(0), uint32(0))
	f.Add(uint64(valid|kindWrap<<kindShift), uint64(valid|kindWrap<<kindShift), uint32(64))
	f.Add(uint64(valid|kindFrame<<kindShift|MaxFrame), uint64(7), uint32(ringSize-64))
	f.Add(uint64(kindFrame), uint64(1), uint32(128))
	f.Add(^uint64(0), ^uint64(0), ^uint32(0))
	f.Fuzz(func(t *testing.T, at, atZero uint64, pos uint32) {
		_, c := pair()
		c.pos = uint64(pos) &^ (lineSize - 1)
		binary.NativeEndian.PutUint64(c.data[c.pos&(ringSize-1):], at)
		binary.NativeEndian.PutUint64(c.data, atZero)
		var got fabric.Frame
		for range 4 {
			kind, n, err := c.get(&got)
			if kind == 0 || err != nil {
				return
			}
			require.LessOrEqual(t, len(got.Data), MaxFrame)
			require.LessOrEqual(t, c.pos&(ringSize-1)+n, uint64(ringSize))
			c.done(n)
		}
	})
}
