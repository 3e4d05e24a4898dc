// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/tcp"
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
	ep, err := connect(ctx, client, cfg.stats)
	if err != nil {
		// This rank has not left the job: the launcher ends the others when it ends.
		return runError(fmt.Errorf("rank %d of %d: %w", place.Rank, place.Ranks, err))
	}
	w := newWorld(ctx, cfg, []fabric.Endpoint{ep})
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with this call
		select {
		case <-client.Lost():
			w.end(launch.ErrLauncherLost)
		case <-over:
		}
	}()
	client.Watch(func(news error) {
		var d *launch.Death
		switch {
		case !errors.As(news, &d):
			w.end(news)
		case !d.Clean && d.Rank != place.Rank:
			w.procs[place.Rank].Lost(d.Rank, d)
		}
	})
	err = w.run(ctx, body)
	// Whatever the run came to, it is over for this rank, and its exit status is the program's to choose.
	if left := client.Leave(); err == nil && left != nil {
		err = runError(left)
	}
	return err
}

// connect makes this rank's endpoint, of the fabric that connects it with the others.
func connect(ctx context.Context, client *launch.Client, stats *statistics) (fabric.Endpoint, error) {
	if client.Size() == 1 {
		eps, err := inproc.New(1)
		if err != nil {
			return nil, err
		}
		return eps[0], nil
	}
	var peers []launch.Peer
	met := make(chan struct{})
	ep, err := tcp.New(tcp.Config{
		Rank: client.Rank(), Size: client.Size(), Secret: client.Secret()[:],
		Lookup: func(ctx context.Context, rank int) (string, error) {
			select {
			case <-met:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			addr, ok := peers[rank].Addrs[tcpName]
			if !ok {
				return "", fmt.Errorf("%w: rank %d is not to be reached by %s", ErrNoFabric, rank, tcpName)
			}
			return string(addr), nil
		},
	})
	if err != nil {
		return nil, err
	}
	if peers, err = client.Meet(ctx, map[string][]byte{tcpName: []byte(ep.Addr()), statsName: stats.text()}); err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	if err := agreeStatistics(client.Rank(), stats.text(), func(rank int) []byte { return peers[rank].Addrs[statsName] }, len(peers)); err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	close(met)
	return ep, nil
}

const tcpName = "tcp"

// statsName is the name under which ranks say what they count.
const statsName = "statistics"
