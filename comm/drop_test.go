// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
)

// dropper is an endpoint that records the lost ranks it is told of.
type dropper struct {
	fabric.Endpoint
	dropped chan int
}

func (d *dropper) Drop(peer int, _ error) { d.dropped <- peer }

// The fabric is told of a lost rank of another process after that rank has had time to hear of it;
// it is not told of ranks of this process.
func TestFabricHearsOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dropper{dropped: make(chan int, 2)}
		p := &proc{ep: d, world: &world{}}
		p.world.own = []*proc{p}
		p.drop(0, errors.New("x"))
		p.drop(2, errors.New("x"))
		p.drop(1, errors.New("x"))
		time.Sleep(dropAfter - time.Nanosecond)
		synctest.Wait()
		require.Empty(t, d.dropped)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, d.dropped, 2)
		require.Equal(t, 3, <-d.dropped+<-d.dropped)
	})
}

// Messages that implement windows are not in the histogram, but in the counters of their
// communicator.
func TestUncounted(t *testing.T) {
	for how, run := range runners {
		out := counting(t, env.Histogram.Name+"=1", env.HistogramMax.Name+"=256", env.HistogramShift.Name+"=2")
		require.NoError(t, run(context.Background(), Config{Ranks: 2, Stats: true}, func(c *Comm) error {
			own, err := c.Dup() // two messages of each rank, or one
			if err != nil {
				return err
			}
			own.Uncounted()
			next := 1 - c.Rank()
			for _, d := range []*Comm{own, own, c} {
				if _, err := d.Sendrecv(Of(make([]byte, 256)), next, 0, Of(make([]byte, 256)), next, 0); err != nil {
					return err
				}
			}
			if s := own.Stats().Peers[next]; s.SentMessages != 2 || s.ReceivedMessages != 2 {
				return errors.New("the counters have not seen them")
			}
			return nil
		}), how)
		require.Contains(t, out.String(), "256  2\n", how)
	}
}
