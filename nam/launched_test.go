// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/launch/job"
	"weft/nam"
)

// envStep is the step at which a rank of a job kills itself: RANK:NAME#N, the N-th time that it
// reaches the step NAME. "?" prints the steps.
const envStep = "WEFT_TEST_NAM_STEP"

// stepper returns the function that is called at each step of the store's protocols.
func stepper() (func(string), bool) {
	at, ok := os.LookupEnv(envStep)
	if !ok {
		return nil, false
	}
	rank := os.Getenv("WEFT_RANK")
	var mu sync.Mutex
	seen := map[string]int{}
	return func(name string) {
		mu.Lock()
		defer mu.Unlock()
		seen[name]++
		step := fmt.Sprintf("%s:%s#%d", rank, name, seen[name])
		if at == "?" {
			fmt.Println(step)
		}
		if step == at {
			if me, err := os.FindProcess(os.Getpid()); err == nil {
				_ = me.Kill()
			}
			select {}
		}
	}, true
}

// rankOfAJob is the program of a rank in its own process: all collective calls, with its own Store
// of the directory.
func rankOfAJob(s *nam.Store) error {
	return comm.Main(context.Background(), comm.Config{}, func(c *comm.Comm) error {
		me, n := c.Rank(), c.Size()
		fill := func(w *nam.Win, v int64) error {
			data := make([]int64, 64)
			for i := range data {
				data[i] = v<<16 | int64(i)
			}
			err := w.Fence(0)
			for r := range n { // a stripe of each rank's region
				err = errors.Join(err, w.Put(comm.Of(data), r, me*64))
			}
			err = errors.Join(err, w.Accumulate(comm.Of([]int64{1}), 0, n*64, comm.Sum), w.Fence(0))
			return err
		}
		check := func(w *nam.Win, v int64) error {
			got := make([]int64, n*64+1)
			err := errors.Join(w.Fence(0), w.Get(comm.Of(got), (me+1)%n, 0), w.Fence(0))
			for i, g := range got[:n*64] {
				if g != v<<16|int64(i%64) {
					return errors.Join(err, fmt.Errorf("rank %d: element %d is %x", me, i, g))
				}
			}
			return err
		}
		size := (n*64 + 1) * 8
		for i, opt := range []nam.Option{nam.ManagedContiguous, nam.ManagedDistributed, nam.SyncEpoch} {
			w, err := s.Allocate(c, size, 8, nam.Persistent, nam.Name(fmt.Sprint("kept", i)), opt)
			if err != nil {
				return err
			}
			err = errors.Join(fill(w, int64(i+1)), expect(w.Epochs() >= 2, "a fence is complete and not counted: %d", w.Epochs()), check(w, int64(i+1)), w.Free())
			if err != nil {
				return err
			}
			a, err := s.Attach(c, map[bool]string{true: fmt.Sprint("kept", i)}[me == 0])
			if err != nil {
				return err
			}
			if err := errors.Join(check(a, int64(i+1)), a.Free()); err != nil {
				return err
			}
		}
		v, err := s.Allocate(c, size, 8) // volatile, with a random name
		if err != nil {
			return err
		}
		if err := errors.Join(fill(v, 9), v.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_persistent")),
			v.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_volatile")), v.Free()); err != nil {
			return err
		}
		// The error of one rank arrives at all ranks.
		_, err = s.Allocate(c, 8-16*(me/(n-1)), 8)
		_, err2 := s.Attach(c, "nothing")
		_, err3 := s.Allocate(c, 8, 8, nam.Name("kept0"))
		_, err4 := s.Allocate(c, 8, 8, nam.Name(fmt.Sprint("name", me)))
		return errors.Join(wants(err, nam.ErrSize), wants(err2, nam.ErrName), wants(err3, nam.ErrExist), wants(err4, nam.ErrInfo))
	})
}

