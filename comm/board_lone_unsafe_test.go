//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"math/bits"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"weft/comm/internal/coll"

	"github.com/stretchr/testify/require"
)

// boarder is the endpoint of a rank that is alone in a test, and shares memory with ranks that the
// test plays.
type boarder struct {
	*scribe
	mems [][]byte // by rank; nil: it cannot be had
}

func (s *boarder) Shared(r int) ([]byte, error) {
	if s.mems[r] == nil {
		return nil, errTest
	}
	return s.mems[r], nil
}

// boardMemory is the size of memory that has room for all boards and a stage.
const boardMemory = (maxBoards*int(unsafe.Sizeof(boardPart{}))+4095)&^4095 + stageWindow + stageResult

// loneBoard returns rank me of n with a board, whose other ranks are the test.
func loneBoard(t *testing.T, me, n int) (*Comm, *boarder) {
	t.Helper()
	c, s := lone(t, me, n)
	b := &boarder{scribe: s}
	for range n {
		b.mems = append(b.mems, make([]byte, boardMemory))
	}
	c.proc.ep = b
	c.world.together = func([]int32, int) bool { return true }
	c.makeBoard(worldBoard)
	require.NotNil(t, c.board)
	return c, b
}

func TestWhoHasABoard(t *testing.T) {
	const part = int(unsafe.Sizeof(boardPart{}))
	for what, x := range map[string]struct {
		n, index int
		edit     func(c *Comm, b *boarder)
		has      bool
	}{
		"two":                {2, 0, func(*Comm, *boarder) {}, true},
		"one":                {1, 0, func(*Comm, *boarder) {}, false},
		"the most":           {flatRanks, maxBoards - 1, func(*Comm, *boarder) {}, true},
		"one more":           {flatRanks + 1, 0, func(*Comm, *boarder) {}, false},
		"a hub":              {2, 0, func(c *Comm, _ *boarder) { c.hub = newHub(nil, 2) }, false},
		"nobody knows where": {2, 0, func(c *Comm, _ *boarder) { c.world.together = nil }, false},
		"only messages":      {2, 0, func(c *Comm, _ *boarder) { c.world.direct = false }, false},
		"no memory":          {2, 0, func(c *Comm, _ *boarder) { c.proc.ep = &scribe{} }, false},
		"not its own":        {2, 0, func(_ *Comm, b *boarder) { b.mems[0] = nil }, false},
		"not another's":      {2, 0, func(_ *Comm, b *boarder) { b.mems[1] = nil }, true}, // as it will find
		"too little of it":   {2, 1, func(_ *Comm, b *boarder) { b.mems[0] = b.mems[0][:2*part-1] }, false},
		"just enough of it":  {2, 1, func(_ *Comm, b *boarder) { b.mems[0] = b.mems[0][:2*part] }, true},
		"on several nodes":   {2, 0, func(c *Comm, _ *boarder) { c.world.together = func(_ []int32, n int) bool { return n != 2 } }, false},
	} {
		c, s := lone(t, 0, x.n)
		b := &boarder{scribe: s}
		for range x.n {
			b.mems = append(b.mems, make([]byte, boardMemory))
		}
		c.proc.ep = b
		c.world.together = func(_ []int32, n int) bool { return n == x.n }
		x.edit(c, b)
		c.makeBoard(x.index)
		require.Equal(t, x.has, c.board != nil, what)
		require.Equal(t, x.has, c.proc.boards.all[c.ctx] != nil, what)
	}
	require.Nil(t, boardPartAt(make([]byte, part), -1))
	mem := make([]byte, boardMemory)
	require.NotNil(t, boardPartAt(mem, maxBoards-1))
	require.EqualValues(t, unsafe.Pointer(&mem[part]), unsafe.Pointer(boardPartAt(mem, 1)))
	s := stageAt(mem)
	require.Len(t, s.in, stageWindow)
	require.Equal(t, stageWindow, cap(s.in))
	require.Len(t, s.result, stageResult)
	require.Same(t, &mem[boardMemory-1], &s.result[stageResult-1])
	require.Same(t, &mem[boardMemory-stageResult-stageWindow], &s.in[0])
	require.Empty(t, stageAt(mem[:boardMemory-1]).in)
}

