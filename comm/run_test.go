// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/launch"
)

func TestRun(t *testing.T) {
	var seen atomic.Int64
	run(t, 5, func(c *Comm) error {
		seen.Add(1 << (8 * c.Rank()))
		return expect("size", 5, c.Size())
	})
	require.Equal(t, int64(len(runners))*0x0101010101, seen.Load(), "each rank once per run")
}

func TestRanksOfTheEnvironment(t *testing.T) {
	ranks := func(cfg Config) int {
		n := 0
		require.NoError(t, Main(context.Background(), cfg, func(c *Comm) error {
			if c.Rank() == 0 {
				n = c.Size()
			}
			return nil
		}))
		return n
	}
	t.Setenv(EnvRanks, "")
	require.Equal(t, 1, ranks(Config{}))
	t.Setenv(EnvRanks, "3")
	require.Equal(t, 3, ranks(Config{}))
	require.Equal(t, 2, ranks(Config{Ranks: 2}))
	for _, bad := range []string{"0", "-1", "x", "2.5", "1048577", "1000000000000000"} {
		t.Setenv(EnvRanks, bad)
		err := Main(context.Background(), Config{}, nil)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, EnvRanks)
	}
	for _, bad := range []int{-1, 1<<20 + 1, math.MaxInt} {
		err := Run(context.Background(), Config{Ranks: bad}, func(*Comm) error { return nil })
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, strconv.Itoa(bad)+"; it must be 1 to 1048576")
	}
	require.ErrorIs(t, Run(context.Background(), Config{Ranks: 2}, nil), ErrConfig)
}

// blockers are the ways to wait for ever for a rank that never answers.
var blockers = map[string]func(c *Comm) error{
	"recv":      func(c *Comm) error { _, err := c.Recv(Of(make([]int, 1)), AnySource, 9); return err },
	"ssend":     func(c *Comm) error { return c.Ssend(Buffer{}, 0, 9) },
	"big send":  func(c *Comm) error { return c.Send(Of(make([]int, 1<<16)), 0, 9) },
	"sendrecv":  func(c *Comm) error { _, err := c.Sendrecv(Buffer{}, 0, 9, Buffer{}, 0, 10); return err },
	"probe":     func(c *Comm) error { _, err := c.Probe(0, AnyTag); return err },
	"barrier":   func(c *Comm) error { return c.Barrier() },
	"allreduce": func(c *Comm) error { return c.Allreduce(Of([]int{1}), Of([]int{1}), Sum) },
	"alltoall": func(c *Comm) error {
		return c.Alltoall(Of(make([]int, 1<<16*c.Size())), Of(make([]int, 1<<16*c.Size())))
	},
	"wait": func(c *Comm) error { _, err := c.Irecv(Buffer{}, 0, 9).Wait(context.Background()); return err },
	"wait with the run's context": func(c *Comm) error {
		_, err := c.Irecv(Buffer{}, 0, 9).Wait(c.Context())
		return err
	},
	"wait any": func(c *Comm) error {
		_, _, err := WaitAny(context.Background(), c.Irecv(Buffer{}, 0, 9), c.Issend(Buffer{}, 0, 9))
		return err
	},
	"callback": func(c *Comm) error {
		ch := make(chan error, 1)
		c.Irecv(Buffer{}, 0, 9).OnDone(func(err error) { ch <- err })
		return <-ch
	},
	"dup": func(c *Comm) error { _, err := c.Dup(); return err },
	"the context": func(c *Comm) error {
		<-c.Context().Done()
		return &Error{Op: "wait", Err: context.Cause(c.Context())}
	},
}

// endings are the ways in which rank 0 ends the run.
var endings = map[string]func(cancel func()) error{
	"error":  func(func()) error { return errTest },
	"panic":  func(func()) error { panic(errTest) },
	"goexit": func(func()) error { runtime.Goexit(); return nil },
	"cancel": func(cancel func()) error { cancel(); return nil },
}

// However a rank ends the run, and wherever the others wait, all of them return, with the cause.
func TestAbort(t *testing.T) {
	for how, end := range endings {
		for where, block := range blockers {
			for way, run := range runners {
				t.Run(how+" during "+where+", "+way, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					var errs [4]error
					err := run(ctx, Config{Ranks: 4}, func(c *Comm) error {
						if c.Rank() == 0 {
							return end(func() { cancel(errTest) })
						}
						errs[c.Rank()] = block(c)
						return errs[c.Rank()]
					})
					requireNoRankGoroutines(t)
					for _, e := range errs[1:] {
						require.ErrorIs(t, e, ErrAborted)
						var typed *Error
						require.ErrorAs(t, e, &typed)
						switch {
						case how == "goexit":
						case way != "together": // only the text arrives
							require.ErrorContains(t, e, errTest.Error(), "the cause")
						default:
							require.ErrorIs(t, e, errTest, "the cause")
						}
					}
					if how == "cancel" {
						require.ErrorIs(t, err, errTest)
						return
					}
					var of *RankError
					require.ErrorAs(t, err, &of)
					require.Equal(t, 0, of.Rank)
					switch how {
					case "error":
						require.ErrorIs(t, err, errTest)
					case "panic":
						require.ErrorIs(t, err, errTest)
						var p *PanicError
						require.ErrorAs(t, err, &p)
						require.True(t, strings.Contains(string(p.Stack), "run_test.go"), "the stack shows where")
					case "goexit":
						require.ErrorContains(t, err, "Goexit")
					}
				})
			}
		}
	}
}

