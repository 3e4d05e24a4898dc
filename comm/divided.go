// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"sync"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/waits"
)

// runDivided is Run for tests of what is built on this package: as if the ranks were in several processes, the first
// ranks of which bounds has. It returns the error of the rank that ended the run.
func runDivided(ctx context.Context, cfg Config, eps []fabric.Endpoint, bounds []int, body func(c *Comm) error) error {
	parts := len(bounds) - 1
	worlds := make([]*world, parts)
	for i := range worlds { // all are bound before any runs
		worlds[i] = newWorld(ctx, cfg, inproc.Part(eps, bounds[i], bounds[i+1]))
	}
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for i, w := range worlds {
		wg.Go(func() { errs[i] = w.run(ctx, body) })
	}
	waits.Call(wg.Wait)
	for i, err := range errs {
		var of *RankError
		if !errors.As(err, &of) || (of.Rank >= bounds[i] && of.Rank < bounds[i+1]) {
			return err
		}
	}
	return errs[0]
}
