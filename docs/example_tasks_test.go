// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"weft/deps"
	"weft/task"
)

func Example_run() {
	rt := task.New(task.Config{}) // as many slots as GOMAXPROCS
	defer rt.Close()

	var a, b, sum int
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { a = 20; return nil }, deps.Out(&a))
		t.Spawn(func(*task.Task) error { b = 22; return nil }, deps.Out(&b))
		t.Spawn(func(*task.Task) error { sum = a + b; return nil },
			deps.In(&a), deps.In(&b), deps.Out(&sum))
		return nil
	})
	fmt.Println(sum, err)
	// Output: 42 <nil>
}

// fib is the textbook recursion; each call is a task.
func Example_wait() {
	var fib func(t *task.Task, n int, result *int) error
	fib = func(t *task.Task, n int, result *int) error {
		if n < 2 {
			*result = n
			return nil
		}
		var x, y int
		t.Spawn(func(t *task.Task) error { return fib(t, n-1, &x) })
		t.Spawn(func(t *task.Task) error { return fib(t, n-2, &y) })
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

func Example_waitOn() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		var residual float64
		gate := make(chan struct{})
		t.Spawn(func(*task.Task) error { residual = 0.5; return nil }, deps.Out(&residual))
		t.Spawn(func(t *task.Task) error { t.Blocking(func() { <-gate }); return nil })
		if err := t.WaitOn(deps.In(&residual)); err != nil { // not for the second task
			return err
		}
		fmt.Println("residual", residual)
		close(gate)
		return nil
	})
	fmt.Println(err)
	// Output:
	// residual 0.5
	// <nil>
}

func Example_attributes() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		say := func(s string) func(*task.Task) error {
			return func(*task.Task) error { fmt.Println(s); return nil }
		}
		t.SpawnWith(task.Attrs{Label: "report", Priority: 1}, say("soon"))
		t.SpawnWith(task.Attrs{Label: "urgent", Priority: 9}, say("first"))
		return t.Wait()
	})
	fmt.Println(err)
	// Output:
	// first
	// soon
	// <nil>
}

func Example_hold() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	var answer int
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(t *task.Task) error {
			release := t.Hold()
			time.AfterFunc(time.Millisecond, func() {
				answer = 42
				release(nil)
			})
			return nil // the slot is free, the task is not over
		}, deps.Out(&answer))
		t.Spawn(func(*task.Task) error { fmt.Println(answer); return nil }, deps.In(&answer))
		return nil
	})
	fmt.Println(err)
	// Output:
	// 42
	// <nil>
}

func Example_block() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	err := rt.Run(context.Background(), func(t *task.Task) error {
		waiting := make(chan *task.Task, 1)
		t.Spawn(func(t *task.Task) error {
			waiting <- t
			if err := t.Block(); err != nil { // gives up the slot
				return err
			}
			fmt.Println("goes on")
			return nil
		})
		var other *task.Task
		t.Blocking(func() { other = <-waiting })
		fmt.Println("unblocks")
		other.Unblock() // any goroutine may
		return nil
	})
	fmt.Println(err)
	// Output:
	// unblocks
	// goes on
	// <nil>
}

func Example_blocking() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	messages := make(chan string)
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.Spawn(func(t *task.Task) error {
			var s string
			t.Blocking(func() { s = <-messages }) // any call that blocks
			fmt.Println(s)
			return nil
		})
		t.Spawn(func(t *task.Task) error {
			t.Blocking(func() { messages <- "from another task" })
			return nil
		})
		return nil
	})
	fmt.Println(err)
	// Output:
	// from another task
	// <nil>
}

func Example_errors() {
	rt := task.New(task.Config{Workers: 1})
	defer rt.Close()
	errSingular := errors.New("matrix is singular")
	var ran atomic.Bool
	err := rt.Run(context.Background(), func(t *task.Task) error {
		var m float64
		t.SpawnWith(task.Attrs{Label: "factor"}, func(*task.Task) error { return errSingular }, deps.Out(&m))
		t.Spawn(func(*task.Task) error { ran.Store(true); return nil }, deps.In(&m)) // is skipped
		return nil
	})
	var te *task.Error
	fmt.Println(errors.Is(err, errSingular), errors.As(err, &te), te.Label, ran.Load())
	fmt.Println(strings.Contains(te.Site, "docs/example_tasks_test.go:"))
	// Output:
	// true true factor false
	// true
}

func Example_sharedRuntime() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	results := make([]int, 3)
	errs := make(chan error)
	for i := range results {
		go func() {
			errs <- rt.Run(context.Background(), func(t *task.Task) error {
				t.Spawn(func(*task.Task) error { results[i] += i; return nil }, deps.InOut(&results[i]))
				t.Spawn(func(*task.Task) error { results[i] *= 10; return nil }, deps.InOut(&results[i]))
				return nil
			})
		}()
	}
	for range results {
		if err := <-errs; err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(results)
	// Output: [0 10 20]
}
