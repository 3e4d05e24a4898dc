// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"weft/deps"
	"weft/task"
)

// reportWriter calls itself with each report.
type reportWriter func(string)

func (w reportWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func Example_watchdog() {
	releases := make(chan func(error), 1)
	forget := func(release func(error)) { releases <- release }
	report := reportWriter(func(text string) {
		text = regexp.MustCompile(`\(spawned at.*?\)\)|, bound at.*|[0-9.]+m?s old|0x[0-9a-f]+|\(of the run.*?\)\)`).ReplaceAllString(text, "~")
		fmt.Print(text)
		(<-releases)(nil)
	})
	rt := task.New(task.Config{Watchdog: 50 * time.Millisecond, Reports: report})
	defer rt.Close()
	var row [8]float64
	err := rt.Run(context.Background(), func(t *task.Task) error {
		t.SpawnWith(task.Attrs{Label: "fetch"}, func(t *task.Task) error {
			release := t.HoldFor("the answer of the disk") // plain Hold is named by its line only
			forget(release)
			return nil
		}, deps.Out(&row))
		t.SpawnWith(task.Attrs{Label: "use"}, func(*task.Task) error { return nil }, deps.In(&row))
		return nil
	})
	fmt.Println(err)
	// Output:
	// weft: watchdog: 1 task has waited for 50ms or longer for something that no task of the runtime provides:
	//   task "fetch" ~, ~: its body is over, and it waits for 1 event:
	//     the answer of the disk~
	//     2 tasks wait for it:
	//       the main task ~, ~: its body is over, and it waits for its descendants (2 children)
	//       task "use" ~, ~: waits for In(~) after task "fetch" ~
	// <nil>
}

func Example_dumpBySignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	go func() {
		for range asked {
			_ = task.DumpAll(os.Stderr)
		}
	}()
	signal.Stop(asked)
	close(asked)
	// Output:
}
