// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import "weft/internal/waits"

// flusher runs what blocks on the disk apart from whoever completes fences. One goroutine, owned by one rank's
// backing, from its making to its Free.
type flusher struct {
	jobs chan func() // capacity 1: a rank has one fence at hand at a time, so do never blocks
	done chan struct{}
}

func startFlusher() *flusher {
	f := &flusher{jobs: make(chan func(), 1), done: make(chan struct{})}
	idle := waits.NewCounter() // while a job is under way, who waits for it may still go on
	go func() {
		defer close(f.done)
		for {
			idle.Sleep()
			job, ok := <-f.jobs
			idle.Wake()
			if !ok {
				return
			}
			job()
		}
	}()
	return f
}

func (f *flusher) do(job func()) { f.jobs <- job }

// stop ends the goroutine. Preconditions: no job is under way or will come.
func (f *flusher) stop() {
	close(f.jobs)
	<-f.done
}
