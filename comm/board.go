// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"math/bits"
	"runtime"

	"weft/comm/internal/coll"
	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// board is where the ranks of a communicator that are processes of one node meet for small collectives that need all of them: each shows its part in
// memory that all have mapped, and computes the result from all parts. README.md, "The board", has the protocol and its argument.
type board struct {
	// Constant after construction.
	c       *Comm
	index   int
	mine    *boardPart
	isReady func() bool // ready, made once
	hasCome func() bool // come, made once
	token   token       // wakes the caller that sleeps

	mu     xatomic.VisibleMutex
	parts  []*boardPart // guarded by mu until all are there, constant then: by rank; nil before the first use
	stages []stage      // likewise
	broken bool         // guarded by mu: some rank's memory cannot be mapped
	shut   bool         // guarded by mu: the run has ended
	shown  [2]uint64    // guarded by mu: what is in mine's places
	turn   int          // guarded by mu: which of them is next
	safe   uint64       // guarded by mu: all ranks are done with what mine has shown up to this
	sleeps sleeper      // guarded by mu

	// busy is set, under mu, by the one caller that is at the board, and cleared by it. It owns the fields below.
	busy   xatomic.Bool
	seq    uint64
	at     []*boardPlace // by rank, of those before next: its place; nil if it makes the collective of messages
	next   int           // the ranks before this one are here, or have come
	want   uint64        // so far all ranks are to come, in a large collective
	mixed  bool          // one of them makes the collective of messages
	seen   *trouble      // that is no reason to give up
	barred error         // the reason to give up
}

// sleeper is what the sleeping caller waits for, for reports. Without one it is zero.
type sleeper struct {
	seq  uint64
	rank int
	what coll.Collective
}

// boards are those of one rank.
type boards struct {
	mu   xatomic.VisibleMutex
	free uint64            // guarded by mu: indices that no communicator has, nor may get
	own  lending           // guarded by mu: of this rank's stage
	all  map[uint64]*board // guarded by mu: by context
}

// worldBoard is the index of the communicator of all ranks.
const worldBoard = 0

// offered are indices for a communicator about to be made, as a set: nobody else is offered them until they are given back.
func (s *boards) offered(w *world) uint64 {
	if w.together == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const few = 4 // so that other communicators can be made at the same time
	var offer uint64
	for range few {
		offer |= s.free &^ offer & -(s.free &^ offer)
	}
	s.free &^= offer
	return offer
}

func (s *boards) giveBack(offer uint64) {
	s.mu.Lock()
	s.free |= offer
	s.mu.Unlock()
}

// settle makes the board of a new communicator, if all its members can have one: common are the indices that all have been offered, mine those that this
// rank has.
func (s *boards) settle(c *Comm, common, mine uint64) {
	if common != 0 {
		index := common & -common
		mine &^= index
		c.makeBoard(bits.TrailingZeros64(index))
	}
	s.giveBack(mine)
}

// makeBoard gives c a board if its ranks can have one. All of them come to the same answer, or are lost to each other.
func (c *Comm) makeBoard(index int) {
	w, p := c.world, c.proc
	if c.hub != nil || w.together == nil || !w.direct || c.size < 2 || c.size > flatRanks || !w.together(c.group, c.size) {
		return
	}
	mem, err := p.ep.Shared(p.rank)
	if err != nil {
		return
	}
	b := &board{c: c, index: index, mine: boardPartAt(mem, index), token: newToken()}
	if b.mine == nil {
		return
	}
	b.isReady, b.hasCome = b.ready, b.come
	c.board = b
	p.boards.mu.Lock()
	defer p.boards.mu.Unlock()
	if p.boards.all == nil {
		p.boards.all = map[uint64]*board{}
	}
	p.boards.all[c.ctx] = b
}

// onBoard reports whether the ranks meet at the board for a collective, if they all call it and wait.
func onBoard(d *coll.Call, c *Comm) bool {
	d.Large = d.InPlaces(c.size) > boardData
	return (!d.Large || d.Kind == coll.Allreduce && stageable(d)) && c.world.cfg.chosen[d.Kind] == 0
}

// number numbers a collective, and tells the other ranks that this one makes it of messages.
func (c *Comm) number(d *coll.Call) uint64 {
	if b := c.board; b != nil {
		seq, _ := b.begin(d, false)
		return seq
	}
	l := c.hist.lock()
	l.Lock()
	c.hist.record(d, d.Elem())
	seq := c.collSeq.Add(1)
	l.Unlock()
	c.hist.recorded()
	return seq
}

