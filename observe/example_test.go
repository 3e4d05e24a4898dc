// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"log"
	"net/http"

	"weft/observe"
	"weft/task"
)

// The live page is served next to the other pages of a program.
func ExampleObserver_Handler() {
	o, err := observe.New(observe.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer o.Close()
	mux := http.NewServeMux()
	mux.Handle("/tasks/", http.StripPrefix("/tasks", o.Handler()))
	server := &http.Server{Addr: "localhost:6060", Handler: mux}
	go server.ListenAndServe()
	defer server.Close()

	rt := task.New(task.Config{Trace: o.Recorder()})
	defer rt.Close()
	// rt.Run(…): open http://localhost:6060/tasks/ meanwhile.
}
