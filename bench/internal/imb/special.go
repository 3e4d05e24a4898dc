// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/bench/internal/harness"
	"weft/comm"
)

// special measures a benchmark that is not a repeated operation.
func (r *rank) special(b *benchmark, w *work) (Row, error) {
	var err error
	row := Row{Reps: 1}
	switch b.name {
	case "Progress":
		row.Reps = progressRuns
		row.Max, err = r.progress(w)
	case "Idle":
		row.Max, err = r.idle()
	case "Asleep", "OnDone":
		row.Reps = asleepRuns
		row.Max, row.Why, err = r.asleep(b.name == "OnDone")
	case "Start":
		err = r.c.Barrier() // the process that started this one has the clock
	default:
		err = fmt.Errorf("imb: bug: no special benchmark %s", b.name)
	}
	row.Min, row.Avg = row.Max, row.Max
	return row, err
}

const (
	progressRuns = 5
	progressWork = 18e-3 // seconds: a hundred times the time of the message
	idleTime     = time.Second
	asleepRuns   = 100
	asleepAfter  = 2 * time.Millisecond // longer than a rank polls before it sleeps
)

// asleep measures a message and its answer. The receiver sleeps in Recv, or it answers in a
// callback. The result is the median in microseconds.
func (r *rank) asleep(callback bool) (median float64, why string, err error) {
	ping, pong := []int64{0}, []int64{0}
	answer := func(err error) error {
		if err == nil {
			pong[0] = ping[0] + 1
			err = r.c.Send(comm.Of(pong), 0, tag)
		}
		return err
	}
	var took []float64
	bad := 0
	for k := range int64(asleepRuns) {
		if r.me > 1 {
			break
		}
		if r.me == 1 {
			if callback {
				done := make(chan error, 1)
				r.c.Irecv(comm.Of(ping), 0, tag).OnDone(func(err error) { done <- answer(err) })
				err = <-done
			} else {
				_, err = r.c.Recv(comm.Of(ping), 0, tag)
				err = answer(err)
			}
			if err != nil {
				return 0, "", err
			}
			continue
		}
		time.Sleep(asleepAfter)
		ping[0] = k
		began := now()
		if err = r.c.Send(comm.Of(ping), 1, tag); err == nil {
			_, err = r.c.Recv(comm.Of(pong), 1, tag)
		}
		if err != nil {
			return 0, "", err
		}
		took = append(took, now()-began)
		if pong[0] != k+1 {
			bad++
		}
	}
	if bad > 0 {
		why = fmt.Sprintf("%d answers arrived wrong", bad)
	}
	if len(took) > 0 {
		slices.Sort(took)
		median = took[len(took)/2] * 1e6
	}
	return median, why, r.c.Barrier()
}

// progress measures a message whose receiver has posted its receive and computes. The result is the
// mean in microseconds.
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

// idle measures the processor time, in microseconds, of the process of a rank that waits for a
// message for a second.
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
