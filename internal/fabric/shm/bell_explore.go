//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"

	"weft/internal/xatomic"
)

// bell is a pipe: it counts, since a channel of the explorer has room for one.
type bell struct {
	bytes xatomic.Int32
	some  xatomic.Chan[struct{}] // full if there are bytes that nobody is about to take
	rings int                    // for tests: all
	most  int32                  // and the most bytes at once
}

func newBell() (*bell, error) { return &bell{some: make(xatomic.Chan[struct{}], 1)}, nil }

func (b *bell) wait() error {
	b.some.Recv()
	if b.bytes.Add(-1) > 0 {
		b.some.Send(struct{}{})
	}
	return nil
}

func (b *bell) ring() {
	b.rings++
	n := b.bytes.Add(1)
	b.most = max(b.most, n)
	if n == 1 {
		b.some.Send(struct{}{})
	}
}

func (b *bell) descriptor() uintptr { return 0 }
func (b *bell) close() error        { return nil }

// rope says to a test what becomes of it.
type rope struct {
	b     *bell
	pulls func(ring func()) // calls ring
	ends  func()            // it is closed
}

func (r rope) ring() {
	r.pulls(r.b.ring)
}

func (r rope) close() { r.ends() }

// reachable is how a test connects endpoints.
var reachable func(p *peer) (*inbox, rope)

var errUnreachable = errors.New("there is nobody")

func (p *peer) reach() error {
	p.box, p.rope = reachable(p)
	if p.box == nil {
		return errUnreachable
	}
	return nil
}

// watchProcess leaves it to the test to say who has died.
func (p *peer) watchProcess() {}
