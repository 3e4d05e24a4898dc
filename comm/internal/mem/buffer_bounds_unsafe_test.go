// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A vector whose numbers are wrong by one is refused, with an error that names them. A vector
// without gaps is contiguous.
func TestVectorBounds(t *testing.T) {
	s := make([]int16, 10)
	for _, row := range []struct {
		s                       []int16
		count, blocklen, stride int
		piece                   bool
		wrong                   string
	}{
		{s, -1, 2, 3, false, "vector of -1 blocks of 2 elements"},
		{s, 2, -1, 3, false, "vector of 2 blocks of -1 elements"},
		{s, 1, -1, -1, false, "vector of 1 blocks of -1 elements"},
		{s, -1, 0, 0, false, "vector of -1 blocks of 0 elements"},
		{s, 0, -1, 0, false, "vector of 0 blocks of -1 elements"},
		{s, 0, 3, 0, true, ""}, {s, 0, 0, -1, true, ""}, {nil, 0, 3, 9, true, ""},
		{s, 3, 0, 0, true, ""}, {nil, 3, 0, 5, true, ""}, {s, 3, 0, 100, true, ""}, {s, 2, 0, -1, true, ""},
		{s, 2, 3, 2, false, "vector with stride 2 overlaps its blocks of 3 elements"},
		{s, 2, 3, 3, true, ""}, {s, 2, 3, 4, false, ""},
		{s, 1, 3, 2, true, ""}, {s, 1, 3, -7, true, ""}, {s, 1, 10, 0, true, ""},
		{s, 1, 11, 0, false, "vector of 1 blocks of 11 elements with stride 0 in a slice of 10 elements"},
		{s, 2, 11, 11, false, "vector of 2 blocks of 11 elements with stride 11 in a slice of 10 elements"},
		{s, 2, 1, 9, false, ""}, {s, 2, 1, 10, false, "vector of 2 blocks of 1 elements with stride 10 in a slice of 10 elements"},
		{s, 3, 2, 4, false, ""}, {s, 3, 2, 5, false, "vector of 3 blocks of 2 elements with stride 5 in a slice of 10 elements"},
		{s, 4, 1, 3, false, ""}, {s, 5, 2, 2, true, ""}, {s, 10, 1, 1, true, ""}, {s, 11, 1, 1, false, "in a slice of 10"},
	} {
		b := Vector(row.s, row.count, row.blocklen, row.stride)
		if row.wrong != "" {
			require.ErrorIs(t, b.Err(), ErrBuffer)
			require.ErrorContains(t, b.Err(), row.wrong)
			continue
		}
		require.NoError(t, b.Err(), "%+v", row)
		require.Equal(t, row.count*row.blocklen, b.Len(), "%+v", row)
		require.Equal(t, Int16, b.Kind())
		mem, ok := b.Contiguous()
		require.Equal(t, row.piece, ok, "%+v", row)
		if ok {
			require.Len(t, mem, 2*row.count*row.blocklen)
		}
	}
	require.ErrorIs(t, Vector([]string{"a"}, -1, 2, 3).Err(), ErrType, "what cannot be moved at all comes first")

	vast := make([]struct{}, 1<<36) // takes no memory
	for _, row := range []struct {
		count, stride int
		legal         bool
	}{{maxPieces, 3, true}, {maxPieces + 1, 3, false}, {2, maxPieces, true}, {2, maxPieces + 1, false}, {maxPieces + 1, 2, true}, {1, maxPieces + 1, true}} {
		b := Vector(vast, row.count, 2, row.stride)
		if row.legal {
			require.NoError(t, b.Err(), "%+v", row)
			require.Equal(t, 2*row.count, b.Len(), "%+v", row)
			require.Equal(t, row.count > 1 && row.stride != 2, b.Strided(), "%+v", row)
		} else {
			require.ErrorIs(t, b.Err(), ErrBuffer)
			require.ErrorContains(t, b.Err(), fmt.Sprintf("vector of %d blocks with stride %d; both are at most 2^32-1", row.count, row.stride))
		}
	}
}

