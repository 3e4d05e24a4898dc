// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package comm

import "testing"

// A blocking collective in mapped memory allocates nothing. (Under the race detector pools lose
// their contents.)
func TestMemoryCollAllocates(t *testing.T) {
	runMapped(t, 2, func(c *Comm) error {
		in, out := []int{1}, []int{0}
		const runs = 100
		each := func() {
			_ = c.Allreduce(Of(in), Of(out), Sum)
			_ = c.Barrier()
		}
		if c.rank == 1 {
			for range runs + 1 { // AllocsPerRun calls once more
				each()
			}
			return nil
		}
		// AllocsPerRun counts the allocations of all goroutines, some of which allocate now and
		// then.
		return expect("allocations", 0, int(testing.AllocsPerRun(runs, each)/2))
	})
}
