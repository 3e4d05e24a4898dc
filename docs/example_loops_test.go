// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weft/deps"
	"weft/tampi"
	"weft/task"
)

// A task can be bound to a detached one by tampi.Iwait.
var _ tampi.Completion = (*task.Detached)(nil)

func Example_final() {
	var fib func(t *task.Task, n int, result *int) error
	fib = func(t *task.Task, n int, result *int) error {
		if n < 2 {
			*result = n
			return nil
		}
		var x, y int
		a := task.Attrs{Final: n < 10} // smaller parts are not worth a task
		t.SpawnWith(a, func(t *task.Task) error { return fib(t, n-1, &x) })
		t.SpawnWith(a, func(t *task.Task) error { return fib(t, n-2, &y) })
		if err := t.Wait(); err != nil {
			return err
		}
		*result = x + y
		return nil
	}

	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	var result int
	err := rt.Run(context.Background(), func(t *task.Task) error { return fib(t, 20, &result) })
	fmt.Println(result, err)
	// Output: 6765 <nil>
}

func Example_onReady() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	var buffer string
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { fmt.Println("the buffer is in use"); return nil }, deps.InOut(&buffer))
		t.SpawnWith(task.Attrs{OnReady: func(t *task.Task) error {
			fmt.Println("it is free: ask for data")
			release := t.Hold() // the body waits for it
			time.AfterFunc(time.Millisecond, func() {
				buffer = "data"
				release(nil)
			})
			return nil
		}}, func(t *task.Task) error {
			fmt.Println("they are here:", buffer)
			return nil
		}, deps.InOut(&buffer))
		return nil
	})
	fmt.Println(err)
	// Output:
	// the buffer is in use
	// it is free: ask for data
	// they are here: data
	// <nil>
}

func Example_loop() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	const n, grain = 1000, 100
	var a, x, y [n]float64
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Loop(0, n, func(t *task.Task, lo, hi int) error {
			for i := lo; i < hi; i++ {
				a[i], x[i] = 2, float64(i)
			}
			return nil
		})
		if err := t.Wait(); err != nil {
			return err
		}

		block := task.LoopAttrs{Grain: grain, Accesses: func(lo, hi int) []deps.Access {
			return []deps.Access{deps.InOut(&y[lo])} // a block by its first element
		}}
		for range 3 { // the chunks of a loop wait for those of the loop before
			t.LoopWith(block, 0, n, func(t *task.Task, lo, hi int) error {
				for i := lo; i < hi; i++ {
					y[i] += a[i] * x[i]
				}
				return nil
			})
		}
		return nil
	})
	fmt.Println(y[1], y[n-1], err)
	// Output: 6 5994 <nil>
}

func Example_timed() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		var ready atomic.Bool
		t.Spawn(func(t *task.Task) error {
			for !ready.Load() { // a poller that uses neither a slot nor a CPU in between
				if err := t.Sleep(100 * time.Microsecond); err != nil {
					return err
				}
			}
			fmt.Println("ready")
			return nil
		})
		t.Spawn(func(t *task.Task) error {
			unblocked, err := t.BlockFor(time.Millisecond)
			fmt.Println("unblocked:", unblocked)
			ready.Store(true)
			return err
		})
		return nil
	})
	fmt.Println(err)
	// Output:
	// unblocked: false
	// ready
	// <nil>
}

func Example_critical() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	counts := map[string]int{}
	var m task.Mutex
	err := rt.Run(context.Background(), func(t *task.Task) error {
		for _, word := range []string{"warp", "weft", "warp", "selvedge", "weft", "warp"} {
			t.Spawn(func(t *task.Task) error {
				return t.Critical(&m, func() error { counts[word]++; return nil })
			})
		}
		return nil
	})
	fmt.Println(counts, err)
	// Output: map[selvedge:1 warp:3 weft:2] <nil>
}

func Example_detached() {
	rt := task.New(task.Config{})
	defer rt.Close() // waits for detached tasks
	var result int
	work := rt.Spawn(context.Background(), func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { result = 42; return nil }, deps.Out(&result))
		return nil
	})
	fmt.Println(work.Wait(context.Background()), result)

	failing := rt.Spawn(context.Background(), func(*task.Task) error { return errors.New("no luck") })
	err := rt.Run(context.Background(), func(t *task.Task) error {
		if failing.Join(t) != nil { // gives up the slot
			fmt.Println("it failed, this run goes on")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// <nil> 42
	// it failed, this run goes on
	// <nil>
}
