// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Messages that a receiver takes from the ring itself, and messages that go through its matcher,
// are received in the order in which they were sent. They go through the matcher if they are large,
// or came before the receive, or while the receiver slept.
func TestDirectReceiveOrder(t *testing.T) {
	for name, run := range runners {
		err := run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
			const messages = 1000
			rng := rand.New(rand.NewPCG(7, 8)) // the same at both ranks
			buf := make([]int, 40<<10)
			var under []*Request
			for k := range messages {
				n := []int{1, 1, 1, 0, 200, 40 << 10}[rng.IntN(6)]
				pause, late := rng.IntN(50) == 0, time.Duration(rng.IntN(400))*time.Microsecond
				room := n
				if small := rng.IntN(4) == 0; n == 200 && small {
					room = 7 // too small
				}
				if c.Rank() == 0 {
					if pause {
						time.Sleep(late)
					}
					if n > 0 {
						buf[0], buf[n-1] = k, k
					}
					switch {
					case k%5 == 3: // later messages are sent before it is received
						under = append(under, c.Issend(Of(slices.Clone(buf[:n])), 1, 3))
					case k%7 == 3:
						if err := c.Ssend(Of(buf[:n]), 1, 3); err != nil {
							return err
						}
					default:
						if err := c.Send(Of(buf[:n]), 1, 3); err != nil {
							return err
						}
					}
					continue
				}
				st, err := c.Recv(Of(buf[:room]), 0, 3)
				if st.Bytes != 8*n || st.Source != 0 || st.Tag != 3 {
					return fmt.Errorf("message %d of %d elements: %+v", k, n, st)
				}
				if room < n && !errors.Is(err, ErrTruncated) || room == n && err != nil {
					return fmt.Errorf("message %d: %w", k, err)
				}
				if n > 0 && (buf[0] != k || room == n && buf[n-1] != k) {
					return fmt.Errorf("message %d: it is number %d", k, buf[0])
				}
			}
			return WaitAll(context.Background(), under...)
		})
		require.NoError(t, err, name)
	}
}

// Several goroutines of a rank receive in all ways at once: each has its messages, in order.
func TestDirectReceiveAmongOthers(t *testing.T) {
	for name, run := range runners {
		err := run(context.Background(), Config{Ranks: 3}, func(c *Comm) error {
			const messages = 400
			if c.Rank() != 0 {
				for k := range messages {
					for tag := range 4 {
						if err := c.Send(Of([]int{k}), 0, tag); err != nil {
							return err
						}
					}
				}
				return nil
			}
			errs := make([]error, 8)
			var wg sync.WaitGroup
			for i := range errs {
				src, tag := 1+i%2, i/2
				wg.Go(func() {
					in := []int{0}
					for k := range messages {
						var err error
						switch tag {
						case 0, 1:
							_, err = c.Recv(Of(in), src, tag)
						case 2:
							_, err = c.Irecv(Of(in), src, tag).Wait(context.Background())
						default:
							if _, err = c.Probe(src, tag); err == nil {
								_, err = c.Recv(Of(in), src, tag)
							}
						}
						if err != nil || in[0] != k {
							errs[i] = errors.Join(err, fmt.Errorf("message %d of rank %d with tag %d is %d", k, src, tag, in[0]))
							return
						}
					}
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
		require.NoError(t, err, name)
	}
}

// An element type that is not the sender's is an error of the receive, whichever way the message
// takes, and the message is consumed.
func TestDirectReceiveType(t *testing.T) {
	for name, run := range runners {
		err := run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
			for range 50 {
				if c.Rank() == 0 {
					if err := errors.Join(c.Send(Of([]float64{1}), 1, 0), c.Send(Of([]int{2}), 1, 0)); err != nil {
						return err
					}
					continue
				}
				in := []int{0}
				if st, err := c.Recv(Of(in), 0, 0); !errors.Is(err, ErrType) || st.Bytes != 8 || in[0] != 0 {
					return fmt.Errorf("%+v, %d: %w", st, in[0], err)
				}
				if _, err := c.Recv(Of(in), 0, 0); err != nil || in[0] != 2 {
					return fmt.Errorf("%d: %w", in[0], err)
				}
			}
			return nil
		})
		require.NoError(t, err, name)
	}
}

// Some messages of a ping-pong bypass the matcher.
func TestDirectReceiveBypassesTheMatcher(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("a rank gives its only processor to the other one when its poll budget is spent")
	}
	require.NoError(t, runShm(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		one := []int{0}
		for {
			before := posts(c)
			if c.Rank() == 0 {
				if err := c.Send(Of(one), 1, 0); err != nil {
					return err
				}
			}
			if _, err := c.Recv(Of(one), 1-c.Rank(), 0); err != nil {
				return err
			}
			if c.Rank() == 0 && posts(c) == before || one[0] < 0 {
				one[0] = -1 // the other rank must stop too
			}
			if c.Rank() == 1 || one[0] < 0 {
				if err := c.Send(Of(one), 1-c.Rank(), 0); err != nil {
					return err
				}
			}
			if one[0] < 0 {
				return nil
			}
		}
	}))
}

// posts is the number of operations that were queued at the rank.
func posts(c *Comm) uint64 {
	c.proc.mu.Lock()
	defer c.proc.mu.Unlock()
	return c.proc.m.Seq
}
