//go:build !mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric/mpi"
)

// If mpirun has started several ranks of a program, a build without MPI refuses to run as several
// programs.
func TestMPILauncherWithoutMPI(t *testing.T) {
	t.Setenv("PMI_RANK", "1")
	t.Setenv("PMI_SIZE", "2")
	err := Main(t.Context(), Config{}, func(*Comm) error { panic("it runs") })
	require.ErrorIs(t, err, mpi.ErrAbsent)
	require.ErrorContains(t, err, "as rank 1 of several")
	_, _, _, err = Launched()
	require.ErrorIs(t, err, mpi.ErrAbsent)

	t.Setenv(env.UseMPI.Name, "0")
	ran := 0
	require.NoError(t, Main(t.Context(), Config{}, func(*Comm) error { ran++; return nil }))
	require.Equal(t, 1, ran)

	t.Setenv(env.UseMPI.Name, "perhaps")
	require.ErrorIs(t, Main(t.Context(), Config{}, nil), ErrConfig)

	t.Setenv(env.UseMPI.Name, "")
	t.Setenv("PMI_SIZE", "1")
	t.Setenv("PMI_RANK", "0")
	require.NoError(t, Main(t.Context(), Config{Ranks: 2}, func(*Comm) error { return nil }), "one process alone has its ranks in itself")
}
