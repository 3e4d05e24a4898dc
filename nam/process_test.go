// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/leaktest"
	"weft/nam"
)

// The test binary runs itself as another program that uses the store.
const (
	envDir  = "WEFT_TEST_NAM_DIR"
	envRole = "WEFT_TEST_NAM_ROLE"
)

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(envRole)
	if !ok {
		os.Exit(leaktest.Main(m))
	}
	if err := child(role, os.Getenv(envDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(role, dir string) error {
	if role == "open in turn" {
		return openInTurn(dir)
	}
	cfg := nam.Config{}
	if step, ok := stepper(); ok {
		nam.SetStep(&cfg, step)
	}
	s, err := nam.Open(dir, cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch role {
	case "otheruser":
		return errors.Join(otherUser(s), s.Close())
	case "job":
		return errors.Join(rankOfAJob(s), s.Close())
	case "snapshots", "snapshots-epoch", "snapshots-distributed":
		opt := map[string]nam.Option{"snapshots": nam.ManagedContiguous, "snapshots-epoch": nam.SyncEpoch,
			"snapshots-distributed": nam.ManagedDistributed}[role]
		return comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error { return writeSnapshots(s, c, opt) })
	case "volatile":
		return comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 4096, 8, nam.Name("volatile"))
			if err != nil {
				return err
			}
			if c.Rank() == 0 {
				fmt.Println("ready")
			}
			defer w.Free()
			return hang()
		})
	case "adder":
		return comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			w, err := s.Attach(c, "sums")
			if err != nil {
				return err
			}
			return errors.Join(addOnes(w), w.Free())
		})
	}
	return fmt.Errorf("role %q", role)
}

