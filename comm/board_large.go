// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"weft/comm/internal/coll"
)

// Large reductions at the board: what is to be combined goes through a stage, memory of each rank that all have mapped. README.md, "A large reduction at
// the board", has the protocol and its argument.

// Of the word step: the number of a collective << stepBits, and what a rank has done of it. In each round it first shows what the others are to combine, and then
// what it has combined.
const (
	stepBits   = 32
	stepLeft   = 1<<stepBits - 3 // it has given up because another rank's operator has failed: no round has this number
	stepFailed = 1<<stepBits - 2 // its operator has failed, and its result is what that has panicked with
	stepOver   = 1<<stepBits - 1 // it needs no other rank's stage any more
)

// stagePiece is how many bytes a rank combines at a time: small enough to stay in the nearest cache until it has been copied to where it belongs.
const stagePiece = 16 << 10

// stageRounds bounds the rounds of a collective; 16 TiB.
const stageRounds = 1 << 26

// stageable reports whether the stage will do for the elements: what all ranks know alike.
func stageable(d *coll.Call) bool {
	return d.In.ElemSize() <= stageElem && d.Unit/stageWindow < stageRounds
}

// lending says who has a rank's stage.
type lending struct {
	lent   bool
	broken bool   // somebody has given up: others may read it for ever
	last   *board // who has had it, whose ranks may read it until they are over with
	seq    uint64 // this collective
}

// lend gives the caller's board the rank's stage, if nobody uses it: neither another goroutine of this rank, nor another rank that reads what was there before.
func (s *boards) lend(b *board) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.own
	if o.lent || o.broken || len(b.stages[b.c.rank].in) == 0 || o.last != nil && o.last != b && !o.last.isOver(o.seq) {
		return false
	}
	o.lent = true
	return true
}

// used says that others may read the stage from now on.
func (s *boards) used(b *board, seq uint64) {
	s.mu.Lock()
	s.own.last, s.own.seq = b, seq
	s.mu.Unlock()
}

// spoilt says that nobody can know any more who reads it.
func (s *boards) spoilt() {
	s.mu.Lock()
	s.own.broken = true
	s.mu.Unlock()
}

// returned ends the caller's use.
func (s *boards) returned() {
	s.mu.Lock()
	s.own.lent = false
	s.mu.Unlock()
}

// isOver reports whether no rank reads another one's stage for a collective any more. They mostly end together, so it looks some times.
func (b *board) isOver(seq uint64) bool {
	const looks = 1000
	for _, q := range b.parts {
		for n := 0; q.step.Load() < seq<<stepBits|stepOver; n++ {
			if n == looks {
				return false
			}
		}
	}
	return true
}

// windowOf returns which bytes of the payload round k is about.
func windowOf(d *coll.Call, k int) (lo, hi int) {
	e := d.In.ElemSize()
	size := stageWindow / e * e
	return min(k*size, d.Unit), min((k+1)*size, d.Unit)
}

// blockOf returns which bytes of a window rank r combines.
func blockOf(d *coll.Call, r, n, lo, hi int) (from, to int) {
	e := d.In.ElemSize()
	m := (hi - lo) / e
	return lo + m*r/n*e, lo + m*(r+1)/n*e
}

// show puts what the others are to combine in round k on the stage.
func (b *board) show(d *coll.Call, k int) {
	lo, hi := windowOf(d, k)
	from, to := blockOf(d, b.c.rank, b.c.size, lo, hi)
	mem := b.stages[b.c.rank].in
	if _, whole := d.In.Contiguous(); !whole {
		from, to = hi, hi // it is combined from here, too
	}
	d.In.CopyToBytes(mem[:from-lo], lo)
	d.In.CopyToBytes(mem[to-lo:hi-lo], to)
}

// done says how far this rank has come, and wakes those that sleep.
func (b *board) done(step uint64) {
	b.mine.step.Store(b.seq<<stepBits | step)
	b.nudgeAll(b.sleepers(true)) //bug:nudge
}

// come reports whether all ranks have come as far as is wanted, or there is a reason to give up. The caller is at the board.
func (b *board) come() bool {
	if b.hopeless() {
		return true
	}
	for ; b.next < len(b.parts); b.next++ {
		if b.parts[b.next].step.Load() < b.want {
			return false
		}
	}
	return true
}

