// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && !mpi

package comm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/launch/job"
	"weft/internal/waits"
)

func init() { roles["late"] = lateRole }

// lateVariable names the one of lateEnds by which the run of a started rank ends.
const lateVariable = "COMM_TEST_LATE"

// lateWaits are the ways to wait for rank 0, which does nothing: of ranks 1 and 2, or of rank 1
// only where there is a root. Some can be ended by a context of their own.
func lateWaits() map[string]func(ctx context.Context, c *Comm) error {
	all := map[string]func(ctx context.Context, c *Comm) error{
		"own wait":    func(ctx context.Context, c *Comm) error { _, err := c.Irecv(Buffer{}, 0, 9).Wait(ctx); return err },
		"own barrier": func(ctx context.Context, c *Comm) error { _, err := c.Ibarrier().Wait(ctx); return err },
		"own wait all": func(ctx context.Context, c *Comm) error {
			return WaitAll(ctx, c.Irecv(Buffer{}, 0, 9), c.Issend(Buffer{}, 0, 9))
		},
		"own wait any": func(ctx context.Context, c *Comm) error {
			_, _, err := WaitAny(ctx, c.Irecv(Buffer{}, 0, 9), c.Issend(Buffer{}, 0, 9))
			return err
		},
		"own agree":  func(ctx context.Context, c *Comm) error { _, err := c.Agree(ctx, 1); return err },
		"own shrink": func(ctx context.Context, c *Comm) error { _, err := c.Shrink(ctx); return err },
		"recv of 0":  func(_ context.Context, c *Comm) error { _, err := c.Recv(Of(make([]int, 1)), 0, 9); return err },
		"probe any":  func(_ context.Context, c *Comm) error { _, err := c.Probe(AnySource, AnyTag); return err },
	}
	for name, block := range blockers {
		all[name] = func(_ context.Context, c *Comm) error { return block(c) }
	}
	for _, n := range []int{1, 5000, 40_000} {
		for _, x := range calls() {
			switch kind, _, _ := strings.Cut(x.name, " "); {
			case strings.Contains(x.name, "root 1"): // rank 2 need not wait for rank 0
				all[fmt.Sprintf("root 1 in %s, %d", x.name, n)] = func(_ context.Context, c *Comm) error { return x.call(c, n) }
			case kind == "gather" || kind == "reduce": // its root is not here
			default:
				all[fmt.Sprintf("%s, %d", x.name, n)] = func(_ context.Context, c *Comm) error { return x.call(c, n) }
			}
		}
	}
	maps.DeleteFunc(all, func(name string, _ func(context.Context, *Comm) error) bool {
		return strings.HasPrefix(name, "root 1 in bcast") || strings.HasPrefix(name, "root 1 in scatter")
	})
	return all
}

// lateEnd is what rank 0 does when the others sleep, and how their waits must end.
type lateEnd struct {
	survive bool
	end     func(cancel func(error), c *Comm, all []*Comm) error
	is      error
	says    string
}

var lateEnds = map[string]lateEnd{
	"abort":   {end: func(_ func(error), c *Comm, _ []*Comm) error { c.Abort(errTest); return nil }, is: ErrAborted, says: "rank 0: test"},
	"error":   {end: func(func(error), *Comm, []*Comm) error { return errTest }, is: ErrAborted, says: "rank 0: test"},
	"context": {end: func(cancel func(error), c *Comm, _ []*Comm) error { cancel(errTest); <-c.Context().Done(); return nil }, is: ErrAborted, says: "test"},
	"deadline": {end: func(cancel func(error), c *Comm, _ []*Comm) error {
		cancel(context.DeadlineExceeded)
		<-c.Context().Done()
		return nil
	}, is: ErrAborted,
		says: context.DeadlineExceeded.Error()},
	"death": {survive: true, end: func(func(error), *Comm, []*Comm) error { return errTest }, is: ErrPeerLost, says: "rank 0 is lost: "},
	"kill": {survive: true, is: ErrPeerLost, says: "rank 0 is lost: ", end: func(func(error), *Comm, []*Comm) error {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}},
	"revoke": {is: ErrRevoked, says: "revoked", end: func(_ func(error), _ *Comm, all []*Comm) error {
		for _, c := range all {
			c.Revoke()
		}
		return nil
	}},
}