// Operations that are pending at the end of a good run complete with ErrEnded, and so do later
// ones.
func TestEnd(t *testing.T) {
	var pending []*Request
	var kept *Comm
	require.NoError(t, Run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		if c.Rank() == 0 {
			kept = c
			pending = append(pending, c.Irecv(Buffer{}, 1, 1), c.Issend(Buffer{}, 1, 2))
		}
		return nil
	}))
	for _, r := range append(pending, kept.Irecv(Buffer{}, 0, 0), kept.Isend(Buffer{}, 0, 0), kept.Ibarrier()) {
		_, err := r.Wait(context.Background())
		require.ErrorIs(t, err, ErrAborted)
		require.ErrorIs(t, err, ErrEnded)
	}
	_, _, err := kept.Iprobe(AnySource, AnyTag)
	require.ErrorIs(t, err, ErrEnded)
	require.ErrorIs(t, context.Cause(kept.Context()), ErrEnded)
}

// A collective that is pending then is one that not all ranks have begun, whichever of them has.
func TestEndOfACollective(t *testing.T) {
	for r := range 3 {
		var pending *Request
		err := Run(context.Background(), Config{Ranks: 3}, func(c *Comm) error {
			if c.Rank() == r {
				pending = c.Ibarrier()
			}
			return nil
		})
		require.ErrorIs(t, err, ErrMismatch)
		_, err = pending.Wait(context.Background())
		require.ErrorIs(t, err, ErrMismatch)
	}
}

func TestRunUnderAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, Run(ctx, Config{Ranks: 2}, func(c *Comm) error { return errors.New("never called") }), context.Canceled)
}

func TestMismatchedCollectives(t *testing.T) {
	four, eight := func() Buffer { return Of(make([]int, 4)) }, func() Buffer { return Of(make([]int, 8)) }
	for name, x := range map[string]struct {
		one, other func(c *Comm) error
		says       string
	}{
		"kind":   {func(c *Comm) error { return c.Barrier() }, func(c *Comm) error { return c.Allreduce(four(), four(), Sum) }, "barrier"},
		"op":     {func(c *Comm) error { return c.Allreduce(four(), four(), Sum) }, func(c *Comm) error { return c.Allreduce(four(), four(), Max) }, "max"},
		"length": {func(c *Comm) error { return c.Allreduce(four(), four(), Sum) }, func(c *Comm) error { return c.Allreduce(eight(), eight(), Sum) }, "64 bytes"},
		"root":   {func(c *Comm) error { return c.Gather(four(), eight(), 0) }, func(c *Comm) error { return c.Scatter(eight(), four(), 1) }, "root 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
				if c.Rank() == 0 {
					return x.one(c)
				}
				return x.other(c)
			})
			require.ErrorIs(t, err, ErrMismatch)
			require.Regexp(t, "rank . (is in|sends)", fmt.Sprint(err))
			require.True(t, strings.Contains(err.Error(), x.says) || strings.Contains(err.Error(), "32 bytes"), err.Error())
		})
	}
}

func TestErrorText(t *testing.T) {
	err := &Error{Op: "recv", Rank: 3, Peer: AnySource, Tag: 7, Err: ErrTruncated}
	require.Equal(t, "comm: recv on rank 3, any source, tag 7: message is larger than the receive buffer", err.Error())
	err = &Error{Op: "recv", Rank: 3, Peer: 1, Tag: AnyTag, Err: ErrTruncated}
	require.Equal(t, "comm: recv on rank 3, peer 1, any tag: message is larger than the receive buffer", err.Error())
	require.Equal(t, "comm: rank 2: run: test", (&RankError{2, runError(errTest)}).Error())
	require.Equal(t, "comm: run: join: rank 1: test", runError(&launch.Error{Op: "join", Rank: 1, Err: errTest}).Error())
	require.Equal(t, "comm: rank 2: recv, peer 1, any tag: message is larger than the receive buffer", (&RankError{2, &Error{Op: "recv", Rank: 2, Peer: 1, Tag: AnyTag, Err: ErrTruncated}}).Error())
	require.Equal(t, "comm: rank 2: recv on rank 0, peer 1, any tag: test", (&RankError{2, &Error{Op: "recv", Rank: 0, Peer: 1, Tag: AnyTag, Err: errTest}}).Error())
	require.Equal(t, "comm: rank 2: test", (&RankError{2, &RankError{2, errTest}}).Error())
	require.Equal(t, "comm: rank 2: comm: rank 1: test", (&RankError{2, &RankError{1, errTest}}).Error())
	require.Equal(t, "comm: rank 2 is lost: exit status 3", (&RankError{2, &LostError{2, &launch.Death{Rank: 2, How: "exit status 3"}}}).Error())
	require.Equal(t, "rank 2 is lost: test", (&LostError{2, errTest}).Error())
	require.Equal(t, "rank 2 is lost: test", (&LostError{2, &RankError{2, errTest}}).Error())
	require.Equal(t, "comm: recv on rank 1: the run is aborted: rank 2: test",
		(&Error{Op: "recv", Rank: 1, Peer: NoPeer, Tag: NoPeer, Err: &abortError{&RankError{2, errTest}}}).Error())
}

// When Run returns, nothing of the run goes on, whichever goroutine has ended it.
func TestRunWaitsForItsEnd(t *testing.T) {
	for range 20 {
		var completed atomic.Bool
		err := Run(context.Background(), Config{Ranks: 1}, func(c *Comm) error {
			completing, returned := make(chan struct{}), make(chan struct{})
			c.Irecv(Of([]int{0}), 0, 1).OnDone(func(error) {
				close(completing)
				<-returned
				for range 1000 {
					runtime.Gosched()
				}
				completed.Store(true)
			})
			go c.Abort(errTest)
			<-completing
			close(returned)
			return nil
		})
		require.ErrorIs(t, err, errTest)
		require.True(t, completed.Load())
	}
}