// hang waits until the process is killed.
func hang() error {
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

const (
	snapshots     = 64
	snapshotElems = 4096 // of each rank
)

func snapshotValue(rank, k, i int) int64 { return int64(rank)<<40 | int64(k+1)<<20 | int64(i) }

// writeSnapshots is the snapshot loop of a simulation: fence, puts, fence for each snapshot, one
// slot after the other.
func writeSnapshots(s *nam.Store, c *comm.Comm, opt nam.Option) error {
	me := c.Rank()
	w, err := s.Allocate(c, snapshots*snapshotElems*8, 8, nam.Persistent, nam.Name("snapshots"), opt)
	if err != nil {
		return err
	}
	if me == 0 {
		fmt.Println("ready")
	}
	data := make([]int64, snapshotElems)
	for k := range snapshots {
		if err := w.Fence(0); err != nil {
			return err
		}
		for i := range data {
			data[i] = snapshotValue(me, k, i)
		}
		for b := range 4 { // in blocks, also into the neighbour's region
			lo, hi := b*snapshotElems/4, (b+1)*snapshotElems/4
			if err := w.Put(comm.Of(data[lo:hi]), me, k*snapshotElems+lo); err != nil {
				return err
			}
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		if n := w.Epochs(); n < uint64(2*k+2) {
			return fmt.Errorf("fence %d is complete and not counted: %d", 2*k+2, n)
		}
	}
	fmt.Println("all")
	return hang()
}

// otherUserModes are the modes of the windows that another user tries to attach to.
var otherUserModes = []nam.Mode{0o600, 0o604, 0o602, 0o640, 0o660, 0o606, 0o666, 0o444}

// otherUser makes the calls that the modes of another user's windows allow, and those that they
// forbid.
func otherUser(s *nam.Store) error {
	return comm.Run(context.Background(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		var all error
		for _, mode := range otherUserModes {
			name := fmt.Sprintf("m%o", mode)
			for _, readOnly := range []bool{true, false} {
				want := nam.Mode(6)
				if readOnly {
					want = 4
				}
				w, err := s.Attach(c, name, nam.ReadOnly(readOnly))
				if mode&want != want {
					all = errors.Join(all, wants(err, nam.ErrAccess))
					continue
				}
				if err != nil {
					all = errors.Join(all, fmt.Errorf("%s, read-only %v: %w", name, readOnly, err))
					continue
				}
				all = errors.Join(all, w.Fence(0), wants(w.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_volatile")), nam.ErrAccess), w.Free())
			}
			all = errors.Join(all, wants(s.Remove(name), nam.ErrAccess), wants(s.Accept(name), nam.ErrAccess))
			if _, err := s.Stat(name); err != nil {
				all = errors.Join(all, err)
			}
		}
		// The user's own windows: their modes bind it too.
		for _, mode := range []nam.Mode{0o400, 0o600, 0o266} {
			name := fmt.Sprintf("own%o", mode)
			w, err := s.Allocate(c, 8, 8, mode, nam.Name(name), nam.Persistent)
			if err != nil {
				return errors.Join(all, err)
			}
			all = errors.Join(all, w.Free())
			for want, readOnly := range map[nam.Mode]bool{0o400: true, 0o600: false} {
				w, err := s.Attach(c, name, nam.ReadOnly(readOnly))
				if mode&want != want {
					all = errors.Join(all, wants(err, nam.ErrAccess))
				} else if err != nil {
					all = errors.Join(all, err)
				} else {
					all = errors.Join(all, w.Free())
				}
			}
			all = errors.Join(all, s.Remove(name))
		}
		return all
	})
}

func startChild(t *testing.T, role, dir string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envDir+"="+dir)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	return cmd, &errOut
}

// startReady starts a child, and waits until it is at work. kill kills it.
func startReady(t *testing.T, role, dir string) (kill func()) {
	t.Helper()
	cmd, errOut := startChild(t, role, dir)
	stdin, err := cmd.StdinPipe() // held open: the child waits for it
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return func() {
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		stdin.Close()
		require.Empty(t, errOut.String())
	}
}

// A simulation dies at a random moment; another program finds every complete snapshot intact.
func TestKillLeavesCompleteSnapshots(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, role := range []string{"snapshots", "snapshots-distributed", "snapshots-epoch"} {
		for range 4 {
			dir := t.TempDir()
			kill := startReady(t, role, dir)
			// the moment of death is the input of this test
			time.Sleep(time.Duration(rng.IntN(20_000)) * time.Microsecond)
			kill()
			s, err := nam.Open(dir, nam.Config{})
			require.NoError(t, err)
			run(t, 1, func(c *comm.Comm) error {
				w, err := s.Attach(c, "snapshots", nam.ReadOnly(true))
				if err != nil {
					return err
				}
				complete := int(w.Epochs() / 2)
				got := make([]int64, snapshotElems)
				if err := w.Fence(0); err != nil {
					return err
				}
				for r := range w.RemoteSize() {
					for k := range complete {
						if err := w.Get(comm.Of(got), r, k*snapshotElems); err != nil {
							return err
						}
						for i, v := range got {
							if v != snapshotValue(r, k, i) {
								return fmt.Errorf("%s: rank %d snapshot %d of %d element %d: %x", role, r, k, complete, i, v)
							}
						}
					}
				}
				return w.Free()
			})
			require.NoError(t, s.Remove("snapshots"))
			requireEmpty(t, s)
			require.NoError(t, s.Close())
		}
	}
}

// A viewer may read while the simulation runs: the data of counted epochs is there.
func TestReadWhileAnotherProgramWrites(t *testing.T) {
	dir := t.TempDir()
	kill := startReady(t, "snapshots", dir)
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Attach(c, "snapshots")
		if err != nil {
			return err
		}
		got := make([]int64, snapshotElems)
		for seen := 0; seen < snapshots; {
			k := int(w.Epochs()/2) - 1
			if k < 0 {
				continue
			}
			seen = k + 1
			for r := range w.RemoteSize() {
				if err := errors.Join(w.Fence(0), w.Get(comm.Of(got), r, k*snapshotElems), w.Fence(0)); err != nil {
					return err
				}
				for i, v := range got {
					if v != snapshotValue(r, k, i) {
						return fmt.Errorf("rank %d snapshot %d element %d: %x", r, k, i, v)
					}
				}
			}
			// The two readers fence together, so they must agree on when to end.
			both := []int{0}
			if err := c.Allreduce(comm.Of([]int{seen}), comm.Of(both), comm.Min); err != nil {
				return err
			}
			seen = both[0]
		}
		return w.Free()
	})
	kill()
	require.NoError(t, s.Remove("snapshots"))
	requireEmpty(t, s)
	require.NoError(t, s.Close())
}

func TestVolatileOfADeadProgramIsReclaimed(t *testing.T) {
	dir := t.TempDir()
	kill := startReady(t, "volatile", dir)
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	_, err = s.Stat("volatile")
	require.NoError(t, err, "taken from a living program")
	require.NoError(t, s.Close())
	kill()
	s, err = nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	requireEmpty(t, s)
	require.NoError(t, s.Close())
}

const adds = 200

func addOnes(w *nam.Win) error {
	ones := []float64{1, 1, 1}
	err := w.Fence(0)
	for range adds {
		// at byte 3: not aligned
		err = errors.Join(err, w.Accumulate(comm.Of(ones), 0, 3, comm.Sum))
	}
	return errors.Join(err, w.Fence(0))
}

// Several programs, each with several ranks, add to the same elements at once.
func TestAccumulateAcrossProcesses(t *testing.T) {
	const programs = 3
	dir := t.TempDir()
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 1, nam.Name("sums"))
		if err != nil {
			return err
		}
		var cmds []*exec.Cmd
		for range programs {
			cmd, errOut := startChild(t, "adder", dir)
			cmd.Stderr = nil
			_ = errOut
			if err := cmd.Start(); err != nil {
				return err
			}
			cmds = append(cmds, cmd)
		}
		err = addOnes(w)
		for _, cmd := range cmds {
			err = errors.Join(err, cmd.Wait())
		}
		got := make([]float64, 3)
		err = errors.Join(err, w.Get(comm.Of(got), 0, 3), w.Fence(0))
		for _, v := range got {
			err = errors.Join(err, expect(v == (2*programs+1)*adds, "%v", got))
		}
		return errors.Join(err, w.Free())
	})
	requireEmpty(t, s)
	require.NoError(t, s.Close())
}

// Programs allocate, list and remove at once; nothing is left and no program sees a damaged store.
func TestManyStoresHammer(t *testing.T) {
	dir := t.TempDir()
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() {
			errs <- func() error {
				s, err := nam.Open(dir, nam.Config{})
				if err != nil {
					return err
				}
				for i := range 4 {
					err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
						w, err := s.Allocate(c, 1000, 8, nam.Structure(2+i%2))
						if err != nil {
							return err
						}
						err = errors.Join(w.Fence(0), w.Put(comm.Of([]int{1}), 1-c.Rank(), 0), w.Fence(0))
						_, lerr := s.List()
						return errors.Join(err, lerr, w.Free())
					})
					if err != nil {
						return err
					}
				}
				return s.Close()
			}()
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	requireEmpty(t, s)
	require.NoError(t, s.Close())
}
