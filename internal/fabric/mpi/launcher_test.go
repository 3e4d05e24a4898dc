// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"testing"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		name string
		vars map[string]string
		want *Launched
		err  string
	}{
		{"no launcher", nil, nil, ""},
		{"Open MPI", map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "1"}, &Launched{By: env.Launchers[1].By, Rank: 1, Size: 4}, ""},
		{"MPICH", map[string]string{"PMI_RANK": "0", "PMI_SIZE": "2"}, &Launched{By: env.Launchers[2].By, Rank: 0, Size: 2}, ""},
		{"srun", map[string]string{"PMIX_RANK": "3", "SLURM_STEP_NUM_TASKS": "8"}, &Launched{By: env.Launchers[3].By, Rank: 3, Size: 8}, ""},
		{"PMIx without a size", map[string]string{"PMIX_RANK": "3"}, &Launched{By: env.Launchers[3].By, Rank: 3, Size: -1}, ""},
		{"no numbers", map[string]string{"PMI_RANK": "x", "PMI_SIZE": "-2"}, &Launched{By: env.Launchers[2].By, Rank: -1, Size: -1}, ""},
		{"switched off", map[string]string{env.UseMPI.Name: "0", "PMI_RANK": "0", "PMI_SIZE": "2"}, nil, ""},
		{"switched on", map[string]string{env.UseMPI.Name: "1"}, &Launched{Rank: -1, Size: -1}, ""},
		{"srun without PMI", map[string]string{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2"}, nil, "srun has started 4 of this program"},
		{"one task of srun", map[string]string{"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, nil, ""},
		{"a batch script", map[string]string{"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, nil, ""},
		{"srun, each by itself", map[string]string{"SLURM_STEP_NUM_TASKS": "4", env.UseMPI.Name: "0"}, nil, ""},
		{"srun, and the library knows", map[string]string{"SLURM_STEP_NUM_TASKS": "4", env.UseMPI.Name: "1"}, &Launched{Rank: -1, Size: -1}, ""},
		{"bad", map[string]string{env.UseMPI.Name: "yes"}, nil, `WEFT_MPI="yes"; legal: 0, 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.vars {
				t.Setenv(name, value)
			}
			l, err := Detect()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, l)
		})
	}
}

func TestAgree(t *testing.T) {
	l := &Launched{By: "mpirun", Rank: 1, Size: 2}
	require.NoError(t, l.agree("lib", 1, 2))
	require.ErrorContains(t, l.agree("lib", 0, 1), "mpirun has started this process as rank 1 of 2, but the program's MPI library (lib) takes it for rank 0 of 1")
	require.NoError(t, (&Launched{Rank: -1, Size: -1}).agree("lib", 0, 1))
	require.Error(t, (&Launched{Rank: 3, Size: -1}).agree("lib", 0, 1))
}

func TestNeeded(t *testing.T) {
	if Built {
		require.NoError(t, (&Launched{By: "mpirun", Rank: 1, Size: 2}).Needed())
		return
	}
	require.NoError(t, (&Launched{By: "mpirun", Rank: 0, Size: 1}).Needed())
	require.ErrorContains(t, (&Launched{By: "mpirun", Rank: 0, Size: 2}).Needed(), "mpirun has started this process as rank 0 of several, but this program was built without MPI")
	require.ErrorIs(t, (&Launched{By: "srun", Rank: 1, Size: -1}).Needed(), ErrAbsent)
	require.ErrorIs(t, (&Launched{Rank: -1, Size: -1}).Needed(), ErrAbsent)
}

// In a build without MPI, everything that needs MPI returns ErrAbsent.
func TestAbsent(t *testing.T) {
	if Built {
		t.Skip("this build has MPI")
	}
	_, err := Start(nil)
	require.ErrorIs(t, err, ErrAbsent)
	_, err = Sketch()
	require.ErrorIs(t, err, ErrAbsent)
	require.Empty(t, Version())
}
