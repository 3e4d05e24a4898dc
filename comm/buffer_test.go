// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive returns the payload of a vector of int16, element by element.
func naive(s []int16, count, blocklen, stride int) (out []int16) {
	for i := range count {
		out = append(out, s[i*stride:i*stride+blocklen]...)
	}
	return out
}

func asBytes(s []int16) []byte {
	b, _ := Of(s).Contiguous()
	return append([]byte(nil), b...)
}

func TestVectorAgainstNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		count, blocklen := rng.IntN(6), rng.IntN(6)
		stride := blocklen + rng.IntN(3)
		s := make([]int16, count*stride+blocklen)
		for i := range s {
			s[i] = int16(rng.Int())
		}
		b := Vector(s, count, blocklen, stride)
		require.NoError(t, b.Err())
		want := asBytes(naive(s, count, blocklen, stride))
		require.Equal(t, count*blocklen, b.Len())
		require.Equal(t, len(want), b.Bytes())

		off, n := rng.IntN(len(want)+2), rng.IntN(len(want)+2)
		rest := want[min(off, len(want)):]
		rest = rest[:min(n, len(rest))]
		got := make([]byte, n)
		require.Equal(t, len(rest), b.CopyToBytes(got, off))
		require.Equal(t, string(rest), string(got[:len(rest)]))

		// Into another layout, all at once and by pieces; the gaps stay.
		stride2 := 1 + rng.IntN(3)
		s2 := make([]int16, count*blocklen*stride2+1)
		for i := range s2 {
			s2[i] = -1
		}
		d := Vector(s2, count*blocklen, 1, stride2)
		m, err := Copy(d, b)
		require.NoError(t, err)
		require.Equal(t, len(want), m)
		require.Equal(t, string(want), string(asBytes(naive(s2, count*blocklen, 1, stride2))))
		for i, v := range s2 {
			if i%stride2 != 0 || i/stride2 >= count*blocklen {
				require.Equal(t, int16(-1), v)
			}
		}
		clear(s2)
		for o := 0; o < len(want); {
			k := 1 + rng.IntN(5)
			o += d.CopyFromBytes(want[o:min(o+k, len(want))], o)
		}
		require.Equal(t, string(want), string(asBytes(naive(s2, count*blocklen, 1, stride2))))
	}
}

func TestCopyErrors(t *testing.T) {
	a, b := []int64{1, 2, 3}, []int64{0, 0}
	n, err := Copy(Of(b), Of(a))
	require.ErrorIs(t, err, ErrTruncated)
	require.Equal(t, 16, n)
	require.Equal(t, []int64{1, 2}, b)
	_, err = Copy(Of([]float64{0, 0, 0}), Of(a))
	require.ErrorIs(t, err, ErrType)
	_, err = Copy(Of(a), Of([]string{"x"}))
	require.ErrorIs(t, err, ErrType)
	_, err = Copy(Vector(a, 2, 2, 2), Of(b))
	require.ErrorIs(t, err, ErrBuffer)
	n, err = Copy(Buffer{}, Buffer{})
	require.NoError(t, err)
	require.Zero(t, n)
}

// A message into zero blocks does not fit, and nothing is written, however long a block would be.
// The same holds for one block of zero elements.
func TestReceiveIntoNothing(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		m := make([]int64, 9)
		for _, buf := range []Buffer{Vector(m, 0, 5, 9), Of(m[:0]), Vector(m, 3, 0, 3), {}} {
			if c.Rank() == 0 {
				if err := c.Send(Of([]int64{1}), 1, 0); err != nil {
					return err
				}
				continue
			}
			st, err := c.Recv(buf, 0, 0)
			if !errors.Is(err, ErrTruncated) || st.Bytes != 8 {
				return fmt.Errorf("%v: %w", st, err)
			}
		}
		return expectSlice("what is received", make([]int64, 9), m)
	})
}

type celsius float64

type cell struct {
	A, B float32
	C    [3]uint16
}

func TestKinds(t *testing.T) {
	type empty struct{}
	for _, x := range []struct {
		b    Buffer
		kind Kind
		size int
	}{
		{Of([]byte{}), Byte, 1}, {Of([]bool{}), Bool, 1}, {Of([]int8{}), Int8, 1}, {Of([]int16{}), Int16, 2}, {Of([]int32{}), Int32, 4},
		{Of([]int64{}), Int64, 8}, {Of([]uint16{}), Uint16, 2}, {Of([]uint32{}), Uint32, 4}, {Of([]uint64{}), Uint64, 8},
		{Of([]float32{}), Float32, 4}, {Of([]float64{}), Float64, 8}, {Of([]complex64{}), Complex64, 8}, {Of([]complex128{}), Complex128, 16},
		{Of([]celsius{}), Float64, 8}, {Of([]cell{}), Opaque, 16}, {Of([]empty{{}}), Opaque, 0}, {Of([][2]int32{}), Opaque, 8}, {Buffer{}, None, 0},
	} {
		require.NoError(t, x.b.Err())
		require.Equal(t, x.kind, x.b.Kind())
		require.Equal(t, x.size, x.b.ElemSize(), x.kind.String())
	}
	for _, b := range []Buffer{Of([]string{}), Of([]*int{}), Of([][]int{}), Of([]map[int]int{}), Of([]any{}), Of([]func(){}), Of([]chan int{}), Of([]struct{ A [2]struct{ P *int } }{})} {
		require.ErrorIs(t, b.Err(), ErrType)
	}
	require.ErrorContains(t, Of([]struct{ A [2]struct{ P *int } }{}).Err(), "A[].P is a ptr", "it says where")
}

func TestRaw(t *testing.T) {
	p := make([]byte, 64)
	require.NoError(t, Raw(p, Float64).Err())
	require.Equal(t, 8, Raw(p, Float64).Len())
	require.ErrorIs(t, Raw(p[:63], Float64).Err(), ErrBuffer)
	require.ErrorIs(t, Raw(p[4:12], Float64).Err(), ErrBuffer)
	require.NoError(t, Raw(p[4:12], Int32).Err())
	require.ErrorIs(t, Raw(p, Opaque).Err(), ErrBuffer)
	require.ErrorIs(t, Raw(p, None).Err(), ErrBuffer)
	require.NoError(t, Raw(nil, Int64).Err())
}

func TestSlice(t *testing.T) {
	s := []int32{0, 1, 2, 3, 4}
	b := Of(s).Slice(1, 3)
	d := make([]int32, 2)
	_, err := Copy(Of(d), b)
	require.NoError(t, err)
	require.Equal(t, []int32{1, 2}, d)
	require.Zero(t, Of(s).Slice(5, 5).Len())
	require.Panics(t, func() { Of(s).Slice(2, 6) })
	require.Panics(t, func() { Of(s).Slice(3, 2) })
	require.Panics(t, func() { Vector(s, 2, 1, 2).Slice(0, 1) })
}
