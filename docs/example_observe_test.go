// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"
	"net/http"

	"weft/deps"
	"weft/observe"
	"weft/task"
)

func Example_observe() {
	ctx := context.Background()
	program := func(t *task.Task) error {
		x := new(int)
		for range 100 {
			t.SpawnWith(task.Attrs{Label: "link"}, func(*task.Task) error { *x++; return nil }, deps.InOut(x))
		}
		return nil
	}
	run := func() error {
		o, err := observe.New(observe.Config{Graph: 10_000, Stacks: true})
		if err != nil {
			return err
		}
		rt := task.New(task.Config{Trace: o.Recorder()})
		http.Handle("/tasks/", http.StripPrefix("/tasks", o.Handler()))
		err = rt.Run(ctx, program)
		_ = rt.Close()
		fmt.Println(o.Stats().Label("link").Tasks, o.Graph().Tasks())
		_ = o.Close()
		return err
	}
	fmt.Println(run())
	// Output:
	// 100 101
	// <nil>
}