// Indices of boards are offered to one communicator at a time, so many, the lowest; the lowest that
// all have is taken, and the others are free again.
func TestBoardIndices(t *testing.T) {
	c, _ := loneBoard(t, 0, 3)
	s, w := &c.proc.boards, c.world
	s.free = ^uint64(1)
	require.EqualValues(t, 0b11110, s.offered(w))
	require.EqualValues(t, 0b111100000, s.offered(w))
	s.giveBack(0b11110)
	require.EqualValues(t, 0b11110, s.offered(w))
	d := c.sub([]int{2, 0}, 4)
	s.settle(d, 0b11000, 0b11110)
	require.Equal(t, 3, d.board.index)
	require.Equal(t, ^uint64(0b111101001), s.free)
	e := c.sub([]int{2, 0}, 6)
	s.settle(e, 0, 0b111100000)
	require.Nil(t, e.board)
	require.Equal(t, ^uint64(0b1001), s.free)
	s.free = 1 << 63
	require.Equal(t, uint64(1<<63), s.offered(w))
	require.Zero(t, s.offered(w))
	s.giveBack(1 << 63)
	w.together = nil
	require.Zero(t, s.offered(w))
	require.Equal(t, 1, bits.OnesCount64(s.free))
}

// otherAtBoard is what a rank at a board that the test plays has done.
type otherAtBoard struct {
	part *boardPart
	hist history
	seq  uint64
}

func neighbourAt(b *boarder, r int) *otherAtBoard {
	return &otherAtBoard{part: boardPartAt(b.mems[r], worldBoard)}
}

// shows shows its part of its next collective.
func (q *otherAtBoard) shows(d coll.Call) {
	q.seq++
	elem := (&coll.Call{In: d.In, Out: d.Out}).Elem()
	q.hist.record(&d, elem)
	p := &q.part.places[(q.seq-1)%2]
	p.what, p.elem, p.unit = d.What, elem, uint64(d.Unit)
	if d.Unit > 0 {
		d.In.CopyToBytes(p.data[:d.Unit], 0)
	}
	p.state.Store(q.seq)
}

// aBarrier and aSum are collectives as a rank calls them.
func aBarrier() coll.Call {
	return coll.Call{Kind: coll.Barrier, What: coll.NewCollective(coll.Barrier, nil, -1), Root: -1}
}

func aSum(in, out Buffer) coll.Call {
	return coll.Call{Kind: coll.Allreduce, What: coll.NewCollective(coll.Allreduce, Sum.impl, -1), Root: -1, Op: Sum.impl, Unit: in.Bytes(), In: in.b, Out: out.b}
}

// nudges returns the ranks that frames have nudged since the last call.
func (s *boarder) nudges() (to []int) {
	for _, x := range s.take() {
		if protocol(x.f.Head[3]>>8) == nudging {
			to = append(to, x.to)
		}
	}
	return to
}

