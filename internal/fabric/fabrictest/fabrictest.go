// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package fabrictest is the conformance suite of fabrics: what a fabric advertises must work, and what
// it does not advertise must be refused.
package fabrictest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// Run checks the fabrics that open makes. open returns the connected endpoints of n ranks.
func Run(t *testing.T, open func(t *testing.T, n int) []fabric.Endpoint) {
	t.Run("identity", func(t *testing.T) { identity(t, open(t, 3)) })
	t.Run("all pairs", func(t *testing.T) { allPairs(t, open(t, 4)) })
	t.Run("data is the sender's again", func(t *testing.T) { ownership(t, open(t, 2)) })
	t.Run("order", func(t *testing.T) { order(t, open(t, 3)) })
	t.Run("send from deliver", func(t *testing.T) { nested(t, open(t, 2)) })
	t.Run("refs", func(t *testing.T) { refs(t, open(t, 2)) })
	t.Run("limits", func(t *testing.T) { limits(t, open(t, 2)) })
	t.Run("bad rank", func(t *testing.T) {
		eps := open(t, 2)
		bindAll(eps)
		require.ErrorIs(t, eps[0].Send(2, fabric.Frame{}), fabric.ErrRank)
		require.ErrorIs(t, eps[0].Send(-1, fabric.Frame{}), fabric.ErrRank)
	})
	t.Run("close", func(t *testing.T) {
		eps := open(t, 2)
		bindAll(eps)
		require.NoError(t, eps[0].Close())
		require.NoError(t, eps[0].Close(), "a second close is harmless")
		require.ErrorIs(t, eps[0].Send(1, fabric.Frame{}), fabric.ErrClosed)
	})
}

// sink keeps what arrives.
type sink struct {
	mu     sync.Mutex
	got    []got
	signal chan struct{}
	extra  func(src int, f fabric.Frame)
}

type got struct {
	src  int
	head [fabric.HeadWords]uint64
	data []byte
	ref  any
}

func (s *sink) Deliver(src int, f fabric.Frame) {
	s.mu.Lock()
	s.got = append(s.got, got{src, f.Head, bytes.Clone(f.Data), f.Ref})
	s.mu.Unlock()
	if s.extra != nil {
		s.extra(src, f)
	}
	s.signal <- struct{}{}
}

func bindAll(eps []fabric.Endpoint) []*sink {
	sinks := make([]*sink, len(eps))
	for i, e := range eps {
		sinks[i] = &sink{signal: make(chan struct{}, 1<<16)}
		e.Bind(sinks[i])
	}
	return sinks
}

func (s *sink) wait(n int) []got {
	for range n {
		<-s.signal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]got(nil), s.got...)
}

func identity(t *testing.T, eps []fabric.Endpoint) {
	bindAll(eps)
	for i, e := range eps {
		require.Equal(t, i, e.Rank())
		require.Equal(t, len(eps), e.Size())
		for p := range eps {
			c := e.Caps(p)
			require.NotEmpty(t, c.Kind)
			require.GreaterOrEqual(t, c.EagerLimit, 0)
		}
	}
}

func allPairs(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	for i, e := range eps {
		for d := range eps {
			f := fabric.Frame{Data: fmt.Appendf(nil, "%d to %d", i, d)}
			for w := range f.Head {
				f.Head[w] = uint64(w)<<60 | uint64(i)<<8 | uint64(d)
			}
			require.NoError(t, e.Send(d, f))
		}
	}
	for d, s := range sinks {
		all := s.wait(len(eps))
		require.Len(t, all, len(eps))
		for _, g := range all {
			require.Equal(t, fmt.Sprintf("%d to %d", g.src, d), string(g.data))
			for w := range g.head {
				require.Equal(t, uint64(w)<<60|uint64(g.src)<<8|uint64(d), g.head[w])
			}
		}
	}
}

func ownership(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	data := []byte{0}
	for i := range 100 {
		data[0] = byte(i)
		require.NoError(t, eps[0].Send(1, fabric.Frame{Data: data}))
	}
	seen := map[byte]bool{}
	for _, g := range sinks[1].wait(100) {
		seen[g.data[0]] = true
	}
	require.Len(t, seen, 100)
}

func order(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	const per = 500
	var wg sync.WaitGroup
	for src := range 2 {
		wg.Go(func() {
			for i := range per {
				f := fabric.Frame{}
				f.Head[0] = uint64(i)
				if eps[src].Send(2, f) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	next := [2]uint64{}
	all := sinks[2].wait(2 * per)
	if !eps[0].Caps(2).Ordered {
		return
	}
	for _, g := range all {
		require.Equal(t, next[g.src], g.head[0], "frames of rank %d overtook", g.src)
		next[g.src]++
	}
}

func nested(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	sinks[1].extra = func(src int, f fabric.Frame) {
		if f.Head[0] > 0 {
			f.Head[0]--
			_ = eps[1].Send(0, f)
		}
	}
	sinks[0].extra = func(src int, f fabric.Frame) { _ = eps[0].Send(1, f) }
	f := fabric.Frame{}
	f.Head[0] = 10
	require.NoError(t, eps[0].Send(1, f))
	require.Len(t, sinks[1].wait(11), 11)
}

func refs(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	x := new(int)
	err := eps[0].Send(1, fabric.Frame{Ref: x})
	if !eps[0].Caps(1).SameAddressSpace {
		require.Nil(t, eps[0].Local(1))
		require.ErrorIs(t, err, fabric.ErrUnsupported)
		return
	}
	require.NoError(t, err)
	require.Same(t, sinks[1], eps[0].Local(1))
	require.Same(t, x, sinks[1].wait(1)[0].ref)
}

func limits(t *testing.T, eps []fabric.Endpoint) {
	sinks := bindAll(eps)
	limit := eps[0].Caps(1).MaxFrame
	size := limit
	if size == 0 {
		size = 4 << 20
	}
	data := bytes.Repeat([]byte("weft"), size/4+1)[:size]
	require.NoError(t, eps[0].Send(1, fabric.Frame{Data: data}))
	require.True(t, bytes.Equal(data, sinks[1].wait(1)[0].data))
	if limit > 0 {
		require.ErrorIs(t, eps[0].Send(1, fabric.Frame{Data: append(data, 0)}), fabric.ErrUnsupported)
	}
}
