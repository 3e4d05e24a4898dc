// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"weft/comm"
	"weft/internal/launch/job"
	"weft/rma"
)

// shapes are the rounds that BenchmarkBetweenProcesses measures at rank 0, between two processes. A
// round is a number of puts and a fence.
var shapes = []struct{ puts, bytes int }{{1, 8}, {1000, 8}, {1, 4 << 10}, {8, 1 << 20}}

// rate prints, for each shape, the median time of a round in nanoseconds.
func rate(c *comm.Comm) error {
	for _, s := range shapes {
		w, mine, err := rma.Allocate[byte](c, s.puts*s.bytes)
		if err != nil {
			return err
		}
		src := bytes.Repeat([]byte{7}, s.puts*s.bytes)
		if err := w.Fence(0); err != nil {
			return err
		}
		var times []int
		for range 300 {
			start := time.Now()
			if c.Rank() == 0 {
				for i := range s.puts {
					err = errors.Join(err, w.Put(comm.Of(src[i*s.bytes:(i+1)*s.bytes]), 1, i*s.bytes))
				}
			}
			if err := errors.Join(err, w.Fence(0)); err != nil {
				return err
			}
			times = append(times, int(time.Since(start)))
		}
		if c.Rank() == 1 && !bytes.Equal(mine, src) {
			return errors.New("the puts have not arrived")
		}
		if err := w.Free(); err != nil {
			return err
		}
		if slices.Sort(times); c.Rank() == 0 {
			fmt.Println(times[len(times)/2])
		}
	}
	return nil
}

func BenchmarkBetweenProcesses(b *testing.B) {
	for _, fabric := range []string{"shm", "tcp"} {
		b.Run(fabric, func(b *testing.B) {
			sums := make([]float64, len(shapes))
			for b.Loop() {
				var out, errs bytes.Buffer
				status, err := job.Run(job.Spec{Stdout: &out, Stderr: &errs, Parts: []job.Part{{Ranks: 2, Program: os.Args[0],
					Env: []string{envRole + "=rate", "WEFT_FABRIC=" + fabric}}}})
				if err != nil || status != 0 {
					b.Fatal(err, status, errs.String())
				}
				for i, line := range bytes.Fields(out.Bytes()) {
					ns, err := strconv.Atoi(string(line))
					if err != nil {
						b.Fatal(err)
					}
					sums[i] += float64(ns)
				}
			}
			for i, s := range shapes {
				ns := sums[i] / float64(b.N)
				name := fmt.Sprintf("%dx%dB", s.puts, s.bytes)
				b.ReportMetric(ns/1e3, name+"-us")
				b.ReportMetric(float64(s.puts*s.bytes)/ns, name+"-GB/s")
			}
		})
	}
}
