//go:build mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weft/internal/fabric"
)

func init() {
	roles["latency"] = func(p *Process) int {
		ep, err := p.Open(world(p))
		if err != nil {
			println(err.Error())
			return 1
		}
		e := ep.(*Endpoint)
		c := &counter{woken: make(chan struct{}, 1)}
		polls := bind(e, c)
		n, _ := strconv.Atoi(os.Getenv("WEFT_TEST_MPI_HOPS"))
		n = max(n, 2000)
		f := fabric.Frame{Data: make([]byte, 8)}
		want := int64(0)
		for round := range 3 {
			began := time.Now()
			for range n {
				if e.rank == 0 {
					_ = e.Send(1, f)
				}
				for want++; c.n.Load() < want; {
					polls.PollChannel(c.woken, polls.Enter())
					select {
					case <-c.woken:
					default:
					}
				}
				if e.rank == 1 {
					_ = e.Send(0, f)
				}
			}
			if e.rank == 0 {
				fmt.Println(round, time.Since(began)/time.Duration(2*n))
			}
		}
		_ = e.Close()
		return 0
	}
}

type counter struct {
	n     atomic.Int64
	woken chan struct{}
}

func (c *counter) Deliver(*fabric.Frame) bool {
	c.n.Add(1)
	select {
	case c.woken <- struct{}{}:
	default:
	}
	return false
}
func (c *counter) Lost(r int, err error) { println("lost", r, err.Error()) }

// With WEFT_TEST_MPI_HOPS=200000, the test is a measurement.
func TestLatency(t *testing.T) { t.Log(succeed(t, 2, "latency")) }
