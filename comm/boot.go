// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"

	"weft/internal/fabric"
	"weft/internal/launch"
)

// boot runs body as the one rank that this process was started as.
func boot(ctx context.Context, cfg Config, place *launch.Place, body func(c *Comm) error) error {
	if cfg.Ranks != 0 && cfg.Ranks != place.Ranks {
		return runError(fmt.Errorf("%w: the program wants %d ranks, and is one of %d that were started", ErrConfig, cfg.Ranks, place.Ranks))
	}
	cfg.Ranks = place.Ranks
	if _, err := cfg.validate(); err != nil {
		return runError(err)
	}
	client, err := place.Join(ctx)
	if err != nil {
		return runError(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client.Watch(func(news error) {
		if errors.Is(news, launch.ErrAborted) {
			cancel(news)
		}
	})
	go func() { // ends with this call at the latest
		select {
		case <-client.Lost():
			cancel(launch.ErrLauncherLost)
		case <-ctx.Done():
		}
	}()
	if place.Ranks == 1 {
		// The rank has nobody to talk to but itself.
		err := Run(ctx, cfg, body)
		if left := client.Leave(); err == nil && left != nil {
			err = runError(left)
		}
		return err
	}
	if _, err := connect(ctx, client); err != nil {
		// The launcher ends the other ranks when this one ends: it has not left the job.
		return runError(fmt.Errorf("rank %d of %d: %w", place.Rank, place.Ranks, err))
	}
	return nil
}

// connect makes this rank's endpoint of the fabrics that connect it with the others.
func connect(ctx context.Context, client *launch.Client) (fabric.Endpoint, error) {
	peers, err := client.Meet(ctx, nil)
	if err != nil {
		return nil, err
	}
	var missing string
	for _, p := range peers {
		if p.Rank != client.Rank() {
			missing = "another process"
			if p.Node != client.Node() {
				missing = "another node"
			}
			missing = fmt.Sprintf("rank %d is in %s", p.Rank, missing)
			break
		}
	}
	return nil, fmt.Errorf("%w: %s, and this build of weft has inproc only, which connects the goroutines of one process; start the program by itself, where it has all its ranks", ErrNoFabric, missing)
}
