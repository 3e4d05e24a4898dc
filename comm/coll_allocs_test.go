// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package comm

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The most that a blocking collective of two ranks allocates, at both together. In shared memory
// that is nothing, except for the pieces of a large reduction. By messages, requests and schedules
// are allocated; operations and working memory are used again. (Under the race detector pools lose
// their contents.)
func TestCollectivesAllocate(t *testing.T) {
	const small, large = 1, 4096
	x, y := make([]int64, 2*large), make([]int64, 2*large)
	of := func(s []int64, c *Comm, n int) Buffer { return Of(s[c.rank*large : c.rank*large+n]) }
	for _, row := range []struct {
		name            string
		do              func(c *Comm, n int) error
		together, apart [2]int // of a small one and of a large one
	}{
		{"barrier", func(c *Comm, _ int) error { return c.Barrier() }, [2]int{}, [2]int{10, 10}},
		{"bcast", func(c *Comm, n int) error { return c.Bcast(of(x, c, n), 0) }, [2]int{}, [2]int{6, 18}},
		{"allreduce", func(c *Comm, n int) error { return c.Allreduce(of(x, c, n), of(y, c, n), Sum) }, [2]int{0, 8}, [2]int{18, 24}},
		{"scan", func(c *Comm, n int) error { return c.Scan(of(x, c, n), of(y, c, n), Sum) }, [2]int{}, [2]int{8, 22}},
	} {
		for how, most := range map[string][2]int{"together": row.together, "apart": row.apart} {
			for i, n := range []int{small, large} {
				require.NoError(t, runners[how](context.Background(), Config{Ranks: 2}, func(c *Comm) error {
					const runs = 200
					if c.Rank() == 1 {
						for range runs + 1 { // AllocsPerRun calls once more
							if err := row.do(c, n); err != nil {
								return err
							}
						}
						return nil
					}
					if got := int(testing.AllocsPerRun(runs, func() { _ = row.do(c, n) })); got > most[i] {
						return fmt.Errorf("%s, %s of %d elements: %d allocations, at most %d are needed", how, row.name, n, got, most[i])
					}
					return nil
				}))
			}
		}
	}
}
