// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"weft/internal/fabric"
	"weft/internal/progress"
)

// sink is a handler that keeps the frames that arrive.
type sink struct {
	mu     sync.Mutex
	got    []got
	signal chan struct{}
	extra  func(src int, f fabric.Frame)
	lost   chan int
}

type got struct {
	src    int
	target int32
	head   [fabric.HeadWords]uint64
	data   []byte
}

func (s *sink) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	s.mu.Lock()
	s.got = append(s.got, got{src, f.Target, f.Head, bytes.Clone(f.Data)})
	s.mu.Unlock()
	if s.extra != nil {
		s.extra(src, *f)
	}
	s.signal <- struct{}{}
	return false
}

func (s *sink) Lost(src int, _ error) { s.lost <- src }

// morePollers: additional goroutines poll all the time during the tests.
var morePollers atomic.Bool

// bindAll binds endpoints to sinks, and to engines that poll them.
func bindAll(t *testing.T, eps []fabric.Endpoint) []*sink {
	sinks, _ := bindHeld(t, eps, nil)
	return sinks
}

// bindHeld is bindAll for engines whose own goroutines do not poll before hold is closed.
func bindHeld(t *testing.T, eps []fabric.Endpoint, hold <-chan struct{}) (sinks []*sink, engines []*progress.Engine) {
	var pollers sync.WaitGroup
	over := make(chan struct{})
	t.Cleanup(func() { close(over); pollers.Wait() })
	for _, e := range eps {
		s := &sink{signal: make(chan struct{}, 1<<16), lost: make(chan int, 64)}
		g := progress.New(e.Sources(), progress.Config{Ranks: 1, Hold: hold})
		e.Bind(s, g)
		sinks, engines = append(sinks, s), append(engines, g)
		for k := range 2 {
			if !morePollers.Load() || hold != nil {
				break
			}
			pollers.Go(func() { pollRepeatedly(g, k, over) })
		}
	}
	return sinks, engines
}

func pollRepeatedly(g *progress.Engine, i int, over <-chan struct{}) {
	woken := make(chan struct{}, 1)
	for ; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		switch i % 5 {
		case 0:
			g.PollChannel(woken, g.Enter())
		case 1:
			g.Try()
		case 2:
			g.Poll()
		case 3:
			if g.Enter() {
				g.Leave()
			}
		default:
			runtime.Gosched()
		}
	}
}

func (s *sink) wait(n int) []got {
	for range n {
		<-s.signal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]got(nil), s.got...)
}