// Raw memory must have whole elements of its kind, and be aligned for them.
func TestRawBounds(t *testing.T) {
	words := make([]uint64, 8)
	p := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 64)
	for k := None; k <= NumKinds; k++ {
		if k == None || k >= Opaque {
			require.ErrorContains(t, Raw(p, k).Err(), fmt.Sprintf("memory as elements of kind %v", k))
			continue
		}
		size := kindSizes[k]
		for at := range 17 {
			for n := range 33 {
				b := Raw(p[at:][:n], k)
				if n%size == 0 && at%min(size, 8) == 0 {
					require.NoError(t, b.Err(), "%v at %d, %d bytes", k, at, n)
					require.Equal(t, []int{n / size, n}, []int{b.Len(), b.Bytes()})
					mem, ok := b.Contiguous()
					require.True(t, ok)
					require.Len(t, mem, n)
					continue
				}
				require.ErrorIs(t, b.Err(), ErrBuffer)
				require.ErrorContains(t, b.Err(), fmt.Sprintf("%d bytes at an address with remainder %d as elements of kind %v", n, at%8, k))
			}
		}
	}
}

// Kinds have names; others have numbers. The last kind with a name is Opaque.
func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := None; k < NumKinds; k++ {
		require.NotContains(t, k.String(), "kind(")
		require.False(t, seen[k.String()])
		seen[k.String()] = true
	}
	require.Equal(t, "opaque", Opaque.String())
	require.Equal(t, fmt.Sprintf("kind(%d)", int(NumKinds)), NumKinds.String())
	require.Equal(t, "kind(255)", Kind(255).String())
	for _, k := range []Kind{intKind, uintKind} {
		require.EqualValues(t, unsafe.Sizeof(0), kindSizes[k])
	}
	require.Equal(t, uintKind, Of([]uint{}).Kind())
	require.Equal(t, uintKind, Of([]uintptr{}).Kind())
}

// Elements fit those of the same kind and size. Bytes fit everything, and so does the empty buffer.
func TestKindsThatFit(t *testing.T) {
	for a := None; a < NumKinds; a++ {
		for b := None; b < NumKinds; b++ {
			plain := a == Byte || b == Byte || a == None || b == None
			require.Equal(t, plain || a == b, Fits(a, b, 8, 8), "%v and %v", a, b)
			require.Equal(t, plain && a != b, Fits(a, b, 8, 16), "%v and %v", a, b)
		}
	}
}

// A type with a pointer in it cannot be moved, and the error says where the pointer is. An array
// without elements has no pointer.
func TestTypesWithPointers(t *testing.T) {
	type inner struct {
		N int
		M [3]struct{ Name string }
	}
	for want, b := range map[string]Buffer{
		"":                           Of([]struct{ A [0]*int }{}),
		"string is a string":         Of([]string{}),
		"*int is a ptr":              Of([]*int{}),
		"[1]func()[] is a func":      Of([][1]func(){}),
		"inner.M[].Name is a string": Of([]inner{}),
		"}.B is a slice": Of([]struct {
			A int
			B []int
		}{}),
	} {
		if want == "" {
			require.NoError(t, b.Err())
			continue
		}
		require.ErrorIs(t, b.Err(), ErrType)
		require.ErrorContains(t, b.Err(), want)
	}
}

// Copies from any byte of a payload on copy what is there. In each layout, they touch no byte
// before the first one or after the last one.
func TestCopyBounds(t *testing.T) {
	for _, shape := range []struct{ count, blocklen, stride int }{{1, 24, 24}, {3, 8, 11}, {3, 9, 10}, {3, 7, 20}, {8, 3, 4}, {24, 1, 2}, {2, 16, 17}} {
		mem := make([]byte, 100)
		b := Vector(mem, shape.count, shape.blocklen, shape.stride)
		total := b.Bytes()
		at := func(i int) int { return i/shape.blocklen*shape.stride + i%shape.blocklen }
		for _, off := range []int{-100, -1, 0, 1, 7, 8, 9, total - 1, total, total + 1} {
			for _, n := range []int{0, 1, 8, total - 1, total, total + 1} {
				want := 0
				if off >= 0 && off < total {
					want = min(n, total-off)
				}
				for i := range mem {
					mem[i] = byte(i + 1)
				}
				p := make([]byte, n)
				require.Equal(t, want, b.CopyToBytes(p, off), "%+v, %d bytes from %d", shape, n, off)
				for i := range p {
					if i < want {
						require.Equal(t, byte(at(off+i)+1), p[i])
					} else {
						require.Zero(t, p[i])
					}
					p[i] = byte(200 + i)
				}
				require.Equal(t, want, b.CopyFromBytes(p, off))
				model := make([]byte, len(mem))
				for i := range model {
					model[i] = byte(i + 1)
				}
				for i := range want {
					model[at(off+i)] = byte(200 + i)
				}
				require.Equal(t, model, mem, "%+v, %d bytes to %d", shape, n, off)
			}
		}
	}
}

