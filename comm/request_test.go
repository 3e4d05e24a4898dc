// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var errTest = errors.New("test")

func TestRequestOfOnesOwn(t *testing.T) {
	r, complete := NewRequest()
	ok, _, _ := r.Test()
	require.False(t, ok)
	require.False(t, r.Done())
	require.False(t, r.Cancel())
	var order []int
	for i := range 3 {
		r.OnDone(func(err error) {
			require.ErrorIs(t, err, errTest)
			order = append(order, i)
		})
	}
	complete(errTest)
	complete(nil)
	require.Equal(t, []int{0, 1, 2}, order, "in the order of registration")
	r.OnDone(func(error) { order = append(order, 3) })
	require.Equal(t, []int{0, 1, 2, 3}, order, "at once when complete")
	_, err := r.Wait(context.Background())
	require.ErrorIs(t, err, errTest)
	ok, _, err = r.Test()
	require.True(t, ok)
	require.ErrorIs(t, err, errTest)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	r, complete := NewRequest()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errTest)
	_, err := r.Wait(ctx)
	require.ErrorIs(t, err, errTest)
	require.ErrorIs(t, WaitAll(ctx, r), errTest)
	i, _, err := WaitAny(ctx, r, nil)
	require.Equal(t, Undefined, i)
	require.ErrorIs(t, err, errTest)
	require.False(t, r.Done(), "the operation goes on")
	require.Nil(t, waitersOf(r), "waiters that gave up are forgotten")
	complete(nil)
	_, err = r.Wait(ctx)
	require.NoError(t, err, "complete requests are checked first")
}

func TestWaitAllAndAny(t *testing.T) {
	require.NoError(t, WaitAll(context.Background(), nil, nil))
	i, _, err := WaitAny(context.Background(), nil, nil)
	require.NoError(t, err)
	require.Equal(t, Undefined, i)

	a, endA := NewRequest()
	b, endB := NewRequest()
	go endB(errTest)
	i, _, err = WaitAny(context.Background(), nil, a, b)
	require.Equal(t, 2, i)
	require.ErrorIs(t, err, errTest)
	require.Nil(t, waitersOf(a), "WaitAny leaves no node")
	go endA(nil)
	require.ErrorIs(t, WaitAll(context.Background(), nil, a, b, a), errTest)
	require.True(t, a.Done())
}

// Requests end in any order, and any number of them before the wait: each has its own status and
// error, WaitAny finds one that has ended, and WaitAll waits for all and returns the first error in
// the order of the arguments.
func TestWaitOrders(t *testing.T) {
	const n = 3
	type result struct {
		i   int
		st  Status
		err error
	}
	live, stop := context.WithCancel(context.Background())
	defer stop()
	timed, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	for _, ctx := range []context.Context{nil, context.Background(), live, timed} {
		for _, order := range [][n]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			for failed := range 1 << n {
				for before := range n + 1 {
					var reqs []*Request
					var want [n]result
					var told [n][]error
					var first error
					for i := range n {
						r, _ := NewRequest()
						r.OnDone(func(err error) { told[i] = append(told[i], err) })
						reqs = append(reqs, r)
						want[i] = result{i: i, st: Status{Source: i, Tag: 10 + i, Bytes: 100 + i}}
						if failed>>i&1 != 0 {
							want[i].err = fmt.Errorf("request %d: %w", i, errTest)
							if first == nil {
								first = want[i].err
							}
						}
					}
					end := func(i int) { require.True(t, reqs[i].complete(want[i].st, want[i].err)) }
					lowest := n
					for _, i := range order[:before] {
						end(i)
						lowest = min(lowest, i)
					}
					some, all, one := make(chan result, 1), make(chan error, 1), make(chan result, 1)
					waitAny := func() {
						i, st, err := WaitAny(ctx, reqs...)
						some <- result{i, st, err}
					}
					if before > 0 {
						waitAny()
						require.Equal(t, want[lowest], <-some)
					}
					go func() { all <- WaitAll(ctx, reqs...) }()
					go func() {
						st, err := reqs[order[n-1]].Wait(ctx)
						one <- result{order[n-1], st, err}
					}()
					if before == 0 {
						go waitAny()
						for slices.ContainsFunc(reqs, func(r *Request) bool { return !waitedFor(r) }) {
							runtime.Gosched()
						}
						end(order[0])
						require.Equal(t, want[order[0]], <-some)
						before++
					}
					for _, i := range order[before:] {
						select {
						case err := <-all:
							require.Fail(t, "WaitAll is over too early", "%v", err)
						case r := <-one:
							require.Fail(t, "Wait is over too early", "%v", r)
						default:
						}
						done, st, err := reqs[i].Test()
						require.Equal(t, []any{false, Status{}, nil, Status{}}, []any{done, st, err, reqs[i].Status()})
						end(i)
					}
					require.Equal(t, first, <-all)
					require.Equal(t, want[order[n-1]], <-one)
					for i, r := range reqs {
						require.False(t, r.complete(Status{}, nil), "a request ends once")
						done, st, err := r.Test()
						require.True(t, done)
						require.Equal(t, want[i], result{i, st, err})
						done, st, err = r.Peek()
						require.True(t, done)
						require.Equal(t, want[i], result{i, st, err})
						st, err = r.Wait(ctx)
						require.Equal(t, want[i], result{i, st, err})
						require.Equal(t, want[i].st, r.Status())
						require.Equal(t, []error{want[i].err}, told[i])
					}
				}
			}
		}
	}
}

// waitersOf returns the waiters of a request.
func waitersOf(r *Request) *node {
	list, ok := r.list.Take()
	if ok {
		r.list.Put(list)
	}
	return list
}