// A rank shows its part, nudges those that sleep, and no others, and sleeps itself if it has to,
// which it takes back; reports say so meanwhile. A place is used again when all are done with it.
func TestOneRankAtABoard(t *testing.T) {
	c, s := loneBoard(t, 1, 3)
	b, q0, q2 := c.board, neighbourAt(s, 0), neighbourAt(s, 2)
	require.Empty(t, b.waits())

	q0.shows(aBarrier())
	over := make(chan error)
	go func() { over <- c.Barrier() }()
	for b.mine.sleeps.Load() == 0 {
		runtime.Gosched()
	}
	require.Contains(t, b.waits(), "rank 2 in barrier number 1, at")
	c.proc.nudged(99) // of nobody
	c.proc.nudged(c.ctx)
	for range 100 { // nothing has come: it sleeps again
		runtime.Gosched()
	}
	for b.mine.sleeps.Load() == 0 {
		runtime.Gosched()
	}
	q2.shows(aBarrier())
	c.proc.nudged(c.ctx)
	require.NoError(t, <-over)
	require.Zero(t, b.mine.sleeps.Load())
	require.Empty(t, b.waits())
	require.Empty(t, s.nudges())
	require.False(t, b.busy.Load())
	require.EqualValues(t, 0, b.safe)
	require.Equal(t, [2]uint64{1, 0}, b.shown)

	// The others are here first, and one of them sleeps.
	in := []int32{10, 20, 30}
	out := make([]int32, 3)
	for _, q := range []*otherAtBoard{q0, q2} {
		q.shows(aSum(Of([]int32{1, 2, 3}), Buffer{}))
	}
	q2.part.sleeps.Store(1)
	require.NoError(t, c.Allreduce(Of(in), Of(out), Sum))
	require.Equal(t, []int32{12, 24, 36}, out)
	require.Equal(t, []int{2}, s.nudges())
	require.EqualValues(t, 1, b.safe)
	require.Equal(t, [2]uint64{1, 2}, b.shown)
	q2.part.sleeps.Store(0)

	// One of them makes it of messages; so does this one.
	q2.seq++
	q2.part.past[3].Store(3)
	d := aBarrier()
	q2.hist.record(&d, 0)
	q0.shows(aBarrier())
	d = aBarrier()
	seq, done, err := b.meetFar(&d)
	require.NoError(t, err)
	require.False(t, done)
	require.EqualValues(t, 3, seq)
	require.EqualValues(t, 1, b.safe)
	require.Zero(t, b.mine.past[3].Load(), "it was shown")

	// This one makes the next two of messages: all may know, and who sleeps does.
	q0.part.sleeps.Store(1)
	for n := uint64(4); n <= 5; n++ {
		d := aBarrier()
		require.Equal(t, n, c.number(&d))
		require.Equal(t, n, b.mine.past[n].Load())
		require.Equal(t, n, b.mine.floor.Load())
		require.Equal(t, []int{0}, s.nudges())
	}
	b.busy.Store(true) // somebody is there, who may need what others show
	d = aBarrier()
	require.EqualValues(t, 6, c.number(&d))
	require.EqualValues(t, 6, b.mine.past[6].Load())
	require.EqualValues(t, 5, b.mine.floor.Load())
	d = aBarrier()
	seq, done, err = b.meetFar(&d) // nor is there room for another one
	require.NoError(t, err)
	require.False(t, done)
	require.EqualValues(t, 7, seq)
	b.busy.Store(false)
	require.EqualValues(t, 7, b.mine.past[7].Load())

	// Behind the end of the run it shows nothing any more.
	c.proc.boards.close()
	before := [2]uint64{b.mine.places[0].state.Load(), b.mine.places[1].state.Load()}
	d = aBarrier()
	seq, shown := b.begin(&d, true)
	require.EqualValues(t, 8, seq)
	require.False(t, shown)
	require.Zero(t, b.mine.past[8].Load())
	require.Equal(t, before, [2]uint64{b.mine.places[0].state.Load(), b.mine.places[1].state.Load()})
	select {
	case <-b.token: // of a nudge that came when the caller was awake
	default:
	}
	c.proc.nudged(c.ctx) // it is forgotten
	require.Empty(t, b.token)
}

// Where some rank's memory cannot be had, nobody meets at the board, and all others are nudged,
// since nobody can see whether they sleep. It is tried once.
func TestBoardWithoutMemory(t *testing.T) {
	c, s := loneBoard(t, 1, 3)
	mem := s.mems[2]
	s.mems[2] = nil
	for n := uint64(1); n <= 2; n++ {
		d := aBarrier()
		seq, done, err := c.board.meetFar(&d)
		require.NoError(t, err)
		require.False(t, done)
		require.Equal(t, n, seq)
		require.Equal(t, []int{0, 2}, s.nudges())
		require.Equal(t, n, c.board.mine.past[n].Load())
		s.mems[2] = mem
	}
	require.True(t, c.board.broken)
	require.Nil(t, c.board.parts)
}

