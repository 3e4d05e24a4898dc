// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/shm"
	"weft/internal/fabric/tcp"
)

// runners are the ways to run ranks: in one process, and as if each were in a process of its own.
var runners = map[string]func(ctx context.Context, cfg Config, body func(c *Comm) error) error{"together": Run, "apart": runApart}

// kinds are the fabrics of these runners.
var kinds = map[string]string{"together": "inproc", "apart": "inproc"}

func init() {
	if ep, err := shm.New(shm.Config{Size: 1}); err == nil {
		_ = ep.Close()
		runners["apart, shm"], kinds["apart, shm"] = runShm, "shm"
	}
}

// runTCP is Run over TCP, with each rank as if in a process of its own.
func runTCP(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	n, err := cfg.validate()
	if err != nil {
		return err
	}
	eps, worlds := make([]*tcp.Endpoint, n), make([]*world, n)
	for r := range n {
		eps[r], err = tcp.New(tcp.Config{Rank: r, Size: n, Secret: make([]byte, 32), Lookup: func(_ context.Context, rank int) (string, error) {
			return eps[rank].Addr(), nil
		}})
		if err != nil {
			return err
		}
	}
	for r := range n {
		worlds[r] = newWorld(ctx, cfg, []fabric.Endpoint{eps[r]})
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r, w := range worlds {
		wg.Go(func() { errs[r] = w.run(ctx, body) })
	}
	wg.Wait()
	for r, err := range errs {
		if err != nil {
			return fmt.Errorf("rank %d: %w", r, err)
		}
	}
	return nil
}

// run runs a body on n ranks in each way, and requires success and that no goroutine is left.
func run(t testing.TB, n int, body func(c *Comm) error) {
	t.Helper()
	for how, run := range runners {
		require.NoError(t, run(context.Background(), Config{Ranks: n}, body), how)
		requireNoRankGoroutines(t)
	}
}

// runApart is Run for ranks that take themselves for processes without common memory. It returns
// the error of the rank that ended the run.
func runApart(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	return runIsolated(ctx, cfg, body, func(ep isolated) fabric.Endpoint { return ep })
}

// runIsolated is runApart over endpoints that the function over wraps.
func runIsolated(ctx context.Context, cfg Config, body func(c *Comm) error, over func(isolated) fabric.Endpoint) error {
	n, err := cfg.validate()
	if err != nil {
		return runError(err)
	}
	eps, err := inproc.New(n)
	if err != nil {
		return runError(err)
	}
	for r, ep := range eps {
		eps[r] = over(isolated{ep})
	}
	return runOver(ctx, cfg, eps, body)
}

// runShm is runApart over shared memory.
func runShm(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	n, err := cfg.validate()
	if err != nil {
		return runError(err)
	}
	eps, at := make([]fabric.Endpoint, n), make([]*shm.Endpoint, n)
	for r := range eps {
		at[r], err = shm.New(shm.Config{Rank: r, Size: n, Lookup: func(peer int) (string, error) { return at[peer].Addr(), nil }})
		if err != nil {
			return runError(err)
		}
		eps[r] = at[r]
	}
	return runOver(ctx, cfg, eps, body)
}

// runOver runs each rank in a world of its own.
func runOver(ctx context.Context, cfg Config, eps []fabric.Endpoint, body func(c *Comm) error) error {
	worlds := make([]*world, len(eps))
	for r, ep := range eps {
		worlds[r] = newWorld(ctx, cfg, []fabric.Endpoint{ep})
		if _, err := ep.Shared(r); err == nil {
			worlds[r].shareMemory = func(group []int32, n int) bool {
				for i := range n {
					for k := range i {
						a, b := i, k
						if group != nil {
							a, b = int(group[i]), int(group[k])
						}
						if eps[a].Caps(b).Kind != "shm" {
							return false
						}
					}
				}
				return true
			}
		}
	}
	errs := make([]error, len(eps))
	var wg sync.WaitGroup
	for r, w := range worlds {
		wg.Go(func() { errs[r] = w.run(ctx, body) })
	}
	wg.Wait()
	for r, err := range errs {
		var of *RankError
		if !errors.As(err, &of) || of.Rank == r {
			return err
		}
	}
	return errs[0]
}

// isolated hides that its peers are in this process.
type isolated struct{ fabric.Endpoint }

func (isolated) Local(int) fabric.Handler { return nil }

// runGrudging is runApart over a fabric that always writes a piece of a transfer when it must
// forget the transfer.
func runGrudging(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	return runIsolated(ctx, cfg, body, func(ep isolated) fabric.Endpoint {
		return &grudging{Endpoint: ep, done: map[uint64]func(error){}}
	})
}

// grudging is slow, and ends forgotten transfers by itself, later, as a fabric does that is writing
// a piece.
type grudging struct {
	fabric.Endpoint
	mu   sync.Mutex
	done map[uint64]func(error) // guarded by mu: by key
}

func (g *grudging) Expect(src int, key uint64, dst []byte, done func(error)) {
	g.mu.Lock()
	g.done[key] = done
	g.mu.Unlock()
	g.Endpoint.Expect(src, key, dst, done)
}

// Push is slow, so that transfers are under way for long.
func (g *grudging) Push(dst int, key uint64, data []byte, done func(error)) {
	time.AfterFunc(500*time.Microsecond, func() { g.Endpoint.Push(dst, key, data, done) })
}

func (g *grudging) Forget(src int, key uint64) bool {
	if g.Endpoint.Forget(src, key) {
		g.mu.Lock()
		defer g.mu.Unlock()
		done := g.done[key]
		time.AfterFunc(100*time.Microsecond, func() { done(fabric.ErrClosed) })
	}
	return false
}

// often is the period of deadlock detection in tests.
const often = 100 * time.Millisecond

// checkOften has runs check for deadlocks often, until the end of the test.
func checkOften(t *testing.T) {
	last := deadlockPeriod
	deadlockPeriod = often
	t.Cleanup(func() { deadlockPeriod = last })
}

// requireNoRankGoroutines fails if a goroutine of a run is alive. Goroutines of other tests do not
// disturb it. A goroutine that has announced its end may need a moment to be gone.
func requireNoRankGoroutines(t testing.TB) {
	t.Helper()
	left := ""
	for range 1000 {
		if left = rankGoroutine(); left == "" {
			return
		}
		runtime.Gosched()
	}
	require.Fail(t, "goroutine left behind", left)
}

func rankGoroutine() string {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "weft/comm.runRank") || strings.Contains(g, "weft/comm.(*world).run.func") {
			return g
		}
	}
	return ""
}

// expect returns an error if got is not want: for bodies, where require must not be used.
func expect[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func expectSlice[T comparable](what string, want, got []T) error {
	if len(want) != len(got) {
		return fmt.Errorf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Errorf("%s[%d] is %v, want %v", what, i, got[i], want[i])
		}
	}
	return nil
}

// writerFunc is a function as a writer.
type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}
