// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weft/deps"
	"weft/observe"
	"weft/task"
)

// BenchmarkBlocks measures the cost of observing the graph of bench task/blocks, whose tasks do
// next to no work. Each iteration runs all configurations, one after the other, so that a
// disturbance of the machine affects all. The metrics are quartiles of the ratios to the first
// configuration.
func BenchmarkBlocks(b *testing.B) {
	const n, rounds = 32, 10
	cells := make([][8]int64, (n+2)*(n+2))
	program := func(t *task.Task) error {
		for range rounds {
			for r := 1; r <= n; r++ {
				for c := 1; c <= n; c++ {
					i := r*(n+2) + c
					own := &cells[i]
					t.SpawnWith(task.Attrs{Label: "block"}, func(*task.Task) error { own[0]++; return nil }, deps.InOut(own),
						deps.In(&cells[i-n-2]), deps.In(&cells[i-1]), deps.In(&cells[i+1]), deps.In(&cells[i+n+2]))
				}
			}
		}
		return nil
	}
	kinds := []struct {
		name string
		cfg  *observe.Config
	}{
		{"off", nil},
		{"statistics", &observe.Config{}},
		{"profile", &observe.Config{Sample: 64, Stacks: true}},
		{"all", &observe.Config{Sample: 1}},
	}
	runtimes := make([]*task.Runtime, len(kinds))
	for i, k := range kinds {
		c := task.Config{Workers: 2}
		if k.cfg != nil {
			o, err := observe.New(*k.cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = o.Close() }()
			c.Trace = o.Recorder()
		}
		runtimes[i] = task.New(c)
		defer func() { _ = runtimes[i].Close() }()
	}
	ratios := make([][]float64, len(kinds))
	best := make([]time.Duration, len(kinds))
	for b.Loop() {
		took := make([]time.Duration, len(kinds))
		for _, i := range rand.Perm(len(kinds)) {
			rt := runtimes[i]
			start := time.Now()
			if err := rt.Run(b.Context(), program); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(start)
		}
		for i := range kinds {
			ratios[i] = append(ratios[i], float64(took[i])/float64(took[0]))
		}
		for i := range kinds {
			if best[i] == 0 || took[i] < best[i] {
				best[i] = took[i]
			}
		}
	}
	for i, k := range kinds[1:] {
		r := ratios[i+1]
		slices.Sort(r)
		for _, q := range []int{25, 50, 75} {
			b.ReportMetric(r[len(r)*q/100], fmt.Sprintf("%s/off-%d%%", k.name, q))
		}
		b.ReportMetric(float64(best[i+1])/float64(best[0]), k.name+"/off-best")
	}
	b.ReportMetric(float64(best[0].Nanoseconds())/(n*n*rounds), "ns/task")
}
