// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package inproc_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/fabric/inproc"
)

func TestConformance(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint {
		eps, err := inproc.New(n)
		require.NoError(t, err)
		return eps
	})
}

func TestGrowing(t *testing.T) {
	fabrictest.RunGrowing(t, func(t *testing.T, size, _ int) ([]fabric.Endpoint, func(int) fabric.Endpoint) {
		eps, err := inproc.New(size)
		require.NoError(t, err)
		return eps, func(rank int) fabric.Endpoint { return inproc.At(eps[0], rank) }
	})
}

func TestRanks(t *testing.T) {
	for n := -1; n < 3; n++ {
		eps, err := inproc.New(n)
		if n < 1 {
			require.ErrorIs(t, err, fabric.ErrRank)
			require.ErrorContains(t, err, fmt.Sprintf("%d ranks, at least 1 is needed", n))
			continue
		}
		require.NoError(t, err)
		require.Len(t, eps, n)
	}
}

type deaf struct{}

func (deaf) Deliver(*fabric.Frame) bool { return false }
func (deaf) Lost(int, error)            {}

// A closed rank sends nothing and receives nothing, by frame or transfer; other ranks continue.
func TestClosedRank(t *testing.T) {
	eps, err := inproc.New(3)
	require.NoError(t, err)
	for _, ep := range eps {
		ep.Bind(deaf{}, nil)
	}
	push := func(from, to int) (err error) {
		ends := 0
		eps[from].Push(to, 1, []byte{1}, func(e error) { err = e; ends++ })
		require.Equal(t, 1, ends)
		return err
	}
	require.NoError(t, eps[1].Close())
	for from := range eps {
		for to := range eps {
			var want error
			if from == 1 || to == 1 {
				want = fabric.ErrClosed
			}
			require.Equal(t, want, eps[from].Send(to, fabric.Frame{}), "%d to %d", from, to)
			require.Equal(t, want, push(from, to), "%d to %d", from, to)
		}
	}
	// A transfer that was expected before Close ends once, as does one that is expected later.
	ends := 0
	end := func(err error) {
		require.Equal(t, fabric.ErrClosed, err)
		ends++
	}
	eps[2].Expect(0, 1, make([]byte, 1), end)
	require.NoError(t, eps[2].Close())
	require.Equal(t, 1, ends)
	eps[2].Expect(0, 1, make([]byte, 1), end)
	require.Equal(t, 2, ends)
}

// A rank closes while it exchanges frames with others. Each send succeeds or is refused. After its
// first refusal, a sender is always refused.
func TestCloseDuringSendsHammer(t *testing.T) {
	for range 50 {
		eps, err := inproc.New(3)
		require.NoError(t, err)
		for _, ep := range eps {
			ep.Bind(deaf{}, nil)
		}
		var wg sync.WaitGroup
		for _, way := range [][2]int{{0, 1}, {2, 1}, {1, 0}} {
			wg.Go(func() {
				refused := 0
				for n := 0; refused < 3; n++ {
					err := eps[way[0]].Send(way[1], fabric.Frame{})
					eps[way[0]].Push(way[1], 1, []byte{1}, func(e error) {
						if err == nil {
							err = e
						}
					})
					switch {
					case err != nil:
						assert.Equal(t, fabric.ErrClosed, err)
						refused++
					case refused > 0:
						assert.Fail(t, "taken after a refusal", "%d to %d", way[0], way[1])
						return
					}
					if n%64 == 0 {
						runtime.Gosched()
					}
				}
			})
		}
		runtime.Gosched()
		require.NoError(t, eps[1].Close())
		wg.Wait()
	}
}