// until waits until all ranks have done a step. It returns an error if one never will.
func (b *board) until(d *coll.Call, step uint64) error {
	b.want, b.next = b.seq<<stepBits|step, 0
	b.await(d, b.hasCome)
	if b.barred != nil {
		return b.barred
	}
	return b.failure()
}

// failure returns why another rank has given up, nil if none has. Whoever has left has seen one that failed, which is found then too.
func (b *board) failure() error {
	left := false
	for range 2 {
		for r, q := range b.parts {
			switch q.step.Load() {
			case b.seq<<stepBits | stepFailed:
				return &operatorError{at: fmt.Sprintf(", at rank %d", r), panic: readPanic(b.stages[r].result)}
			case b.seq<<stepBits | stepLeft:
				left = true
			}
		}
		if !left {
			return nil
		}
	}
	return ErrOperator
}

// writePanic puts what an operator has panicked with to where other processes read it, as far as it fits; nil: it has left its goroutine.
func writePanic(mem []byte, p *PanicError) {
	if p == nil {
		p = &PanicError{Value: "it has left its goroutine"}
	}
	text := fmt.Appendf(nil, "%v\x00%s", p.Value, p.Stack)
	n := copy(mem[4:], text[:min(len(text), maxPanic)])
	binary.LittleEndian.PutUint32(mem, uint32(n))
}

// maxPanic bounds the text of a panic.
const maxPanic = 16 << 10

// readPanic is what it reads there. The value is only a text.
func readPanic(mem []byte) *PanicError {
	n := min(int(binary.LittleEndian.Uint32(mem)), len(mem)-4, maxPanic)
	value, stack, _ := bytes.Cut(bytes.Clone(mem[4:4+n]), []byte{0})
	return &PanicError{Value: string(value), Stack: stack}
}

// combineLarge does a large reduction. All ranks are at the board, and agree.
func (b *board) combineLarge(d *coll.Call) (err error) {
	owner := &b.c.proc.boards
	owner.used(b, b.seq)
	combines := false
	err = ErrOperator // if a user's operator leaves its goroutine
	defer func() {
		switch {
		case err == nil:
			b.done(stepOver)
		case b.barred != nil: // the others hear of that by themselves
			owner.spoilt()
		case combines: // nobody reads this rank's result
			owner.spoilt()
			op, _ := errors.AsType[*operatorError](err)
			writePanic(b.stages[b.c.rank].result, op.cause())
			b.done(stepFailed)
		default:
			owner.spoilt()
			b.done(stepLeft)
		}
	}()
	for k := 0; ; k++ {
		lo, hi := windowOf(d, k)
		if lo == hi {
			return nil
		}
		if k > 0 {
			b.show(d, k)
		}
		b.done(uint64(2*k + 1))
		if err := b.until(d, uint64(2*k+1)); err != nil { //bug:all-have-shown
			return err
		}
		combines = true
		if err := b.combineBlock(d, lo, hi); err != nil {
			return err
		}
		combines = false
		b.done(uint64(2*k + 2))
		if err := b.until(d, uint64(2*k+2)); err != nil { //bug:all-have-combined
			return err
		}
		n := b.c.size
		for i := 1; i < n; i++ {
			r := (b.c.rank + i) % n // not all from the same one at a time
			from, to := blockOf(d, r, n, lo, hi)
			d.Out.CopyFromBytes(b.stages[r].result[:to-from], from)
		}
	}
}

// combineBlock combines this rank's block of a window.
func (b *board) combineBlock(d *coll.Call, lo, hi int) error {
	me, n := b.c.rank, b.c.size
	own, whole := d.In.Contiguous()
	from, to := blockOf(d, me, n, lo, hi)
	var at, end int // the piece
	t := coll.TreeOf(d, n)
	t.Leaf = func(r int) []byte {
		if r == me && whole {
			return own[at:end]
		}
		return b.stages[r].in[at-lo : end-lo]
	}
	e := coll.Pads.Get().(*coll.Pad)
	defer e.Release()
	size := stagePiece / d.In.ElemSize() * d.In.ElemSize() // see stageable
	for at = from; at < to; at = end {
		end = min(at+size, to)
		dst := b.stages[me].result[at-from : end-from]
		if err := t.Eval(e, dst, 0, t.Width, 0); err != nil {
			return err
		}
		d.Out.CopyFromBytes(dst, at) // only now: it may be the memory of in
	}
	return nil
}
