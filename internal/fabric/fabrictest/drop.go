// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// drop checks that a peer of which the layer above says that it is lost is gone, with all that was under way, and that others are not.
func drop(t *testing.T, eps []fabric.Endpoint) {
	d, ok := eps[0].(fabric.Dropper)
	if !ok {
		t.Skip("it finds out by itself")
	}
	sinks := bindAll(eps)
	ended := make(chan error, 1)
	end := func(err error) { ended <- err }
	word := func(w uint64) fabric.Frame { return fabric.Frame{Head: [fabric.HeadWords]uint64{w}} }
	require.NoError(t, eps[0].Send(1, word(1)))
	require.NoError(t, eps[2].Send(1, word(2)))
	sinks[1].wait(2)
	eps[0].Expect(1, 1, make([]byte, 10), end)
	why := errors.New("the reason")
	d.Drop(1, why)
	require.ErrorContains(t, <-ended, "the reason")
	d.Drop(1, why)
	d.Drop(9, why)
	require.Error(t, eps[0].Send(1, word(3)))
	eps[0].Push(1, 7, make([]byte, 1<<20), end)
	require.Error(t, <-ended)
	eps[0].Expect(1, 2, make([]byte, 10), end)
	require.Error(t, <-ended)
	// Others go on.
	place := make([]byte, 1<<16)
	eps[2].Expect(0, 5, place, end)
	eps[0].Push(2, 5, append(make([]byte, 1<<16-1), 'x'), func(error) {})
	require.NoError(t, <-ended)
	require.EqualValues(t, 'x', place[1<<16-1])
	require.NoError(t, eps[2].Send(1, word(4)))
	require.EqualValues(t, 4, sinks[1].wait(1)[2].head[0])
	require.NoError(t, eps[0].Close())
	d.Drop(2, why)
}
