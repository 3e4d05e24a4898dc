// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"sync/atomic"

	"weft/comm/internal/mem"
)

// Collectives of messages are schedules, which have no goroutine. The algorithms are in files by
// operation: each makes the steps of a schedule.

// step starts the transfers of step 0, 1, 2, … of a schedule, which are concurrent. The next call
// comes when all of these are complete, on the goroutine that completed the last; between steps the
// schedule may use the memory. more is false at the end.
type step = func(i int) (more bool, err error)

// member is a rank that makes a collective. Messages from one rank to another match in the order of
// the steps.
type member interface {
	// Send and Recv start the transfer of a buffer in this step: to a rank, or of exactly the
	// buffer's size from one. They call begins for what does not end at once.
	Send(dst int, b mem.Buffer)
	Recv(src int, b mem.Buffer)
	// Next comes before each step, when the last one is over. It returns why there is to be none.
	Next() error
	// Failed tells of the first error, as soon as it is there.
	Failed(err error)
	// Over is the end, when nothing uses memory of the collective any more.
	Over(err error)
}

// Schedule is a collective under way at one rank.
type Schedule struct {
	// Constant after construction.
	m          member
	rank, size int
	step       step

	// pending counts the transfers of the step under way, and one for the call that starts them.
	// Who brings it to zero owns the fields below and goes on.
	pending atomic.Int32
	failed  atomic.Pointer[error] // the first error

	// Owned by whoever advances.
	next   int
	blocks []*mem.Block // working memory, freed at the end
}

// Start begins. d is the collective; the algorithm is the one for it, by its size.
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
			return // the last transfer goes on
		}
		s.pending.Store(1)
		if !more {
			s.finish()
			return
		}
	}
}

// Begins counts a transfer that ended is to be called for.
func (s *Schedule) Begins() { s.pending.Add(1) }

// Ended is the end of a transfer.
func (s *Schedule) Ended(err error) {
	if err != nil {
		s.Fail(err)
	}
	if s.pending.Add(-1) == 0 {
		s.pending.Store(1)
		s.advance()
	}
}

// Fail is the end of the collective with an error, when the transfers under way are over.
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

// work returns n elements of working memory, like b's. It lives as long as the collective.
func (x *Schedule) work(like mem.Buffer, n int) mem.Buffer {
	blk := mem.NewBlock(n * like.ElemSize())
	x.blocks = append(x.blocks, blk)
	return like.Over(blk.B).First(n)
}

// staged returns b itself if it is contiguous, else working memory of its size.
func (x *Schedule) staged(b mem.Buffer) mem.Buffer {
	if !b.Strided() {
		return b
	}
	return x.work(b, b.Len())
}

// unstage copies staged memory to where it belongs, or what is to be staged, unless it is there:
// others may be reading it.
func (x *Schedule) unstage(dst, staged mem.Buffer) {
	if !mem.SameMemory(dst, staged) {
		mem.Copy(dst, staged)
	}
}
