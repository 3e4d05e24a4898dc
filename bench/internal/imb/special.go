// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"context"
	"fmt"
	"time"

	"weft/bench/internal/harness"
	"weft/comm"
)

// special measures what is no repeated operation.
func (r *rank) special(b *benchmark, w *work) (Row, error) {
	var err error
	row := Row{Reps: 1}
	switch b.name {
	case "Progress":
		row.Reps = progressRuns
		row.Max, err = r.progress(w)
	case "Idle":
		row.Max, err = r.idle()
	case "Start":
		err = r.c.Barrier() // whoever has started us has the clock
	default:
		err = fmt.Errorf("imb: bug: no special benchmark %s", b.name)
	}
	row.Min, row.Avg = row.Max, row.Max
	return row, err
}

const (
	progressRuns = 5
	progressWork = 18e-3 // seconds: a hundred times what the message takes
	idleTime     = time.Second
)

// progress is how long a message takes, in microseconds, whose receiver has posted its receive and computes.
func (r *rank) progress(w *work) (float64, error) {
	sum := 0.
	for k := range progressRuns + 1 { // the first one is not counted
		var q *comm.Request
		if r.me == 1 {
			q = r.c.Irecv(comm.Of(r.in), 0, tag)
		}
		if err := r.c.Barrier(); err != nil {
			return 0, err
		}
		switch r.me {
		case 0:
			began := now()
			if _, err := r.c.Isend(comm.Of(r.out), 1, tag).Wait(context.Background()); err != nil {
				return 0, err
			}
			if k > 0 {
				sum += now() - began
			}
		case 1:
			w.do(w.units(progressWork))
		}
		if err := comm.WaitAll(context.Background(), q); err != nil {
			return 0, err
		}
		if err := r.c.Barrier(); err != nil {
			return 0, err
		}
	}
	return sum / progressRuns * 1e6, nil
}

// idle is the processor time, in microseconds, of the process of a rank that waits for a message for a second.
func (r *rank) idle() (float64, error) {
	if err := r.c.Barrier(); err != nil {
		return 0, err
	}
	used := 0.
	switch r.me {
	case 0:
		time.Sleep(idleTime)
		if err := r.c.Send(comm.Of(r.ack), 1, tag); err != nil {
			return 0, err
		}
	case 1:
		before, err := harness.ProcessorTime()
		if err != nil {
			return 0, err
		}
		if _, err := r.c.Recv(comm.Of(r.ack), 0, tag); err != nil {
			return 0, err
		}
		after, err := harness.ProcessorTime()
		if err != nil {
			return 0, err
		}
		used = (after - before).Seconds()
	}
	_, most, _, err := r.statistics(used)
	return most * 1e6, err
}