// Whether a place is free again, by what the others show.
func TestBoardRoom(t *testing.T) {
	c, s := loneBoard(t, 0, 3)
	b := c.board
	require.True(t, b.connected())
	type other struct{ floor, place0, place1 uint64 }
	for what, x := range map[string]struct {
		old, safe uint64
		one, two  other
		room      bool
		after     uint64 // safe
	}{
		"never used":                        {0, 0, other{}, other{}, true, 0},
		"known":                             {5, 5, other{}, other{}, true, 5},
		"one is at it":                      {5, 4, other{0, 5, 4}, other{0, 6, 5}, false, 4},
		"both are at the next":              {5, 4, other{0, 5, 6}, other{0, 6, 5}, true, 5},
		"one has gone on with messages":     {5, 4, other{5, 4, 3}, other{0, 6, 5}, true, 5},
		"one has not gone on with messages": {5, 3, other{4, 4, 3}, other{0, 6, 5}, false, 4},
		"none was there ever":               {5, 0, other{}, other{}, false, 0},
		"far ahead":                         {5, 2, other{0, 9, 8}, other{20, 1, 2}, true, 5},
	} {
		b.turn, b.shown, b.safe = 1, [2]uint64{99, x.old}, x.safe
		for r, o := range map[int]other{1: x.one, 2: x.two} {
			p := neighbourAt(s, r).part
			p.floor.Store(o.floor)
			p.places[0].state.Store(o.place0)
			p.places[1].state.Store(o.place1)
		}
		require.Equal(t, x.room, b.room(), what)
		require.Equal(t, x.after, b.safe, what)
	}
}

// What a rank has shown, or that it makes the collective of messages.
func TestBoardPlace(t *testing.T) {
	q := new(boardPart)
	b := &board{seq: 70}
	p, mixed := b.place(q)
	require.Nil(t, p)
	require.False(t, mixed)
	q.past[70%boardPast].Store(70 - boardPast)
	_, mixed = b.place(q)
	require.False(t, mixed, "an earlier one")
	for _, past := range []uint64{70, 70 + boardPast} {
		q.past[70%boardPast].Store(past)
		p, mixed = b.place(q)
		require.Nil(t, p)
		require.True(t, mixed)
	}
	for i := range q.places {
		q.places[i].state.Store(70)
		p, mixed = b.place(q)
		require.Same(t, &q.places[i], p)
		require.False(t, mixed)
		q.places[i].state.Store(71)
	}
}

// A rank's stage is lent to one call at a time, and to another board only when nobody reads it any
// more; never again when nobody can know that; and it may not be there.
func TestStageIsLent(t *testing.T) {
	c, s := loneBoard(t, 0, 2)
	b, o := c.board, &c.proc.boards
	require.True(t, b.connected())
	require.True(t, o.lend(b))
	require.False(t, o.lend(b))
	o.returned()
	require.True(t, o.lend(b))
	o.used(b, 7)
	o.returned()
	require.True(t, o.lend(b), "its own board knows")
	o.returned()
	d := c.sub([]int{1, 0}, 4)
	d.makeBoard(1)
	other := d.board
	require.True(t, other.connected())
	require.False(t, o.lend(other))
	b.mine.step.Store(7<<stepBits | stepOver)
	q := neighbourAt(s, 1).part
	for step, over := range map[uint64]bool{7<<stepBits | stepOver - 1: false, 7<<stepBits | stepOver: true, 8<<stepBits | 1: true, 6<<stepBits | stepOver: false} {
		q.step.Store(step)
		require.Equal(t, over, o.lend(other), "%#x", step)
		if over {
			o.returned()
		}
	}
	q.step.Store(8 << stepBits)
	o.spoilt()
	require.False(t, o.lend(other))
	require.False(t, o.lend(b))

	c, s = loneBoard(t, 0, 2)
	for r := range s.mems {
		s.mems[r] = s.mems[r][:boardMemory-1] // all as long
	}
	require.True(t, c.board.connected())
	require.False(t, c.proc.boards.lend(c.board), "there is none")
}

