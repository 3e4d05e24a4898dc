// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"sync/atomic"

	"weft/comm/internal/mem"
)

// A collective by messages is a schedule, which has no goroutine. The algorithms are in files by
// operation: each makes the steps of a schedule.

// step starts the transfers of step i of a schedule; they are concurrent. The next call is made
// when all of these are complete, on the goroutine that completed the last one. Between steps the
// schedule may use the memory. more is false at the end.
type step = func(i int) (more bool, err error)

// member is a rank that runs a collective. Messages from one rank to another match in the order of
// the steps.
type member interface {
	// Send and Recv start the transfer of a buffer in this step, to or from a rank. A received
	// message has exactly the buffer's size. They call Begins for a transfer that does not complete
	// at once.
	Send(dst int, b mem.Buffer)
	Recv(src int, b mem.Buffer)
	// Next is called before each step. An error ends the collective instead.
	Next() error
	// Failed is called with the first error, as soon as there is one.
	Failed(err error)
	// Over is called at the end, when no transfer uses the collective's memory any more.
	Over(err error)
}

// Schedule is a collective under way at one rank.
type Schedule struct {
	// Constant after construction.
	m          member
	rank, size int
	step       step

	// pending counts the transfers of the step under way, and one for the call that starts them.
	// The goroutine that brings it to zero owns the fields below and goes on.
	pending atomic.Int32
	failed  atomic.Pointer[error] // the first error

	// Owned by the goroutine that calls advance.
	next   int
	blocks []*mem.Block // working memory, freed at the end
}

// Start begins collective d with algorithm a.
func (s *Schedule) Start(m member, rank, size int, a *algorithm, d *Call) {
	s.m, s.rank, s.size = m, rank, size
	s.step = a.steps(s, d)
	s.pending.Store(1)
	s.advance()
}

// advance runs steps until one has to wait, or to the end. The caller owns the schedule.
func (s *Schedule) advance() {
	for more := true; ; {
		if more = more && s.failed.Load() == nil; more {
			err := s.m.Next()
			if err == nil {
				more, err = s.step(s.next)
			}
			s.next++
			if err != nil {
				s.Fail(err)
				more = false
			}
		}
		if s.pending.Add(-1) != 0 {
			return // the goroutine that completes the last transfer goes on
		}
		s.pending.Store(1)
		if !more {
			s.finish()
			return
		}
	}
}

// Begins counts a transfer for which Ended will be called.
func (s *Schedule) Begins() { s.pending.Add(1) }

// Ended is called at the end of a transfer.
func (s *Schedule) Ended(err error) {
	if err != nil {
		s.Fail(err)
	}
	if s.pending.Add(-1) == 0 {
		s.pending.Store(1)
		s.advance()
	}
}

// Fail ends the collective with an error after the transfers under way are complete.
func (s *Schedule) Fail(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		s.m.Failed(err)
	}
}

func (s *Schedule) finish() {
	for _, b := range s.blocks {
		b.Free()
	}
	s.blocks, s.step = nil, nil // the program may keep the request
	if e := s.failed.Load(); e != nil {
		s.m.Over(*e)
	} else {
		s.m.Over(nil)
	}
}

// work returns working memory for n elements like those of a buffer. It is freed at the end of the
// collective.
func (x *Schedule) work(like mem.Buffer, n int) mem.Buffer {
	blk := mem.NewBlock(n * like.ElemSize())
	x.blocks = append(x.blocks, blk)
	return like.Over(blk.B).First(n)
}

// contiguous returns b itself if it is contiguous, else working memory of its size.
func (x *Schedule) contiguous(b mem.Buffer) mem.Buffer {
	if !b.Strided() {
		return b
	}
	return x.work(b, b.Len())
}

// move copies between a buffer and its contiguous memory unless they are the same: other ranks may
// be reading it.
func (x *Schedule) move(dst, src mem.Buffer) {
	if !mem.SameMemory(dst, src) {
		mem.Copy(dst, src)
	}
}
