// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// Where a lost rank is the end of the run, what a fabric ends before anybody knows why waits for
// the news, and ends once, with these; a small send is over as if it had arrived. Without news the
// loss is the cause. Where the run survives, nothing waits.
func TestStrandedOperationsWaitForNews(t *testing.T) {
	defer func(d time.Duration) { strandedFor = d }(strandedFor)
	big := func() Buffer { return Of(make([]byte, 1000)) }
	for name, begin := range map[string]func(ep *neighbour, c *Comm) *Request{
		"a send that cannot be announced": func(ep *neighbour, c *Comm) *Request {
			ep.fails = errTest
			return c.Isend(big(), 1, 2)
		},
		"a send whose payload is not taken": func(ep *neighbour, c *Comm) *Request {
			r := c.Isend(big(), 1, 2)
			c.proc.Deliver(1, frameOf(wanted, 0, 1, 7, 0, 0, 1000))
			ep.pushes[0].done(errTest)
			return r
		},
		"the same from memory in pieces": func(ep *neighbour, c *Comm) *Request {
			r := c.Isend(Vector(make([]byte, 2000), 1000, 1, 2), 1, 2)
			c.proc.Deliver(1, frameOf(wanted, 0, 1, 7, 0, 0, 1000))
			ep.pushes[0].done(errTest)
			return r
		},
		"a receive whose payload does not come": func(ep *neighbour, c *Comm) *Request {
			r := c.Irecv(big(), 1, 2)
			c.proc.Deliver(1, frameOfHeader(header{proto: ready, elem: Byte, elemSize: 1, src: 1, tag: 2, length: 1000}, make([]byte, 8)))
			ep.expected.Lose(1, errTest)
			return r
		},
		"a small send": func(ep *neighbour, c *Comm) *Request {
			ep.fails = errTest
			return c.Isend(Of([]byte{1}), 1, 2)
		},
	} {
		for _, news := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, news %v", name, news), func(t *testing.T) {
				strandedFor = time.Hour
				ep, c := withNeighbours(t, false)
				if !news {
					strandedFor = time.Microsecond
				}
				r := begin(ep, c)
				told := 0
				over := make(chan error, 2)
				r.OnDone(func(err error) { told++; over <- err })
				if name == "a small send" {
					require.NoError(t, <-over)
				}
				if news {
					require.Equal(t, btoi(name == "a small send"), told, "it waits")
					require.Nil(t, c.world.aborted.Load())
					ep.fails = nil
					f := frameOf(ending, 0, 2, 0)
					f.Data = []byte("no such file")
					c.proc.Deliver(2, f)
				}
				if name != "a small send" {
					err := <-over
					require.ErrorIs(t, err, ErrAborted)
					if news {
						require.ErrorContains(t, err, "rank 2: no such file")
						require.NotErrorIs(t, err, ErrPeerLost)
					} else {
						require.ErrorContains(t, err, "rank 1 is lost: test")
						require.ErrorIs(t, err, ErrPeerLost)
					}
				}
				<-c.world.killed
				require.Equal(t, 1, told)
				var of *RankError
				require.ErrorAs(t, c.world.aborted.Load(), &of)
				require.Equal(t, 1+btoi(news), of.Rank)
				require.Empty(t, c.proc.far.stranded)
				require.False(t, c.proc.stranded(1, errTest, nil), "the run has ended: nothing waits any more")
			})
		}
	}
	_, c := withNeighbours(t, false)
	for _, err := range []error{nil, ErrRevoked, ErrMismatch, &LostError{Rank: 1, Err: errTest}} {
		require.False(t, c.proc.stranded(1, err, func(error) { t.Error("it ends by itself") }), "%v", err)
	}
	_, c = withNeighbours(t, true)
	require.False(t, c.proc.stranded(1, errTest, nil))
}

// The first operation that is stranded decides which rank is lost, and when.
func TestOneNewsForAllThatIsStranded(t *testing.T) {
	defer func(d time.Duration) { strandedFor = d }(strandedFor)
	strandedFor = time.Hour
	_, c := withNeighbours(t, false)
	ended := 0
	for i := range 3 {
		if i > 0 {
			strandedFor = 0 // which is too late
		}
		require.True(t, c.proc.stranded(1+i%2, fabric.ErrClosed, func(err error) {
			require.ErrorIs(t, err, errTest)
			ended++
		}))
	}
	require.True(t, c.proc.stranded(2, fabric.ErrClosed, nil))
	for range 1000 { // in which a timer would have ended the run, mostly
		runtime.Gosched()
	}
	require.Nil(t, c.world.aborted.Load())
	c.world.end(errTest)
	require.Equal(t, 3, ended)
}
