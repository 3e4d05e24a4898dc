// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"time"

	"weft/comm"
)

// tag of every message; any would do.
const tag = 7

// weft plays between two ranks of this process. The time excludes the start and the end of the
// ranks.
func weft(ctx context.Context, p *pingpong) (took time.Duration, err error) {
	err = comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		rank, other := c.Rank(), 1-c.Rank()
		mine := p.mine[rank]
		send := func() error { return c.Send(comm.Of(mine), other, tag) }
		receive := func() error {
			_, err := c.Recv(comm.Of(mine), other, tag)
			return err
		}
		if err := p.play(rank, p.warmup(), send, receive); err != nil {
			return err
		}
		began := time.Now()
		if err := p.play(rank, p.rounds, send, receive); err != nil {
			return err
		}
		if rank == 0 {
			took = time.Since(began)
		}
		return nil
	})
	return took, err
}
