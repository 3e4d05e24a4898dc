// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/boot"
	"weft/internal/fabric"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/shm"
	"weft/internal/fabric/tcp"
)

// heldRunners are runners whose fabrics have no goroutine of their own that reads what comes, until
// hold is closed.
func heldRunners(t *testing.T) map[string]func(cfg Config, hold chan struct{}, body func(c *Comm) error) error {
	all := map[string]func(cfg Config, hold chan struct{}, body func(c *Comm) error) error{}
	for _, how := range []string{"together", "apart"} {
		all[how] = func(cfg Config, _ chan struct{}, body func(c *Comm) error) error {
			return runners[how](context.Background(), cfg, body)
		}
	}
	if runtime.GOOS != "linux" {
		return all // other systems have a reader for each connection
	}
	over := func(open func(n, r int) fabric.Endpoint) func(Config, []fabric.Endpoint, func(c *Comm) error) error {
		return func(cfg Config, eps []fabric.Endpoint, body func(c *Comm) error) error {
			for r := range eps {
				eps[r] = open(len(eps), r)
			}
			return runOver(context.Background(), cfg, eps, body)
		}
	}
	for name, near := range map[string]func(a, b int) bool{
		"shm":      func(int, int) bool { return true },
		"tcp":      func(int, int) bool { return false },
		"shm, tcp": func(a, b int) bool { return a == b || a < 2 && b < 2 },
	} {
		all[name] = func(cfg Config, hold chan struct{}, body func(c *Comm) error) error {
			cfg.hold = hold
			n, err := cfg.validate()
			require.NoError(t, err)
			nears, fars := make([]*shm.Endpoint, n), make([]*tcp.Endpoint, n)
			for r := range n {
				var err error
				nears[r], err = shm.New(shm.Config{Rank: r, Size: n, Lookup: func(peer int) (string, error) { return nears[peer].Addr(), nil }})
				require.NoError(t, err)
				fars[r], err = tcp.New(tcp.Config{Rank: r, Size: n, Secret: make([]byte, 32),
					Lookup: func(_ context.Context, peer int) (string, error) { return fars[peer].Addr(), nil }})
				require.NoError(t, err)
			}
			return over(func(n, r int) fabric.Endpoint {
				peers := make([]fabric.Endpoint, n)
				for d := range peers {
					if peers[d] = fars[r]; near(r, d) {
						peers[d] = nears[r]
					}
				}
				return mux.New(r, peers, nil)
			})(cfg, make([]fabric.Endpoint, n), body)
		}
	}
	return all
}