// openInTurn opens a damaged store on the last rank, and then on rank 0.
func openInTurn(dir string) error {
	return comm.Main(context.Background(), comm.Config{}, func(c *comm.Comm) error {
		for _, r := range []int{c.Size() - 1, 0} {
			if r == c.Rank() {
				s, err := nam.Open(dir, nam.Config{})
				if err != nil {
					return err
				}
				if err := s.Close(); err != nil {
					return err
				}
			}
			if err := c.Barrier(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Of the ranks of a job, the rank that repairs something reports it, and rank 0 reports what all
// ranks find.
func TestOneRankReports(t *testing.T) {
	dir, empty := shortDir(t), shortDir(t)
	for _, d := range []string{dir, empty} {
		s, err := nam.Open(d, nam.Config{})
		require.NoError(t, err)
		if d == dir {
			run(t, 1, func(c *comm.Comm) error {
				w, err := s.Allocate(c, 64, 8, nam.Persistent)
				return errors.Join(err, w.Free())
			})
		}
		require.NoError(t, s.Close())
	}
	meta, err := os.ReadFile(filepath.Join(empty, "meta.db"))
	require.NoError(t, err)
	meta[os.Getpagesize()+40] ^= 1 // one of its two meta pages
	// The database is older than the window. The window's header is damaged too, so it is not
	// brought back.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.db"), meta, 0o600))
	segments, err := filepath.Glob(filepath.Join(dir, "alloc", "*.seg"))
	require.NoError(t, err)
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("damaged"), 0)
	require.NoError(t, errors.Join(err, f.Close()))
	var out bytes.Buffer
	status, err := job.Run(job.Spec{Stdout: &out, Stderr: &out, Timeout: time.Minute, Grace: 10 * time.Second,
		Parts: []job.Part{{Ranks: 3, Program: os.Args[0], Env: []string{envRole + "=open in turn", envDir + "=" + dir}}}})
	require.NoError(t, err)
	require.Zero(t, status, out.String())
	require.Equal(t, 1, strings.Count(out.String(), "one of its two meta pages is damaged and is written again"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "nam: 1 window in "+dir+" without a database entry: set aside"), out.String())
	require.Equal(t, 2, strings.Count(out.String(), "nam: "), out.String())
}

func runJob(t *testing.T, ranks int, dir, step string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status, err := job.Run(job.Spec{Stdout: &out, Stderr: &errs, Timeout: time.Minute, Grace: 10 * time.Second,
		Parts: []job.Part{{Ranks: ranks, Program: os.Args[0],
			Env: []string{envRole + "=job", envDir + "=" + dir, envStep + "=" + step, "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE")}}}})
	require.NoError(t, err)
	return status, out.String(), errs.String()
}

// shortDir returns a directory in memory, if there is such a file system: a killed process leaves
// the same there.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "weft-nam-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// Ranks in their own processes that open one directory make, use and free windows like ranks of one
// process.
func TestRanksAsProcesses(t *testing.T) {
	for _, ranks := range []int{2, 3} {
		dir := shortDir(t)
		status, _, stderr := runJob(t, ranks, dir, "")
		require.Zero(t, status, stderr)
		s, err := nam.Open(dir, nam.Config{})
		require.NoError(t, err)
		for i := range 3 {
			require.NoError(t, s.Remove(fmt.Sprint("kept", i)))
		}
		requireEmpty(t, s)
		require.NoError(t, s.Close())
	}
}

var everyStep = flag.Bool("every-step", false, "kill ranks at every time that they come to a step, not only at the first")

// A rank is killed at each step that it reaches, in turn; the other ranks end. Complete epochs are
// intact, incomplete windows are gone, and every name can be used.
func TestKillOneRankAtEveryStep(t *testing.T) {
	status, out, stderr := runJob(t, 2, shortDir(t), "?")
	require.Zero(t, status, stderr)
	steps := strings.Fields(out)
	slices.Sort(steps)
	steps = slices.Compact(steps)
	require.Greater(t, len(steps), 40)
	require.Contains(t, steps, "1:create:reserved#1", "a distributed window's second file is the other rank's")
	if !*everyStep {
		steps = slices.DeleteFunc(steps, func(s string) bool { return !strings.HasSuffix(s, "#1") })
	}
	killed := 0
	for _, step := range steps {
		dir := shortDir(t)
		status, _, stderr := runJob(t, 2, dir, step)
		if status != 0 {
			// Which rank is first at some steps is random: those of making the store, and of
			// cleaning up.
			require.Equal(t, 128+int(syscall.SIGKILL), status, "%s: %s", step, stderr)
			killed++
		}
		s, err := nam.Open(dir, nam.Config{})
		require.NoError(t, err, step)
		all, err := s.List()
		require.NoError(t, err, step)
		for _, a := range all {
			require.Equal(t, "ready", a.State, step)
			// A volatile window may have been persistent for a moment, between the calls of
			// SetInfo.
			if strings.HasPrefix(a.Name, "kept") {
				run(t, 1, func(c *comm.Comm) error { return readKept(s, c, a.Name) })
			} else {
				require.True(t, strings.Contains(step, "setinfo") || strings.Contains(step, "reclaim"), "%s left %s", step, a.Name)
			}
			require.NoError(t, s.Remove(a.Name), step)
		}
		requireEmpty(t, s)
		run(t, 2, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 64, 8, nam.Name("kept0"))
			if err != nil {
				return err
			}
			return w.Free()
		})
		require.NoError(t, s.Close())
		left, err := filepath.Glob(filepath.Join(dir, "alloc", "*"))
		require.NoError(t, err)
		require.Empty(t, left, step)
	}
	require.Greater(t, killed, len(steps)*3/4)
}

// readKept checks the data of the complete epochs of a window.
func readKept(s *nam.Store, c *comm.Comm, name string) error {
	w, err := s.Attach(c, name, nam.ReadOnly(true))
	if err != nil {
		return err
	}
	v := int64(name[len(name)-1]-'0') + 1
	complete := w.Epochs() >= 2
	for r := range w.RemoteSize() {
		got := make([]int64, 2*64)
		if err := errors.Join(w.Fence(0), w.Get(comm.Of(got), r, 0), w.Fence(0)); err != nil {
			return err
		}
		for i, g := range got {
			if complete && g != v<<16|int64(i%64) {
				return fmt.Errorf("%s: region %d element %d is %x", name, r, i, g)
			}
		}
	}
	return w.Free()
}
