// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpected(t *testing.T) {
	var x Expected
	var ends []error
	end := func(err error) { ends = append(ends, err) }
	x.Add(1, 7, make([]byte, 10), end)

	p, err := x.Begin(0, 7, 0, 10)
	require.NoError(t, err)
	require.Nil(t, p, "nobody expects that from rank 0")
	for _, bad := range []struct{ off, n int }{{1, 1}, {0, 0}, {0, 11}, {0, -1}} {
		_, err = x.Begin(1, 7, uint64(bad.off), bad.n)
		require.ErrorContains(t, err, "of which 0 of 10 are here")
	}
	p, err = x.Begin(1, 7, 0, 4)
	require.NoError(t, err)
	require.Len(t, p, 4)
	require.Equal(t, 4, cap(p))
	_, err = x.Begin(1, 7, 0, 4)
	require.Error(t, err, "a piece that comes twice")
	require.False(t, x.Forget(1, 7), "a piece is being written")
	require.Empty(t, ends)
	x.End(1, 7, 4, nil)
	require.Equal(t, []error{ErrClosed}, ends)
	p, err = x.Begin(1, 7, 4, 6)
	require.NoError(t, err)
	require.Nil(t, p, "it was taken back")

	x.Add(1, 8, make([]byte, 4), end)
	_, _ = x.Begin(1, 8, 0, 4)
	x.Lose(1, errors.New("gone"))
	x.End(1, 8, 4, nil)
	require.NoError(t, ends[1], "all of it was there")
	x.Add(1, 9, make([]byte, 4), end)
	require.EqualError(t, ends[2], "gone")
	x.Add(2, 9, make([]byte, 4), end)
	_, _ = x.Begin(2, 9, 0, 2)
	x.Close()
	require.Len(t, ends, 3)
	cut := errors.New("cut")
	x.End(2, 9, 2, cut)
	require.Equal(t, cut, ends[3])
	x.Add(3, 1, make([]byte, 1), end)
	require.Equal(t, ErrClosed, ends[4])
	require.Len(t, ends, 5)
}