// Calls that do not wait make progress by themselves: a loop around any of them ends, whatever the
// fabric, though no other goroutine reads what comes.
func TestCallsThatDoNotWaitMakeProgress(t *testing.T) {
	const n = 3
	loop := func(what string, done func() (bool, error)) error {
		for deadline := time.Now().Add(time.Minute); ; {
			switch ok, err := done(); {
			case ok || err != nil:
				return err
			case time.Now().After(deadline):
				return fmt.Errorf("%s makes no progress", what)
			}
		}
	}
	byTest := func(what string, rs ...*Request) error {
		for _, r := range rs {
			if err := loop(what, func() (bool, error) { ok, _, err := r.Test(); return ok, err }); err != nil {
				return err
			}
		}
		return nil
	}
	// Each makes one step with the neighbours; a value of k must arrive.
	calls := map[string]func(c *Comm, left, right, k int) (got int, err error){
		"Test": func(c *Comm, left, right, k int) (int, error) {
			in := []int{0}
			r := c.Irecv(Of(in), left, 1)
			err := byTest("Test", c.Isend(Of([]int{k}), right, 1), r)
			return in[0], err
		},
		"Test of a large message": func(c *Comm, left, right, k int) (int, error) {
			in, out := make([]int, 50_000), make([]int, 50_000)
			out[len(out)-1] = k
			r := c.Irecv(Of(in), left, 2)
			err := byTest("Test", c.Isend(Of(out), right, 2), r)
			return in[len(in)-1], err
		},
		"Test of a synchronous message": func(c *Comm, left, right, k int) (int, error) {
			in := []int{0}
			r := c.Irecv(Of(in), left, 3)
			err := byTest("Test", c.Issend(Of([]int{k}), right, 3), r)
			return in[0], err
		},
		"Done": func(c *Comm, left, right, k int) (int, error) {
			in := []int{0}
			r := c.Irecv(Of(in), left, 4)
			if err := c.Send(Of([]int{k}), right, 4); err != nil {
				return 0, err
			}
			err := loop("Done", func() (bool, error) { return r.Done(), nil })
			return in[0], err
		},
		"Iprobe": func(c *Comm, left, right, k int) (int, error) {
			if err := c.Send(Of([]int{k}), right, 5); err != nil {
				return 0, err
			}
			if err := loop("Iprobe", func() (bool, error) { ok, _, err := c.Iprobe(AnySource, 5); return ok, err }); err != nil {
				return 0, err
			}
			in := []int{0}
			_, err := c.Recv(Of(in), left, 5) // the message is here
			return in[0], err
		},
		"Test of collectives": func(c *Comm, left, right, k int) (int, error) {
			in, out := make([]int, 20_000), make([]int, 20_000)
			in[len(in)-1] = k
			err := byTest("Test", c.Ibarrier(), c.Iallreduce(Of(in), Of(out), Max), c.Ibarrier())
			return out[len(out)-1], err
		},
		"Test of a request of one's own": func(c *Comm, left, right, k int) (int, error) {
			in := []int{0}
			own, complete := NewRequest()
			c.Irecv(Of(in), left, 6).OnDone(complete)
			if err := c.Send(Of([]int{k}), right, 6); err != nil {
				return 0, err
			}
			// The request is tied to no rank: Test may poll for another rank of this process.
			err := loop("Test", func() (bool, error) { c.Iprobe(left, 7); ok, _, err := own.Test(); return ok, err })
			return in[0], err
		},
	}
	for how, run := range heldRunners(t) {
		for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
			for what, call := range calls {
				t.Run(fmt.Sprintf("%s, %s, %d processors", how, what, procs), func(t *testing.T) {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
					hold, left := make(chan struct{}), atomic.Int32{}
					left.Store(n)
					require.NoError(t, run(Config{Ranks: n}, hold, func(c *Comm) (err error) {
						defer func() {
							if left.Add(-1) == 0 || err != nil && left.Swap(-n) >= 0 {
								close(hold)
							}
						}()
						for k := range 5 {
							got, err := call(c, (c.Rank()+n-1)%n, (c.Rank()+1)%n, k)
							if err == nil {
								err = expect("what has arrived", k, got)
							}
							if err != nil {
								return err
							}
						}
						return nil
					}))
				})
			}
		}
	}
}

// A loop around Test on one processor lets the goroutine run that it waits for.
func TestLoopAroundTestYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, of := range map[string]func(c *Comm) func() bool{
		"a receive": func(c *Comm) func() bool { return c.Irecv(Of([]int{0}), 0, 1).Done },
		"one's own": func(*Comm) func() bool { r, _ := NewRequest(); return r.Done },
		"a probe":   func(c *Comm) func() bool { return func() bool { ok, _, _ := c.Iprobe(0, 1); return ok } },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, Run(t.Context(), Config{Ranks: 1}, func(c *Comm) error {
				var ran atomic.Bool
				poll, tries := of(c), 0
				go ran.Store(true)
				for ; !ran.Load(); tries++ {
					_ = poll()
				}
				// Go's runtime would take the processor away after ten milliseconds, which are a
				// million tries.
				return expect("more than 10000 tries", false, tries > 10000)
			}))
		})
	}
}

// How many ranks of a node share how many processors decides how a rank's engine yields.
func TestPace(t *testing.T) {
	w, _, _ := idle(t, 4, Config{})
	for _, row := range []struct {
		near          boot.Near
		crowded, full bool
	}{
		{boot.Near{Ranks: 1, Processors: 1}, false, true},
		{boot.Near{Ranks: 1, Processors: 2}, false, false},
		{boot.Near{Ranks: 2, Processors: 2}, false, true},
		{boot.Near{Ranks: 2, Processors: 3}, false, true},
		{boot.Near{Ranks: 2, Processors: 4}, false, false},
		{boot.Near{Ranks: 3, Processors: 2}, true, true},
		// no launcher: all ranks, and this machine
		{boot.Near{}, 4 > runtime.NumCPU(), 8 > runtime.NumCPU()},
	} {
		w.cfg.node = row.near
		pace := w.pace(2)
		require.Equal(t, []any{2, row.crowded, row.full}, []any{pace.Ranks, pace.Crowded, pace.Full}, "%+v", row.near)
	}
}
