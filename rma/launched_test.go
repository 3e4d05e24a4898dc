// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/launch/job"
	"weft/internal/leaktest"
	"weft/rma"
)

// The test binary is also the program whose ranks it starts.
const envRole = "WEFT_TEST_RMA_ROLE"

func TestMain(m *testing.M) {
	role, ok := os.LookupEnv(envRole)
	if !ok {
		os.Exit(leaktest.Main(m))
	}
	body := map[string]func(*comm.Comm) error{"exchange": exchange, "loss": surviveLoss, "late loss": dieLate, "rate": rate, "callbacks": callbacks}[role]
	if err := comm.Main(context.Background(), comm.Config{Survive: strings.HasSuffix(role, "loss")}, body); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runJob(t *testing.T, ranks int, role string, keepGoing bool, env ...string) (status int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	status, err := job.Run(job.Spec{Stderr: &errs, Timeout: time.Minute, KeepGoing: keepGoing, Parts: []job.Part{{Ranks: ranks, Program: os.Args[0],
		Env: append(env, envRole+"="+role, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))}}})
	require.NoError(t, err)
	return status, errs.String()
}

// exchange runs each operation with several sizes, in epochs that overlap.
func exchange(c *comm.Comm) error {
	me, n := c.Rank(), c.Size()
	const part = 40_000
	w, mine, err := rma.Allocate[int32](c, n*part)
	if err != nil {
		return err
	}
	right, left := (me+1)%n, (me+n-1)%n
	src, got := make([]int32, part), make([]int32, part)
	for e := range int32(20) {
		for i := range src {
			src[i] = e<<16 | int32(me<<12) | int32(i&0xfff)
		}
		opened := w.Ifence(0)
		for at, size := 0, 1; at < part; at, size = at+size, size*3 {
			size = min(size, part-at)
			err = errors.Join(err, w.Put(comm.Of(src[at:at+size]), right, me*part+at))
		}
		put := w.Ifence(0)
		err = errors.Join(err, w.Accumulate(comm.Of(src), right, me*part, comm.Sum))
		err = errors.Join(err, w.Fence(0), w.Get(comm.Of(got), right, me*part), w.Fence(0), comm.WaitAll(c.Context(), opened, put))
		if err != nil {
			return err
		}
		for i, v := range got {
			if v != 2*src[i] || mine[left*part+i] != 2*(e<<16|int32(left<<12)|int32(i&0xfff)) {
				return fmt.Errorf("rank %d epoch %d element %d: got %x, have %x", me, e, i, v, mine[left*part+i])
			}
		}
	}
	return w.Free()
}

// eachFabric calls f for each fabric between processes that this machine has, with the environment
// that selects the fabric.
func eachFabric(t *testing.T, f func(t *testing.T, env string)) {
	for _, fabric := range comm.Fabrics() {
		if fabric.Name == "inproc" || fabric.Problem != "" || fabric.Name == "mpi" {
			// mpi needs another launcher
			continue
		}
		t.Run(fabric.Name, func(t *testing.T) { f(t, "WEFT_FABRIC="+fabric.Name) })
	}
}

// Real processes, over each fabric of this machine.
func TestExchangeBetweenProcesses(t *testing.T) {
	eachFabric(t, func(t *testing.T, env string) {
		for _, ranks := range []int{1, 2, 3} {
			status, stderr := runJob(t, ranks, "exchange", false, env)
			require.Zero(t, status, stderr)
		}
	})
}

// callbacks puts while messages arrive. No callback may run inside Put, because a callback may take
// locks that the caller of Put holds.
func callbacks(c *comm.Comm) error {
	const n = 16_384 // bytes: a direct put
	w, _, err := rma.Allocate[byte](c, n)
	if err != nil {
		return err
	}
	other := 1 - c.Rank()
	src, in, out := make([]byte, n), make([]int, 1), make([]int, 1)
	var within atomic.Pointer[string]
	for i := 0; i < 500 && err == nil; i++ {
		r := c.Irecv(comm.Of(in), other, 0)
		r.OnDone(func(error) {
			if stack := string(debug.Stack()); strings.Contains(stack, "rma.(*Win).Put(") {
				within.Store(&stack)
			}
		})
		err = errors.Join(w.Fence(0), c.Send(comm.Of(out), other, 0), w.Put(comm.Of(src), other, 0))
		if err == nil {
			_, err = r.Wait(c.Context())
		}
	}
	if stack := within.Load(); err == nil && stack != nil {
		err = fmt.Errorf("a callback runs in Put: %s", *stack)
	}
	return errors.Join(err, w.Free())
}

func TestPutRunsNoCallbacks(t *testing.T) {
	eachFabric(t, func(t *testing.T, env string) {
		status, stderr := runJob(t, 2, "callbacks", false, env)
		require.Zero(t, status, stderr)
	})
}

// surviveLoss kills rank 1 while operations of all kinds are in progress. All later fences of the
// other ranks fail. Then the other ranks make a new window and use it.
func surviveLoss(c *comm.Comm) error {
	const n = 30_000
	me := c.Rank()
	// Each operation of each rank has its own part, because operations of one epoch may run at the
	// same time.
	w, _, err := rma.Allocate[int64](c, 10*n)
	if err != nil {
		return err
	}
	src, got := make([]int64, n), make([]int64, n)
	for e := 0; err == nil; e++ {
		if e > 100_000 {
			return errors.New("no rank has died")
		}
		if me == 1 && e == 5 {
			self, err := os.FindProcess(os.Getpid())
			return errors.Join(err, self.Kill())
		}
		to := (me + 1 + e%2) % c.Size()
		w.Ifence(0)
		w.Put(comm.Of(src), to, 3*me*n)
		w.Put(comm.Of(src[:100]), to, (3*me+1)*n)
		w.Get(comm.Of(got), to, 9*n)
		w.Accumulate(comm.Of(src), to, (3*me+2)*n, comm.Sum)
		err = w.Fence(0)
	}
	lost := func(err error) error { // found by this rank, or revoked by another one
		return expect(errors.Is(err, comm.ErrPeerLost) || errors.Is(err, comm.ErrRevoked), "got %v", err)
	}
	err = errors.Join(lost(err), lost(w.Fence(0)), lost(w.Free()))
	rest, serr := c.Shrink(c.Context())
	if err := errors.Join(err, serr); err != nil {
		return err
	}
	return errors.Join(expect(rest.Size() == c.Size()-1, "%d ranks are left", rest.Size()), exchange(rest))
}

func TestLostRankFailsTheFences(t *testing.T) {
	for range 3 {
		status, stderr := runJob(t, 3, "loss", true)
		require.Equal(t, 128+int(syscall.SIGKILL), status, stderr)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr) // the launcher's line
	}
}
