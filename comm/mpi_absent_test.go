//go:build !mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/mpi"
)

// A build without MPI does not run as several programs where mpirun has started several ranks of one.
func TestMPILauncherWithoutMPI(t *testing.T) {
	t.Setenv("PMI_RANK", "1")
	t.Setenv("PMI_SIZE", "2")
	err := Main(t.Context(), Config{}, func(*Comm) error { panic("it runs") })
	require.ErrorIs(t, err, mpi.ErrAbsent)
	require.ErrorContains(t, err, "as rank 1 of several")
	_, _, _, err = Launched()
	require.ErrorIs(t, err, mpi.ErrAbsent)

	t.Setenv(mpi.EnvUse, "0")
	ran := 0
	require.NoError(t, Main(t.Context(), Config{}, func(*Comm) error { ran++; return nil }))
	require.Equal(t, 1, ran)

	t.Setenv(mpi.EnvUse, "perhaps")
	require.ErrorIs(t, Main(t.Context(), Config{}, nil), ErrConfig)

	t.Setenv(mpi.EnvUse, "")
	t.Setenv("PMI_SIZE", "1")
	t.Setenv("PMI_RANK", "0")
	require.NoError(t, Main(t.Context(), Config{Ranks: 2}, func(*Comm) error { return nil }), "one process alone has its ranks in itself")
}

// Where MPI cannot give others what a rank says, that is the error, unless the rank has one of its own.
func TestExchangeThatMPIRefuses(t *testing.T) {
	p := &mpi.Process{Rank: 1, Size: 2}
	_, err := shareMPI(p, []byte("x"), nil)
	require.ErrorIs(t, err, mpi.ErrAbsent)
	_, err = shareMPI(p, nil, errTest)
	require.EqualError(t, err, "rank 1 of 2: test")
	require.ErrorIs(t, err, errTest)
	ep, _, err := connectMPI(t.Context(), &Config{}, p, nil, [][]byte{[]byte("a"), []byte("a")})
	require.ErrorIs(t, err, mpi.ErrAbsent)
	require.Nil(t, ep)
	require.ErrorIs(t, runMPI(t.Context(), Config{}, p, nil), mpi.ErrAbsent)
}
