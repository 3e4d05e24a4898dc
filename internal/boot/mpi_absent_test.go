//go:build !mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/mpi"
)

// If MPI cannot exchange the values, that is the error of share, unless the rank has a problem
// itself.
func TestExchangeThatMPIRefuses(t *testing.T) {
	p := &mpi.Process{Rank: 1, Size: 2}
	_, err := share(p, []byte("x"), nil)
	require.ErrorIs(t, err, mpi.ErrAbsent)
	_, err = share(p, nil, errFault)
	require.Equal(t, errFault, err)
	for _, own := range []error{nil, errFault} {
		ep, err := (&Job{Rank: 1, Size: 2, process: p}).Connect(t.Context(), Own{Problem: own})
		require.Nil(t, ep)
		if own == nil {
			own = mpi.ErrAbsent
		}
		require.ErrorIs(t, err, own)
	}
	_, err = (&Identity{Rank: 1, Ranks: 2}).Join(t.Context())
	require.ErrorIs(t, err, mpi.ErrAbsent)
	known, err := (&Identity{Rank: 1, Ranks: 2}).Known()
	require.NoError(t, err)
	require.True(t, known)
	_, err = (&Identity{Rank: -1, Ranks: -1}).Known()
	require.ErrorIs(t, err, mpi.ErrAbsent)
	require.ErrorIs(t, (&Job{process: p}).Leave(), mpi.ErrAbsent)
	require.EqualError(t, fmt.Errorf("so: %w", &Refused{1, "x"}), "so: x")
}