// late has ranks 1 and 2 wait in each way, each in a communicator of its own, and rank 0 end that
// some time after they have gone to sleep. Before that, those waits of rank 1 that have a context
// of their own end by it.
func late(c *Comm, how string, cancel func(error)) error {
	end, ways := lateEnds[how], lateWaits()
	type result struct {
		name string
		err  error
	}
	results := make(chan result, len(ways))
	ids := make(chan uint64, len(ways))
	open := map[string]bool{}
	mine, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	var all []*Comm
	for _, name := range sorted(ways) {
		switch {
		case end.is == ErrRevoked && (name == "own agree" || name == "own shrink"):
			// these waits go on
			continue
		case end.is != ErrAborted && name == "the context":
			continue
		}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		all = append(all, d)
		if c.Rank() == 0 || c.Rank() == 2 && strings.HasPrefix(name, "root 1") {
			continue
		}
		open[name] = true
		go func() {
			ids <- waits.ID()
			results <- result{name, ways[name](mine, d)}
		}()
	}
	if c.Rank() == 0 {
		for range c.Size() - 1 {
			if _, err := c.Recv(Buffer{}, AnySource, 1); err != nil {
				return err
			}
		}
		time.Sleep(300 * time.Millisecond)
		return end.end(cancel, c, all)
	}
	asleep := map[string]bool{}
	for range open {
		asleep[fmt.Sprintf("goroutine %d ", <-ids)] = true
	}
	for !allWait(asleep) {
		time.Sleep(50 * time.Millisecond)
	}
	collect := func(of func(name string) bool, right func(r result) error) error {
		limit := time.After(45 * time.Second)
		for left := maps.Clone(open); ; {
			maps.DeleteFunc(left, func(name string, _ bool) bool { return !open[name] || !of(name) })
			if len(left) == 0 {
				return nil
			}
			select {
			case r := <-results:
				delete(open, r.name)
				if err := right(r); err != nil {
					return fmt.Errorf("rank %d in %s: %w", c.Rank(), r.name, err)
				}
			case <-limit:
				return fmt.Errorf("rank %d waits for ever in %v", c.Rank(), sorted(left))
			}
		}
	}
	if ofItsOwn := func(name string) bool { return strings.HasPrefix(name, "own ") }; c.Rank() == 1 {
		// rank 2 sees the others end
		time.Sleep(300 * time.Millisecond)
		why := errors.New("my own end")
		stop(why)
		if err := collect(ofItsOwn, func(r result) error {
			if !ofItsOwn(r.name) || !errors.Is(r.err, why) {
				return fmt.Errorf("its context ends, not the run: %v", r.err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := c.Send(Buffer{}, 0, 1); err != nil {
		return err
	}
	return collect(func(string) bool { return true }, func(r result) error {
		switch {
		case end.survive && r.name == "own shrink": // Shrink works then
			return r.err
		case end.survive && r.name == "own agree": // Agree works then, except for the loss
			return expect("rank 0 is lost", true, errors.Is(r.err, ErrPeerLost) && strings.Contains(r.err.Error(), "rank 0"))
		case !errors.Is(r.err, end.is) || !strings.Contains(r.err.Error(), end.says):
			return fmt.Errorf("%v, want %v with %q", r.err, end.is, end.says)
		}
		var lost *LostError
		if end.is == ErrPeerLost && (!errors.As(r.err, &lost) || lost.Rank != 0) {
			return fmt.Errorf("it does not say which rank: %v", r.err)
		}
		return nil
	})
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// allWait reports whether each of the goroutines waits for others.
func allWait(heads map[string]bool) bool {
	buf := make([]byte, 8<<20)
	n := 0
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, state := range []string{"chan receive", "select", "sync.Cond.Wait", "sync.Mutex.Lock", "semacquire"} {
			head, rest, _ := strings.Cut(g, "[")
			if heads[head] && strings.HasPrefix(rest, state) {
				n++
			}
		}
	}
	return n == len(heads)
}

// lateRole is one rank of late.
func lateRole() error {
	how := os.Getenv(lateVariable)
	ctx, cancel := context.WithCancelCause(context.Background())
	return Main(ctx, Config{Survive: lateEnds[how].survive, DeadlockWarnings: -1}, func(c *Comm) error {
		err := late(c, how, cancel)
		if err == nil {
			fmt.Println("right")
		}
		return err
	})
}

// However a run, a rank, a communicator or a wait's own context ends, long after ranks have gone to
// sleep: each way to wait ends soon, with the cause, among goroutines and among processes.
func TestEndsThatComeLate(t *testing.T) {
	ways := maps.Clone(runners)
	ways["apart, tcp"] = runTCP
	var all sync.WaitGroup
	defer all.Wait()
	room := make(chan struct{}, 12) // they mostly sleep
	row := func(name string, f func(t *testing.T)) {
		all.Go(func() {
			room <- struct{}{}
			t.Run(name, f)
			<-room
		})
	}
	for how, end := range lateEnds {
		for _, fabric := range []string{"shm", "tcp"} {
			row(how+", processes, "+fabric, func(t *testing.T) {
				status, out, errOut := start(t, "late", 3, job.Spec{KeepGoing: true}, "WEFT_FABRIC="+fabric, lateVariable+"="+how)
				require.Equal(t, how == "revoke", status == 0, errOut)
				require.GreaterOrEqual(t, strings.Count(out, "right\n"), 2, errOut)
			})
		}
		for way, run := range ways {
			if how == "kill" || (how == "context" || how == "deadline") && way != "together" {
				// a run that its context ends dumps all goroutines of the process, and so those of
				// the other rows
				continue
			}
			row(how+", "+way, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				errs := make([]error, 3)
				_ = run(ctx, Config{Ranks: 3, Survive: end.survive, DeadlockWarnings: -1}, func(c *Comm) error {
					err := late(c, how, cancel)
					if c.Rank() != 0 {
						errs[c.Rank()] = err
					}
					return err
				})
				require.NoError(t, errors.Join(errs...))
			})
		}
	}
}