// What a rank puts on its stage: the others' blocks, and its own only where it is not combined from
// the buffer.
func TestStageShows(t *testing.T) {
	for _, me := range []int{0, 1, 2} {
		c, s := loneBoard(t, me, 3)
		require.True(t, c.board.connected())
		in := make([]int64, 3*7+stageWindow/8)
		for i := range in {
			in[i] = int64(i + 1)
		}
		wide := make([]int64, 2*len(in))
		for i, x := range in {
			wide[2*i] = x
		}
		stage := stageAt(s.mems[me]).in
		for _, buf := range []Buffer{Of(in), Vector(wide, len(in), 1, 2)} {
			d := aSum(buf, Buffer{})
			clear(stage)
			c.board.show(&d, 1)
			lo, hi := windowOf(&d, 1)
			require.Equal(t, 3*7*8, hi-lo)
			_, whole := buf.Contiguous()
			from, to := blockOf(&d, me, 3, lo, hi)
			for i := range 3 * 7 {
				at, want := lo+8*i, int64(stageWindow/8+i+1)
				if at >= hi || whole && at >= from && at < to {
					want = 0
				}
				require.Equal(t, want, *(*int64)(unsafe.Pointer(&stage[8*i])), "rank %d, whole %v, element %d", me, whole, i)
			}
			require.Zero(t, stage[hi-lo])
		}
	}
}

// Why another rank has given up: its operator's panic, if one has failed.
func TestStageFailures(t *testing.T) {
	c, s := loneBoard(t, 1, 3)
	b := c.board
	require.True(t, b.connected())
	b.seq = 9
	step := func(r int, v uint64) { boardPartAt(s.mems[r], worldBoard).step.Store(v) }
	require.NoError(t, b.failure())
	step(0, 8<<stepBits|stepFailed)
	step(2, 9<<stepBits|3)
	require.NoError(t, b.failure(), "of another one, and of no failure")
	step(0, 9<<stepBits|stepLeft)
	require.Equal(t, ErrOperator, b.failure())
	writePanic(b.stages[2].result, &PanicError{Value: "bad", Stack: []byte("where")})
	step(2, 9<<stepBits|stepFailed)
	err := b.failure()
	require.ErrorIs(t, err, ErrOperator)
	require.ErrorContains(t, err, ", at rank 2: bad\n\nwhere")
	step(0, 9<<stepBits|stepFailed)
	writePanic(b.stages[0].result, nil)
	require.ErrorContains(t, b.failure(), ", at rank 0: it has left its goroutine")
	var p *PanicError
	require.ErrorAs(t, b.failure(), &p)

	// What is read there is bounded, whatever another process has written.
	for _, n := range []int{0, 1, maxPanic - 2, maxPanic - 1, maxPanic, maxPanic + 1, 2 * maxPanic} {
		mem := make([]byte, stageResult)
		writePanic(mem, &PanicError{Value: "v", Stack: []byte(strings.Repeat("s", n))})
		p := readPanic(mem)
		require.Equal(t, "v", p.Value)
		require.Len(t, p.Stack, min(n, maxPanic-2), n)
		require.Zero(t, mem[min(n+2, maxPanic)+4])
	}
	mem := make([]byte, 4+3)
	for _, n := range []uint32{2, 3, 4, 1 << 31} {
		copy(mem, []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 'a', 'b', 'c'})
		require.Equal(t, "abc"[:min(n, 3)], readPanic(mem).Value)
	}
	long := make([]byte, stageResult)
	for i := range long {
		long[i] = 'x'
	}
	require.Len(t, readPanic(long).Value, maxPanic)
}