// waitedFor reports whether a goroutine that waits for any of several requests has registered with
// this one.
func waitedFor(r *Request) bool {
	for n := waitersOf(r); n != nil; n = n.Next {
		if n.Func == nil {
			return true
		}
	}
	return false
}

// Waiters, callbacks and completing goroutines come in all orders.
func TestHammerRequest(t *testing.T) {
	for range 300 {
		r, complete := NewRequest()
		other, _ := NewRequest()
		ctx, cancel := context.WithCancel(context.Background())
		var called, won atomic.Int32
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() { r.OnDone(func(error) { called.Add(1) }) })
			wg.Go(func() { complete(errTest) })
			wg.Go(func() {
				if _, err := r.Wait(context.Background()); errors.Is(err, errTest) {
					won.Add(1)
				}
			})
			wg.Go(func() {
				if _, err := r.Wait(ctx); errors.Is(err, errTest) || errors.Is(err, context.Canceled) {
					won.Add(1)
				}
			})
			wg.Go(func() {
				if i, _, err := WaitAny(context.Background(), other, r); i == 1 && errors.Is(err, errTest) {
					won.Add(1)
				}
			})
			wg.Go(func() {
				if i == 0 {
					cancel()
				}
			})
		}
		wg.Wait()
		cancel()
		r.OnDone(func(error) { called.Add(1) })
		require.Equal(t, int32(3), called.Load())
		require.Equal(t, int32(6), won.Load())
		require.Nil(t, waitersOf(other))
	}
}

func TestCancel(t *testing.T) {
	run(t, 1, func(c *Comm) error {
		b := []int{0}
		r := c.Irecv(Of(b), 0, 1)
		if err := expect("cancelled", true, r.Cancel()); err != nil {
			return err
		}
		st, err := r.Wait(context.Background())
		if !errors.Is(err, ErrCancelled) || !st.Cancelled {
			return errors.Join(errors.New("result of a cancelled receive"), err)
		}
		s := c.Isend(Of([]int{5}), 0, 1)
		r2 := c.Irecv(Of(b), 0, 1)
		_, err = r2.Wait(context.Background())
		return cmp.Or(err, WaitAll(context.Background(), s), expect("cancel again", false, r.Cancel()), expect("cancel when done", false, r2.Cancel()), expect("data", 5, b[0]))
	})
}

// Of a concurrent cancel and a message exactly one gets the receive.
func TestHammerCancel(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		const n = 500
		if c.Rank() == 1 {
			for i := range n {
				if err := c.Send(Of([]int{i}), 0, 0); err != nil {
					return err
				}
			}
			return nil
		}
		got := 0
		for got < n {
			b := []int{-1}
			r := c.Irecv(Of(b), 1, 0)
			cancelled := r.Cancel()
			_, err := r.Wait(context.Background())
			if cancelled != errors.Is(err, ErrCancelled) {
				return errors.Join(errors.New("cancel and result disagree"), err)
			}
			if cancelled {
				runtime.Gosched()
				continue
			}
			if err := cmp.Or(err, expect("message", got, b[0])); err != nil {
				return err
			}
			got++
		}
		return nil
	})
}

// A chain of messages, each sent from the callback of the previous one, is no recursion.
func TestCallbacksDoNotNestWithoutBound(t *testing.T) {
	const n = 5000 // each nested call would need several of the 2000 frames that are allowed
	run(t, 2, func(c *Comm) error {
		peer := 1 - c.Rank()
		buf := []int{0}
		end, complete := NewRequest()
		var step func(error)
		deepest := 0
		step = func(err error) {
			if err != nil || buf[0] >= n {
				if err == nil && buf[0] == n { // the peer must stop too
					err = c.Send(Of([]int{n + 1}), peer, 0)
				}
				complete(err)
				return
			}
			if buf[0]%1000 == 500 {
				deepest = max(deepest, runtime.Callers(0, make([]uintptr, 1<<16)))
			}
			v := buf[0] + 1
			r := c.Irecv(Of(buf), peer, 0)
			c.Isend(Of([]int{v}), peer, 0).OnDone(func(err error) {
				if err != nil {
					complete(err)
				}
			})
			r.OnDone(step)
		}
		if c.Rank() == 0 {
			step(nil)
		} else {
			c.Irecv(Of(buf), peer, 0).OnDone(step)
		}
		if _, err := end.Wait(c.Context()); err != nil {
			return err
		}
		if deepest > 2000 {
			return errors.New("the stack is as deep as the chain")
		}
		return nil
	})
}

// Requests that are complete when their callback is registered do not nest either.
func TestImmediateCallbacksDoNotNest(t *testing.T) {
	run(t, 1, func(c *Comm) error {
		const n = 100000
		i := 0
		end, complete := NewRequest()
		var step func(error)
		step = func(err error) {
			if i++; i == n || err != nil {
				complete(err)
				return
			}
			c.Isend(Buffer{}, ProcNull, 0).OnDone(step)
		}
		step(nil)
		_, err := end.Wait(context.Background())
		return cmp.Or(err, expect("steps", n, i))
	})
}

func TestPanicInACallbackDoesNotLoseOthers(t *testing.T) {
	r, complete := NewRequest()
	called := 0
	r.OnDone(func(error) { called++ })
	r.OnDone(func(error) { panic("test") })
	r.OnDone(func(error) { called++ })
	require.PanicsWithValue(t, "test", func() { complete(nil) })
	require.Equal(t, 2, called)
	r.OnDone(func(error) { called++ })
	require.Equal(t, 3, called)
}
