// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"weft/bench/internal/harness"
)

// pingpong is two ranks' buffers and the numbers that the messages carry.
type pingpong struct {
	mine   [2][]byte // of rank 0 and rank 1; rank r's goroutine owns the r-th during its turn
	rounds int       // round trips per run
	bad    [2]int    // messages that arrived with a wrong number, counted by the receiving rank
}

func newPingpong(size int64) *pingpong {
	p := &pingpong{rounds: roundsFor(size)}
	for r := range p.mine {
		p.mine[r] = make([]byte, size)
	}
	return p
}

// roundsFor makes one run last some milliseconds at every size.
func roundsFor(size int64) int {
	const volume = 32 << 20
	return int(max(4, min(10_000, volume/size)))
}

// reset fills rank 0's buffer with a pattern without a period, and clears rank 1's.
func (p *pingpong) reset() {
	x := uint32(1)
	for i := range p.mine[0] {
		x = x*1664525 + 1013904223
		p.mine[0][i], p.mine[1][i] = byte(x>>24), 0
	}
	p.bad = [2]int{}
}

// stamp writes number at both ends of rank's buffer, the next message. A buffer of 8 bytes has the
// number once; other buffers have at least 16 bytes.
func (p *pingpong) stamp(rank int, number uint64) {
	b := p.mine[rank]
	binary.LittleEndian.PutUint64(b, number)
	binary.LittleEndian.PutUint64(b[len(b)-8:], number)
}

// verify counts the message in rank's buffer as bad if it has another number.
func (p *pingpong) verify(rank int, number uint64) {
	b := p.mine[rank]
	if binary.LittleEndian.Uint64(b) != number || binary.LittleEndian.Uint64(b[len(b)-8:]) != number {
		p.bad[rank]++
	}
}

func (p *pingpong) check() error {
	if p.bad != [2]int{} {
		return harness.Wrong("%d pings and %d pongs of %d carried a wrong number", p.bad[1], p.bad[0], p.rounds)
	}
	if !bytes.Equal(p.mine[0], p.mine[1]) {
		return harness.Wrong("the buffers of %d bytes differ after the last message", len(p.mine[0]))
	}
	return nil
}

// play is rank's part in the round trips, over any pair of blocking operations. Send sends rank's
// buffer, and receive fills it.
func (p *pingpong) play(rank, rounds int, send, receive func() error) error {
	for k := range rounds {
		ping, pong := uint64(2*k+1), uint64(2*k+2)
		if rank == 0 {
			p.stamp(0, ping)
			if err := send(); err != nil {
				return err
			}
			if err := receive(); err != nil {
				return err
			}
			p.verify(0, pong)
			continue
		}
		if err := receive(); err != nil {
			return err
		}
		p.verify(1, ping)
		p.stamp(1, pong)
		if err := send(); err != nil {
			return err
		}
	}
	return nil
}

// warmup returns the number of round trips that precede the timed ones of a run.
func (p *pingpong) warmup() int { return max(2, p.rounds/20) }

// peer makes a peer of a function that runs the whole program once and returns the time of p.rounds
// round trips.
func peer(name string, run func(ctx context.Context, p *pingpong) (time.Duration, error)) harness.Peer {
	open := func(_ context.Context, params harness.Params) (harness.Probe, error) {
		p := newPingpong(params.Size)
		sample := func(ctx context.Context) (float64, error) {
			total, runs, err := harness.Repeat(ctx, params.MinTime, func() (time.Duration, error) {
				p.reset()
				took, err := run(ctx, p)
				if err == nil {
					err = p.check()
				}
				return took, err
			})
			return float64(total.Nanoseconds()) / float64(2*runs*p.rounds), err
		}
		return harness.Probe{Sample: sample}, nil
	}
	return harness.Peer{Name: name, Open: open}
}