// A slice of a buffer has its elements. Bounds that are wrong by one panic, with their numbers.
func TestSliceBounds(t *testing.T) {
	s := []int16{1, 2, 3, 4}
	for lo := -1; lo <= 5; lo++ {
		for hi := -1; hi <= 5; hi++ {
			if lo < 0 || hi < lo || hi > len(s) {
				require.PanicsWithValue(t, fmt.Sprintf("comm: Slice(%d, %d) of a buffer of 4 elements in 1 blocks", lo, hi), func() { Of(s).Slice(lo, hi) })
				continue
			}
			b := Of(s).Slice(lo, hi)
			require.Equal(t, Int16, b.Kind())
			require.Equal(t, []int{hi - lo, 2 * (hi - lo)}, []int{b.Len(), b.Bytes()})
			got := make([]int16, hi-lo)
			require.Equal(t, 2*(hi-lo), Copy(Of(got), b))
			require.Equal(t, s[lo:hi], got)
		}
	}
	require.Zero(t, Vector(s, 1, 2, 9).Slice(2, 2).Len())
	require.Panics(t, func() { Vector(s, 2, 1, 2).Slice(0, 0) })
}

// Take accepts only the common case: a contiguous buffer of the same kind and size with room.
// Otherwise the buffer stays as it is.
func TestTakes(t *testing.T) {
	type three [3]byte
	for _, row := range []struct {
		b     Buffer
		elem  Kind
		size  int
		n     int
		aux   uint64
		taken bool
	}{
		{Of(make([]int64, 2)), Int64, 8, 16, 0, true},
		{Of(make([]int64, 2)), Int64, 8, 16, 1, true},
		{Of(make([]int64, 2)), Int64, 8, 8, 0, true},
		// A message of a collective must have exactly this size.
		{Of(make([]int64, 2)), Int64, 8, 8, 1, false},
		{Of(make([]int64, 2)), Int64, 8, 24, 0, false},
		{Of(make([]int64, 2)), Int64, 8, 0, 0, false},
		{Of(make([]int64, 1)), Int64, 8, 8, 0, true},
		{Of(make([]int64, 1)), Int64, 8, 16, 0, false},
		{Of(make([]int64, 0)), Int64, 8, 8, 0, false},
		{Of(make([]int64, 2)), Uint64, 8, 16, 0, false},
		{Of(make([]int64, 2)), Byte, 1, 16, 0, false},
		{Of(make([]byte, 7)), Byte, 1, 7, 0, true},
		{Of(make([]byte, 9)), Byte, 1, 9, 0, true},
		{Of(make([]byte, 7)), Byte, 1, 8, 0, false},
		{Of(make([]three, 8)), Opaque, 3, 24, 0, true},
		{Of(make([]three, 8)), Opaque, 4, 24, 0, false},
		{Vector(make([]int64, 9), 2, 1, 3), Int64, 8, 16, 0, false},
		{Vector(make([]int64, 9), 2, 1, 3), Int64, 8, 8, 0, false},
		{Buffer{}, None, 0, 8, 0, false},
		{Buffer{}, None, 0, 0, 0, false},
		{Buffer{typ: ElementOf[int64]()}, Int64, 8, 8, 0, false},
	} {
		data := make([]byte, row.n)
		for i := range data {
			data[i] = byte(i + 1)
		}
		require.Equal(t, row.taken, row.b.Take(row.elem, row.size, row.aux != 0, data), "%+v", row)
		got := make([]byte, row.b.Bytes())
		row.b.CopyToBytes(got, 0)
		want := make([]byte, len(got))
		if row.taken {
			copy(want, data)
		}
		require.Equal(t, string(want), string(got), "%+v", row)
	}
}

// Working memory that replaces a buffer's memory has elements of the same type.
func TestOver(t *testing.T) {
	p := make([]byte, 48)
	for _, row := range []struct {
		b    Buffer
		want int
	}{{Of([]int64{}), 6}, {Of([]byte{}), 48}, {Of([]complex128{}), 3}, {Of([]struct{}{}), 0}, {Buffer{}, 0}} {
		o := row.b.Over(p)
		require.Equal(t, row.want, o.Len())
		require.Equal(t, row.b.Kind(), o.Kind())
		require.True(t, SameMemory(Of(p), o))
		require.False(t, SameMemory(Of(p[1:]), o))
	}
}
