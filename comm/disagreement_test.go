// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"testing"

	"weft/comm/internal/coll"

	"github.com/stretchr/testify/require"
)

// A disagreement names the lower rank first, whichever of the two has seen it; it has the number
// from which no rank must wait for agreements; and it matches ErrType too if only the elements
// differ. Another process reads the same.
func TestDisagreementFrames(t *testing.T) {
	c := &Comm{rank: 2}
	elems := func(k coll.Kind, b Buffer, unit int) coll.Signature {
		return coll.NewSignature(coll.NewCollective(k, nil, -1), (&coll.Call{In: b.b, Out: b.b}).Elem(), unit)
	}
	ints, floats := Of([]int64{1}), Of([]float64{1})
	for says, x := range map[string]struct {
		r            int
		theirs, mine coll.Signature
		from         uint64
		types        bool
	}{
		"number 5 of the communicator: rank 1 is in barrier, rank 2 is in dup": {1, elems(coll.Barrier, Buffer{}, 0), elems(coll.Dup, ints, 8), 0, false},
		"number 5 of the communicator: rank 2 is in dup, rank 3 is in barrier": {3, elems(coll.Barrier, Buffer{}, 0), elems(coll.Dup, ints, 8), 0, false},
		"rank 1 is in agree, rank 2 is in barrier":                             {1, elems(coll.Agree, Buffer{}, 0), elems(coll.Barrier, Buffer{}, 0), 5, false},
		"rank 1 is in barrier, rank 2 is in shrink":                            {1, elems(coll.Barrier, Buffer{}, 0), elems(coll.Shrink, Buffer{}, 0), 5, false},
		"allgather of 1 float64 (8 bytes), rank 2":                             {1, elems(coll.Allgather, floats, 8), elems(coll.Allgather, ints, 8), 0, true},
		"allgather of 2 float64 (16 bytes), rank 2":                            {1, elems(coll.Allgather, floats, 16), elems(coll.Allgather, ints, 8), 0, false},
		"alltoall of 1 float64 (8 bytes), rank 2":                              {1, elems(coll.Alltoall, floats, 8), elems(coll.Allgather, ints, 8), 0, false},
	} {
		d := newDisagreement(c, 5, x.r, x.theirs, x.mine)
		f := d.frame(6)
		again, err := disagreementOf(&f)
		require.NoError(t, err)
		for _, d := range []*disagreement{d, again} {
			require.ErrorIs(t, d.err, ErrMismatch)
			require.ErrorContains(t, d.err, says)
			require.Equal(t, x.from, d.from, says)
			require.Equal(t, x.types, errors.Is(d.err, ErrType), says)
			require.EqualValues(t, 5, d.number)
			require.Less(t, d.a, d.b)
		}
		require.Equal(t, d.err.Error(), again.err.Error())
		require.EqualValues(t, 6, f.Head[0])
	}
	d := &disagreement{err: fmt.Errorf("%w: not known which", ErrMismatch), from: 4}
	f := d.frame(6)
	again, err := disagreementOf(&f)
	require.NoError(t, err)
	require.ErrorIs(t, again.err, ErrMismatch)
	require.Equal(t, ErrMismatch.Error()+": not known which", again.err.Error())
	require.EqualValues(t, 4, again.from)

	long := f
	long.Data = make([]byte, maxReason)
	_, err = disagreementOf(&long)
	require.NoError(t, err)
	long.Data = make([]byte, maxReason+1)
	_, err = disagreementOf(&long)
	require.ErrorContains(t, err, "that ranks do not agree")
	f.Head[0]++ // no context of messages
	_, err = disagreementOf(&f)
	require.ErrorContains(t, err, "that ranks do not agree")
	for _, n := range []int{0, 2*coll.SignatureBytes - 1, 2*coll.SignatureBytes + 1} {
		f := newDisagreement(c, 5, 1, elems(coll.Barrier, Buffer{}, 0), elems(coll.Dup, ints, 8)).frame(6)
		f.Data = append(f.Data, 0)[:n]
		_, err = disagreementOf(&f)
		require.ErrorContains(t, err, "that ranks do not agree", n)
	}
}
