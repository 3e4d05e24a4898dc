//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/mpi"
	"weft/internal/fabric/mpi/mpitest"
	"weft/internal/leaktest"
)

// Tests of this package also run as jobs of mpirun: each process runs the same tests in the same
// order, and is one of the ranks of those runs that have as many. Only tests whose ranks need no
// common memory can do that.
const (
	envMPIJob   = "WEFT_TEST_MPI_JOB"
	envMPIOdd   = "WEFT_TEST_MPI_ODD" // a setting that only rank 1 has
	mpiJobRanks = 4
	mpiJobTests = "^(TestCollectives|TestCollectivesThatDisagree|TestAgreementsAgainstCollectives|TestUserOperatorInRankOrder|TestSmallPartsInEveryLayout|TestManyCollectivesAtOnce|TestSplit|TestJobProgram)$"
)

var mpiJob *mpi.Process

func TestMain(m *testing.M) {
	switch os.Getenv(envMPIJob) {
	case "":
		os.Exit(leaktest.Main(m))
	case "main":
		if err := mpiMain(); err != nil {
			println(err.Error())
			os.Exit(3)
		}
		os.Exit(0)
	}
	if os.Getenv(envMPIJob) == "deadlock" {
		err := Main(context.Background(), Config{}, func(c *Comm) error {
			_, err := c.Recv(Of(make([]int, 1)), 1-c.Rank(), 7)
			return err
		})
		fmt.Printf("a deadlock: %v, %v\n", errors.Is(err, ErrDeadlock), err)
		os.Exit(0)
	}
	l, err := mpi.Detect()
	if err == nil {
		mpiJob, err = mpi.Start(l)
	}
	if err != nil {
		println(err.Error())
		os.Exit(3)
	}
	clear(runners)
	runners["mpi"], kinds["mpi"] = runMPIJob, "mpi"
	status := leaktest.Main(m)
	if status == 0 && mpiJob.Finalize() != nil {
		status = 4
	}
	os.Exit(status)
}

// runMPIJob is Run for the first ranks of a job.
func runMPIJob(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	n, err := cfg.validate()
	if err != nil {
		return runError(err)
	}
	if mpiJob.Rank < min(n, mpiJob.Size) && n <= mpiJob.Size {
		ranks := make([]int, n)
		for r := range ranks {
			ranks[r] = r
		}
		ep, err := mpiJob.Open(ranks)
		if err != nil {
			return err
		}
		if err := newWorld(ctx, cfg, []fabric.Endpoint{ep}).run(ctx, body); err != nil {
			return err
		}
	}
	_, err = mpiJob.Exchange(nil) // all have finished
	return err
}

func TestOverMPI(t *testing.T) {
	if mpiJob != nil {
		t.Skip("this is the job")
	}
	out, err := mpitest.Run(t, mpi.Version(), mpiJobRanks, []string{os.Args[0], "-test.run=" + mpiJobTests, "-test.v", "-test.failfast", "-test.timeout=90s"}, envMPIJob+"=1")
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "--- PASS: TestCollectives")
}

// mpiMain is a program that mpirun has started. Rank 1 may have another setting than the others.
func mpiMain() error {
	rank, _, _, err := Launched()
	if err != nil {
		return err
	}
	if name, value, ok := strings.Cut(os.Getenv(envMPIOdd), "="); ok && rank == 1 {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	ctx, before := context.Background(), runtime.GOMAXPROCS(0)
	return Main(ctx, Config{}, func(c *Comm) error {
		if err := c.Barrier(); err != nil {
			return err
		}
		fmt.Printf("%d to spare, %v\n", runtime.GOMAXPROCS(0)-before, Main(ctx, Config{}, nil))
		return nil
	})
}

// The environment of a rank works under mpirun too, and a second Main at the same time is refused.
func TestMainUnderMPIRun(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	out, err := mpitest.Run(t, mpi.Version(), 2, []string{os.Args[0]}, envMPIJob+"=main", EnvSpare+"=1")
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2, strings.Count(out, "1 to spare, comm: run: bad configuration: Main is called while it runs in this process"), "%s", out)
}