// At a board ranks that differ are told so, with what each is in.
func TestBoardAgrees(t *testing.T) {
	c, s := loneBoard(t, 0, 2)
	b := c.board
	require.True(t, b.connected())
	own := Of([]int64{1, 2})
	for what, x := range map[string]struct {
		what       coll.Collective
		elem, unit uint64
		says       string
	}{
		"the same":        {0, 0, 0, ""},
		"another kind":    {coll.NewCollective(coll.Barrier, nil, -1) ^ coll.NewCollective(coll.Allreduce, Sum.impl, -1), 0, 0, "rank 1 is in barrier"},
		"another history": {1 << coll.HistoryShift, 0, 0, "rank 1 is in allreduce"},
		"another size":    {0, 0, 8, "of 3 int64 (24 bytes) where this rank is in allreduce (sum) of 2 int64 (16 bytes)"},
		"other elements":  {0, uint64(Int64^Float64) << 32, 0, "of 2 float64"},
	} {
		d := aSum(own, own)
		elem := (&coll.Call{In: own.b, Out: own.b}).Elem()
		b.at[0] = &boardPlace{what: d.What, elem: elem, unit: 16}
		b.at[1] = &boardPlace{what: d.What ^ x.what, elem: elem ^ x.elem, unit: 16 + x.unit}
		r, err := b.agreed(&d)
		if x.says == "" {
			require.NoError(t, err, what)
			continue
		}
		require.ErrorIs(t, err, ErrMismatch, what)
		require.ErrorContains(t, err, x.says, what)
		require.Equal(t, 1, r)
	}
	b.at[1] = nil // it makes the collective of messages
	d := aSum(own, own)
	_, err := b.agreed(&d)
	require.NoError(t, err)
	_ = s
}

// Who sees at a board that a rank is in another collective asks that rank, and fails with what
// comes of it; also where some other rank makes the collective of messages.
func TestBoardAsksWhoDiffers(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		c, s := loneBoard(t, 0, 3)
		neighbourAt(s, 1).shows(aSum(Of([]int64{1}), Buffer{}))
		if mixed {
			neighbourAt(s, 2).part.past[1].Store(1)
		} else {
			neighbourAt(s, 2).shows(aBarrier())
		}
		over := make(chan error)
		go func() {
			d := aBarrier()
			seq, done, err := c.board.meetFar(&d)
			if seq != 1 || !done {
				err = errTest
			}
			over <- err
		}()
		for asked := s.questions(); len(asked) == 0; asked = s.questions() {
			select {
			case err := <-over:
				require.Fail(t, "it has asked nobody", "%v", err)
			default:
				runtime.Gosched()
			}
		}
		c.proc.disagreed(c.ctx, newDisagreement(c, 1, 1, coll.NewSignature(coll.NewCollective(coll.Dup, nil, -1), 0, 0), coll.NewSignature(coll.NewCollective(coll.Barrier, nil, -1), 0, 0)))
		err := <-over
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, "rank 0 is in barrier, rank 1 is in dup")
		require.False(t, c.board.busy.Load())
	}
}

// A caller at a board gives up for what goes wrong while it waits, and only for what concerns it.
func TestBoardGivesUp(t *testing.T) {
	c, _ := loneBoard(t, 0, 2)
	b := c.board
	over := make(chan error)
	go func() { over <- c.Barrier() }()
	for b.mine.sleeps.Load() == 0 {
		runtime.Gosched()
	}
	c.proc.revoke(8) // another one
	for range 100 {
		runtime.Gosched()
	}
	for b.mine.sleeps.Load() == 0 {
		runtime.Gosched()
	}
	c.proc.revoke(c.ctx)
	err := <-over
	require.ErrorIs(t, err, ErrRevoked)
	var of *Error
	require.True(t, errors.As(err, &of))
	require.Equal(t, "barrier", of.Op)
	require.False(t, b.busy.Load())
	require.Zero(t, b.mine.sleeps.Load())
	require.Empty(t, b.waits())
	require.ErrorIs(t, c.Barrier(), ErrRevoked)
	require.EqualValues(t, 1, b.mine.places[0].state.Load(), "who gives up at once shows nothing")
	require.Zero(t, b.mine.places[1].state.Load())
}
