//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/mpi/mpitest"
	"weft/nam"
)

// Every variant under mpirun, over MPI alone and over the chosen fabrics: the result equals the
// sequential sweep, all snapshots are in the store, and each message is printed once.
func TestUnderMPIRun(t *testing.T) {
	for _, fabric := range []string{"mpi", "shm,mpi"} {
		for _, variant := range conf.Variants {
			t.Run(variant+" over "+fabric, func(t *testing.T) {
				const ranks = 2
				newTestDir(t)
				out, err := mpitest.Run(t, mpi.Version(), ranks, []string{os.Args[0]}, "WEFT_FABRIC="+fabric,
					childEnv+"=-variant "+variant+" -r 96 -c 80 -R 16 -C 20 -t 30 -nam-freq 10 -window w -check")
				require.NoError(t, err, "%s", out)
				require.Contains(t, out, fmt.Sprintf(", ranks, %d,", ranks))
				require.Equal(t, 1, strings.Count(out, "check passed"), "%s", out)
				store, err := nam.Open("", nam.Config{})
				require.NoError(t, err)
				defer func() { require.NoError(t, store.Close()) }()
				require.Equal(t, 4, requireSnapshots(t, store, "w", 10))
			})
		}
	}
}