// Ranks under mpirun find a deadlock by themselves, over MPI and over shared memory.
func TestDeadlockUnderMPIRun(t *testing.T) {
	for _, fabrics := range []string{"mpi", "shm"} {
		out, err := mpitest.Run(t, mpi.Version(), 2, []string{os.Args[0]}, envMPIJob+"=deadlock", env.Fabrics.Name+"="+fabrics)
		require.NoError(t, err, "%s", out)
		require.Equal(t, 2, strings.Count(out, "a deadlock: true, "), "%s", out)
		require.Contains(t, out, "rank 0 waits in Recv at ")
		require.Contains(t, out, "for: Recv from rank 0, tag 7, at rank 1")
	}
}

// A setting that is wrong at one rank only ends the job with that reason: no rank waits for the
// others.
func TestOddRankUnderMPIRun(t *testing.T) {
	start := time.Now()
	out, err := mpitest.Run(t, mpi.Version(), 2, []string{os.Args[0]}, envMPIJob+"=main")
	require.NoError(t, err, "%s", out)
	usual, took := time.Since(start), time.Hour
	for name, wrong := range map[string]string{EnvSpare: "yes", env.MPISleep.Name: "5h", "PSP_TCP": "often", "PSP_RETRY": "-1", "PSP_SMP_NODE_ID": "here", EnvCollectives: "magic"} {
		start = time.Now()
		out, err := mpitest.Run(t, mpi.Version(), 2, []string{os.Args[0]}, envMPIJob+"=main", envMPIOdd+"="+name+"="+wrong)
		require.Error(t, err, "%s", out)
		require.Contains(t, out, name)
		require.Contains(t, out, wrong)
		// Both name the rank with the mistake, unless the launcher ends one of them first.
		require.Equal(t, strings.Count(out, "comm: "), strings.Count(out, "comm: run: rank 1 of 2: "), out)
		took = min(took, time.Since(start))
	}
	t.Log(usual, took)
	require.Less(t, took, usual+mpi.Linger/2, "a job with a mistake ends as soon as another one")
}

// A misspelt name that only one rank has is reported as well; one that all have, once.
func TestUnknownVariablesUnderMPIRun(t *testing.T) {
	out, err := mpitest.Run(t, mpi.Version(), 2, []string{os.Args[0]}, envMPIJob+"=main", envMPIOdd+"=WEFT_WROKERS=3", "WEFT_WINDWO=9")
	require.NoError(t, err, "%s", out)
	require.Equal(t, 1, strings.Count(out, "weft: environment variable WEFT_WROKERS: no such variable; did you mean WEFT_WORKERS? (at rank 1)\n"), out)
	require.Equal(t, 1, strings.Count(out, "WEFT_WINDWO"), out)
	require.Equal(t, 2, strings.Count(out, "weft: environment variable"), out)
}

// The large messages of this test go from memory to memory by MPI, in both directions at once and
// from strided memory.
func TestJobProgram(t *testing.T) {
	if mpiJob == nil {
		t.Skip("TestOverMPI runs it")
	}
	for n := 2; n <= mpiJobRanks; n++ {
		run(t, n, func(c *Comm) error {
			right, left := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			for _, size := range []int{0, 1, 100, 1023, 1024, 1025, 8192, 100_000, 1 << 20} {
				out, in := make([]int64, size), make([]int64, size)
				for i := range out {
					out[i] = int64(c.Rank()*size + i)
				}
				for range 5 {
					clear(in)
					r, s := c.Irecv(Of(in), left, size), c.Issend(Of(out), right, size)
					if err := WaitAll(c.Context(), r, s); err != nil {
						return err
					}
					for i := range in {
						if in[i] != int64(left*size+i) {
							return expect("an element", int64(left*size+i), in[i])
						}
					}
				}
			}
			const rows, cols = 512, 300
			m, halo := make([]float64, rows*cols), make([]float64, rows*cols)
			for i := range m {
				m[i] = float64(c.Rank()*len(m) + i)
			}
			for range 5 {
				if _, err := c.Sendrecv(Vector(m, rows, cols/2, cols), right, 7, Vector(halo, rows, cols/2, cols), left, 7); err != nil {
					return err
				}
			}
			for i := range halo {
				want := 0.0
				if i%cols < cols/2 {
					want = float64(left*len(m) + i)
				}
				if err := expect("a strided element", want, halo[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// The library that carries messages is named, with its version.
func TestLibraryIsNamedOverMPI(t *testing.T) {
	for _, f := range Fabrics() {
		require.Equal(t, f.Name == "mpi", f.Library != "", f.Name)
	}
}
