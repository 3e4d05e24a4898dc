// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package fabrictest

import (
	"bytes"
	"sync"

	"weft/internal/fabric"
)

// pattern returns n bytes.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// sink keeps what arrives.
type sink struct {
	mu     sync.Mutex
	got    []got
	signal chan struct{}
	extra  func(src int, f fabric.Frame)
	lost   chan int
}

type got struct {
	src  int
	head [fabric.HeadWords]uint64
	data []byte
}

func (s *sink) Deliver(src int, f fabric.Frame) {
	s.mu.Lock()
	s.got = append(s.got, got{src, f.Head, bytes.Clone(f.Data)})
	s.mu.Unlock()
	if s.extra != nil {
		s.extra(src, f)
	}
	s.signal <- struct{}{}
}

func (s *sink) Lost(src int, _ error) { s.lost <- src }

func bindAll(eps []fabric.Endpoint) []*sink {
	sinks := make([]*sink, len(eps))
	for i, e := range eps {
		sinks[i] = &sink{signal: make(chan struct{}, 1<<16), lost: make(chan int, 64)}
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