// begin numbers a collective. If the caller meets the others, it shows them this rank's part; otherwise, or if that is not possible, that it makes it of messages:
// then it returns false.
func (b *board) begin(d *coll.Call, meets bool) (seq uint64, shown bool) {
	b.mu.Lock()
	seq = b.c.collSeq.Add(1)
	elem := d.Elem()
	b.c.hist.record(d, elem)
	if b.shut {
		b.mu.Unlock()
		return seq, false
	}
	connected := b.connected()
	if meets && connected && !b.busy.Load() && b.room() && (!d.Large || b.c.proc.boards.lend(b)) {
		shown = true
		b.busy.Store(true) //bug:one-of-a-rank
		b.seq, b.next, b.mixed, b.barred = seq, 0, false, nil
		p := &b.mine.places[b.turn]
		b.shown[b.turn] = seq
		b.turn ^= 1
		p.what, p.elem, p.unit = d.What, elem, uint64(d.Unit)
		if n := d.Published(b.c.rank, b.c.size); n > 0 && !d.Large {
			d.In.Show(p.data[:n])
		}
		p.state.Store(seq) //bug:show
	} else {
		if !b.busy.Load() { //bug:floor
			b.mine.floor.Store(seq)
		}
		b.mine.past[seq%boardPast].Store(seq)
	}
	asleep := b.sleepers(connected)
	b.mu.Unlock()
	b.c.hist.recorded()
	b.nudgeAll(asleep) //bug:nudge-by-messages
	return seq, shown  //bug:nudge-by-messages
}

// sleepers returns the ranks whose callers sleep, as a set. flatRanks bounds it.
func (b *board) sleepers(connected bool) (asleep uint32) {
	for r := range b.c.size {
		if r != b.c.rank && (!connected || b.parts[r].sleeps.Load() != 0) { // who cannot see whether others sleep wakes them all
			asleep |= 1 << r
		}
	}
	return asleep
}

func (b *board) nudgeAll(asleep uint32) {
	for ; asleep != 0; asleep &= asleep - 1 {
		b.nudge(bits.TrailingZeros32(asleep))
	}
}

// connected finds the memory of all ranks. The caller holds mu.
func (b *board) connected() bool {
	if b.parts != nil || b.broken {
		return !b.broken
	}
	parts, stages := make([]*boardPart, b.c.size), make([]stage, b.c.size)
	for r := range parts {
		mem, err := b.c.proc.ep.Shared(b.c.worldRank(r))
		if err == nil {
			parts[r], stages[r] = boardPartAt(mem, b.index), stageAt(mem)
		}
		if parts[r] == nil {
			b.broken = true // what is sent there will say why
			return false
		}
	}
	b.parts, b.stages, b.at = parts, stages, make([]*boardPlace, b.c.size)
	return true
}

// room reports whether the next place is free: whether all ranks are done with what is in it. The caller holds mu.
func (b *board) room() bool {
	old := b.shown[b.turn]
	if old <= b.safe {
		return true
	}
	least := old
	for r, q := range b.parts {
		if r != b.c.rank {
			// Who shows its part of a later collective here is done with all before.
			newest := max(q.places[0].state.Load(), q.places[1].state.Load(), 1)
			least = min(least, max(q.floor.Load(), newest-1))
		}
	}
	b.safe = max(b.safe, least)
	return old <= b.safe //bug:free
}

// nudge has a rank's sleeping caller look.
func (b *board) nudge(r int) {
	p := b.c.proc
	err := p.frame(b.c.worldRank(r), fabric.Frame{Head: [fabric.HeadWords]uint64{b.c.ctx, 0, 0, nudging.word()}})
	p.stranded(b.c.worldRank(r), err, nil) // who cannot be reached is lost, which others will say
}

// nudged is the arrival of a nudge.
func (p *proc) nudged(ctx uint64) {
	p.boards.mu.Lock()
	b := p.boards.all[ctx]
	p.boards.mu.Unlock()
	if b != nil {
		b.token.put()
	}
}

// look has all sleeping callers look: something has gone wrong.
func (s *boards) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all {
		b.token.put()
	}
}

// close returns when nobody is at a board any more, and nobody will be. The run has ended: whoever is there gives up soon.
func (s *boards) close() {
	s.mu.Lock()
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for _, b := range all {
		b.mu.Lock()
		b.shut = true
		b.mu.Unlock()
		for b.busy.Load() {
			b.token.put()
			runtime.Gosched()
		}
	}
}

// place returns what a rank has shown for the collective under way, nil if it has not. mixed: it makes it of messages.
func (b *board) place(q *boardPart) (p *boardPlace, mixed bool) {
	for range 2 { //bug:second-look
		for i := range q.places {
			if p := &q.places[i]; p.state.Load() == b.seq {
				return p, false
			}
		}
		if past := q.past[b.seq%boardPast].Load(); past < b.seq {
			return nil, false
		}
		// Either it is this one, or a later one that has come in its place. In the second case the rank may have shown its part of this one between the
		// looks above.
	}
	return nil, true
}

