// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"sync"

	"weft/bench/internal/harness"
)

// forkjoin is fib(n) with two tasks and a wait at every call: one task for each call but the first.
type forkjoin struct {
	n      int
	result int64
}

// pair holds the results of a call's two children: one allocation for both.
type pair struct{ a, b int64 }

func newForkjoin(size int64) *forkjoin { return &forkjoin{n: int(size)} }

// fib is the answer, computed without recursion.
func fib(n int) int64 {
	a, b := int64(0), int64(1)
	for range n {
		a, b = b, a+b
	}
	return a
}

// tasks returns the number of calls without the first: calls(n) = 2·fib(n+1) − 1.
func (p *forkjoin) tasks() int64 { return max(1, 2*fib(p.n+1)-2) }

func (p *forkjoin) reset() { p.result = -1 }

func (p *forkjoin) check() error {
	if want := fib(p.n); p.result != want {
		return harness.Wrong("fib(%d) is %d, and the answer was %d", p.n, want, p.result)
	}
	return nil
}

func (p *forkjoin) sequential() { fibSequential(p.n, &p.result) }

func fibSequential(n int, out *int64) {
	if n < 2 {
		*out = int64(n)
		return
	}
	r := new(pair)
	fibSequential(n-1, &r.a)
	fibSequential(n-2, &r.b)
	*out = r.a + r.b
}

func (p *forkjoin) goroutines() { fibGoroutines(p.n, &p.result) }

func fibGoroutines(n int, out *int64) {
	if n < 2 {
		*out = int64(n)
		return
	}
	var wg sync.WaitGroup
	r := new(pair)
	wg.Add(2)
	go func() {
		fibGoroutines(n-1, &r.a)
		wg.Done()
	}()
	go func() {
		fibGoroutines(n-2, &r.b)
		wg.Done()
	}()
	wg.Wait()
	*out = r.a + r.b
}
