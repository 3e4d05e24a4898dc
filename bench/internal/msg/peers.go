// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"context"
	"sync"
	"time"
)

// channels uses an unbuffered channel each way, which carries a pointer to the sender's buffer. The
// receiver copies the bytes, because a rank's memory is its own. The sender touches its buffer
// again only after the answer, which the receiver sends after its copy.
func channels(_ context.Context, p *pingpong) (time.Duration, error) {
	var lines [2]chan *[]byte // to rank 0 and to rank 1
	for r := range lines {
		lines[r] = make(chan *[]byte)
	}
	ends := func(rank int) (send, receive func() error) {
		out, in := lines[1-rank], lines[rank]
		mine := &p.mine[rank]
		return func() error { out <- mine; return nil }, func() error { copy(*mine, *<-in); return nil }
	}
	var took time.Duration
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			send, receive := ends(rank)
			_ = p.play(rank, p.warmup(), send, receive)
			began := time.Now()
			_ = p.play(rank, p.rounds, send, receive)
			if rank == 0 {
				took = time.Since(began)
			}
		})
	}
	wg.Wait()
	return took, nil
}

// plainCopy copies the bytes there and back in one goroutine.
func plainCopy(_ context.Context, p *pingpong) (time.Duration, error) {
	a, b := p.mine[0], p.mine[1]
	run := func(rounds int) {
		for k := range rounds {
			ping, pong := uint64(2*k+1), uint64(2*k+2)
			p.stamp(0, ping)
			copy(b, a)
			p.verify(1, ping)
			p.stamp(1, pong)
			copy(a, b)
			p.verify(0, pong)
		}
	}
	run(p.warmup())
	began := time.Now()
	run(p.rounds)
	return time.Since(began), nil
}