// ready reports whether all ranks are here, or there is a reason to give up. The caller is at the board.
func (b *board) ready() bool {
	if b.hopeless() {
		return true
	}
	for ; b.next < len(b.parts); b.next++ {
		p, mixed := b.place(b.parts[b.next])
		if p == nil && !mixed {
			return false
		}
		b.at[b.next] = p
		b.mixed = b.mixed || mixed
	}
	return true
}

// hopeless reports whether there is a reason to give up. The caller is at the board.
func (b *board) hopeless() bool {
	if b.c.world.troubled.Load() {
		if t := b.c.proc.trouble.Load(); t != b.seen {
			b.seen, b.barred = t, b.c.barredHere()
		}
	}
	return b.barred != nil
}

// meetFar is a blocking collective at the board. Without done it is to be made of messages, under the number seq.
func (b *board) meetFar(d *coll.Call) (seq uint64, done bool, err error) {
	if err := b.c.barredHere(); err != nil { // who gives up shows nothing: the others would go on, as if nothing were wrong
		return 0, true, b.c.failColl(d.What, err)
	}
	seq, shown := b.begin(d, true)
	if !shown {
		return seq, false, nil
	}
	defer b.leave(d.Large)
	if d.Large {
		b.show(d, 0) // the others may be late
	}
	b.await(d, b.isReady)
	switch {
	case b.barred != nil:
		return seq, true, b.c.failColl(d.What, b.barred)
	case b.mixed:
		if r, err := b.agreed(d); err != nil {
			return seq, true, b.c.failColl(d.What, b.c.explanation(r, err))
		}
		return seq, false, nil
	}
	b.mine.places[b.turn].soon() // all are here, so nobody reads it any more
	if r, doubt := b.agreed(d); doubt != nil {
		err = b.c.explanation(r, doubt)
	} else {
		if d.Large {
			err = b.combineLarge(d)
		} else {
			err = coll.Flat(d, b.c.rank, b.c.size, b)
		}
	}
	if err != nil {
		err = b.c.failColl(d.What, err)
	}
	b.mu.Lock()
	b.safe = max(b.safe, seq-1) // all are here, so are done with what was before
	b.mu.Unlock()
	return seq, true, err
}

// leave ends the caller's time at the board.
func (b *board) leave(large bool) {
	if large {
		b.c.proc.boards.returned()
	}
	b.busy.Store(false)
}

// aboutToSleep lets tests have something happen between a caller's last look and its saying that it sleeps.
var aboutToSleep func(b *board)

// await returns when ready does so with true. The caller is at the board.
func (b *board) await(d *coll.Call, ready func() bool) {
	if ready() {
		return
	}
	b.c.proc.engine.Watch(ready)
	for !ready() {
		b.mu.Lock()
		b.sleeps = sleeper{b.seq, b.next, d.What}
		b.mu.Unlock()
		if aboutToSleep != nil {
			aboutToSleep(b)
		}
		b.mine.sleeps.Store(1) //bug:sleep
		if !ready() {          // who came before would not have known //bug:sleep
			b.token.take()
		}
		b.mine.sleeps.Store(0)
		b.mu.Lock()
		b.sleeps = sleeper{}
		b.mu.Unlock()
	}
}

// waits says what the sleeping caller waits for, nothing if there is none.
func (b *board) waits() string {
	b.mu.Lock()
	s := b.sleeps
	b.mu.Unlock()
	if s.seq == 0 {
		return ""
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", s.rank, s.what, s.seq, b.c.place())
}

// agreed checks that all ranks that are here are in the same collective. It returns the first that is not, and why.
func (b *board) agreed(d *coll.Call) (r int, err error) {
	elem, unit := d.Elem(), uint64(d.Unit)
	for r, p := range b.at {
		if p == nil {
			continue // it makes the collective of messages
		}
		theirs := boardPlace{what: p.what, elem: p.elem, unit: p.unit} // once: another process can write there
		if theirs.what == d.What && theirs.unit == unit && theirs.elem == elem {
			continue
		}
		mine, other := coll.NewSignature(d.What, elem, d.Unit), coll.NewSignature(theirs.what, theirs.elem, int(theirs.unit))
		if (theirs.what^d.What)&coll.HistoryBits != 0 || !mine.Agrees(other) {
			return r, fmt.Errorf("%w: rank %d is in %v where this rank is in %v", ErrMismatch, r, other, mine)
		}
	}
	return 0, nil
}

// Part returns what a rank shows. For flat.
func (b *board) Part(r int) []byte { return b.at[r].data[:] }
