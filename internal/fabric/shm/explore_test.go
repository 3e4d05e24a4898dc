//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/explore"
	"weft/internal/fabric"
	"weft/internal/progress"
	"weft/internal/xatomic"
)

// program is a small job whose every order is run.
type program struct {
	name string
	// if not zero: so many orders by chance only, unless all are asked for by -explore.big; with
	// -short, none
	some  int
	setup func(l *lab)
}

func exploreAll(t *testing.T, programs []program) {
	for _, p := range programs {
		ok := t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(&lab{Run: r}) })
		})
		if !ok {
			return
		}
	}
}

// lab is a job whose processes are goroutines of the explorer. The endpoints are the real ones;
// their memory is in the process, their bells are channels, and a process that has come to know
// another one's end is told by the program.
type lab struct {
	*explore.Run
	ranks []*rank
}

// rank is one process.
type rank struct {
	*lab
	e     *Endpoint
	g     *progress.Engine
	last  explore.Mark // of the consumer, when it had taken a frame
	some  bool
	got   [][]uint64 // by sender: what has come, in order
	each  func(src int, n uint64)
	lost  []int
	dead  bool              // its process has been killed
	pulls int               // how often it has rung others' bells
	sent  []uint64          // by receiver: frames whose Send has returned no error
	seeks *seeking          // of the goroutine that polls: nil if nobody seeks
	used  []*xatomic.Uint32 // by peer: stands for the descriptor of its bell
}

// job makes the processes, all of which know each other, but have sent nothing.
func (l *lab) job(n int) []*rank {
	reachable = func(p *peer) (*inbox, rope) {
		to := l.ranks[p.rank]
		if to.dead {
			return nil, rope{}
		}
		from := l.ranks[p.e.cfg.Rank]
		fd := from.used[p.rank]
		return to.e.box.of(p.e.cfg.Rank), rope{to.e.bell, func(ring func()) { l.Plain(fd); from.pulls++; l.Whole(ring) }, func() { l.Free(fd) }}
	}
	l.ranks = nil
	for k := range n {
		e, err := New(Config{Rank: k, Size: n})
		if err != nil {
			panic(err)
		}
		r := &rank{lab: l, e: e, g: progress.New(e.Sources(), progress.Config{Ranks: 1}), got: make([][]uint64, n), sent: make([]uint64, n)}
		for range n {
			r.used = append(r.used, new(xatomic.Uint32))
		}
		e.handler, e.progress = r, r.g
		e.bound.Store(true)
		l.Name(fmt.Sprint(k), e)
		l.Name(fmt.Sprintf("%d.engine", k), r.g)
		l.Name(fmt.Sprintf("%d.inbox", k), e.box.head)
		l.Name(fmt.Sprintf("%d.bell", k), e.bell)
		for p := range n {
			l.Name(fmt.Sprintf("%d.peer%d", k, p), e.peers.At(p))
			l.Name(fmt.Sprintf("%d.from%d", k, p), e.box.control(p))
			in := e.box.incoming(p)
			for off := uint64(0); off < ringSize; off += lineSize {
				l.Name(fmt.Sprintf("%d.from%d[%d]", k, p, off/lineSize), in.word(off))
			}
		}
		l.ranks = append(l.ranks, r)
	}
	return l.ranks
}

// knows connects r with others before the program begins.
func (r *rank) knows(others ...*rank) {
	for _, to := range others {
		if err := r.e.peers.At(to.e.cfg.Rank).connect(); err != nil {
			panic(err)
		}
	}
}

// acquainted connects two ranks both ways, each of which has sent to the other.
func acquainted(a, b *rank) {
	a.knows(b)
	b.knows(a)
	a.e.join(a.e.box.head.joins.Load())
	b.e.join(b.e.box.head.joins.Load())
}

// laps has the rings from a to b begin so many lines behind their beginning.
func laps(a, b *rank, lines int) {
	out, in := &a.e.peers.At(b.e.cfg.Rank).out, &b.e.peers.At(a.e.cfg.Rank).in
	for range lines {
		var f fabric.Frame
		out.put(kindFrame, &f)
		_, n, _ := in.get(&f)
		in.done(n)
	}
}

// fills fills the ring from r to another rank, which has been knocked.
func (r *rank) fills(to *rank) {
	k := to.e.cfg.Rank
	p := r.e.peers.At(k)
	for {
		f := numbered(r.sent[k] + 1)
		f.Origin = int32(r.e.cfg.Rank)
		if !p.out.put(kindFrame, &f) {
			break
		}
		r.sent[k]++
	}
	to.e.box.head.look.Store(1)
	to.e.bell.ring()
}

// Deliver takes frames as a consumer that is alone.
func (r *rank) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	if k := r.seeks; k != nil && src == k.src && f.Head[0] == k.n {
		k.picked, met = true, true
	}
	r.Check(!r.some || r.Before(r.last), "two take frames at once")
	r.Check(len(r.lost) == 0 || r.lost[0] != src, "a frame of rank %d behind its loss", src)
	r.got[src] = append(r.got[src], f.Head[0])
	r.Check(f.Head[0] == uint64(len(r.got[src])), "frame %d of rank %d comes as number %d", f.Head[0], src, len(r.got[src]))
	if r.each != nil {
		r.each(src, f.Head[0])
	}
	r.last, r.some = r.Now(), true
	return met
}

// Lost takes news of a loss.
func (r *rank) Lost(src int, _ error) {
	r.Check(!r.some || r.Before(r.last), "two take frames at once")
	r.lost = append(r.lost, src)
	r.last, r.some = r.Now(), true
}

// sleeps gives the rank its sleeper.
func (r *rank) sleeps() {
	r.e.wg.n.Add(1)
	r.Daemon(fmt.Sprintf("%d sleeper", r.e.cfg.Rank), func() {
		r.e.sleeper()
		r.e.wg.n.Add(-1)
	})
}

func numbered(n uint64) fabric.Frame { return fabric.Frame{Head: [fabric.HeadWords]uint64{n}} }

// send sends the next frame, of one line, or of two.
func (r *rank) send(dst int, long bool) {
	f := numbered(r.sent[dst] + 1)
	if long {
		f.Data = make([]byte, MaxFrame)
	}
	r.sent[dst]++
	switch err := r.e.Send(dst, f); {
	case err == nil:
	case errors.Is(err, fabric.ErrClosed):
		r.sent[dst]--
	default:
		r.Failf("sending: %v", err)
	}
}

// sender sends some frames from a goroutine of its own.
func (r *rank) sender(dst, frames int) {
	r.Go(fmt.Sprintf("%d sender", r.e.cfg.Rank), func() {
		for range frames {
			r.send(dst, false)
		}
	})
}

// waiter waits for frame n of a sender, as package comm does.
func (r *rank) waiter(src int, n uint64) {
	woken := make(xatomic.Chan[struct{}], 1)
	before := r.each
	r.each = func(s int, k uint64) {
		if s == src && k == n {
			woken.Send(struct{}{})
		}
		if before != nil {
			before(s, k)
		}
	}
	r.Go(fmt.Sprintf("%d waiter", r.e.cfg.Rank), func() {
		r.g.PollChannel(woken, false)
		woken.Recv()
	})
}

// seeker waits for frame n of a sender, as package comm does in a blocking receive: it seeks the
// frame, and if it gives up, waits for whoever delivers it.
func (r *rank) seeker(src int, n uint64) {
	k := &seeking{src: src, n: n, woken: make(xatomic.Chan[struct{}], 1)}
	before := r.each
	r.each = func(s int, m uint64) {
		if s == src && m == n && !k.picked {
			k.woken.Send(struct{}{})
		}
		if before != nil {
			before(s, m)
		}
	}
	r.Go(fmt.Sprintf("%d seeker", r.e.cfg.Rank), func() {
		if !r.g.Enter() {
			r.g.PollChannel(k.woken, false)
			k.woken.Recv()
			return
		}
		if uint64(len(r.got[src])) >= n { // it was here before
			r.g.Leave()
			k.woken.Recv()
			return
		}
		r.seeks = k
		_, tired := r.g.PollUntil(func() bool { return uint64(len(r.got[k.src])) >= k.n })
		r.seeks = nil
		picked := k.picked
		switch {
		case picked, tired:
			r.g.Leave()
		default:
			r.g.PollChannel(k.woken, true)
		}
		if !picked {
			k.woken.Recv()
		}
	})
}

// seeking is the search for frame n of src.
type seeking struct {
	src    int
	n      uint64
	woken  xatomic.Chan[struct{}]
	picked bool // of the goroutine that polls
}

// atRest says that in the end what was sent to r has come, and that r sleeps so that it can be
// woken.
func (r *rank) atRest() {
	r.End(func() error {
		for k, s := range r.ranks {
			if err := r.hasAll(k, s); err != nil {
				return err
			}
		}
		return r.asleep()
	})
}

// hasAll says that r has taken what s has sent; of one that is dead, what it has written.
func (r *rank) hasAll(k int, s *rank) error {
	e := r.e
	me := e.cfg.Rank
	in := e.box.incoming(k)
	in.pos = e.peers.At(k).in.pos
	switch n := uint64(len(r.got[k])); {
	case s == r || s.dead && !in.ready():
		return nil
	case s.dead:
		return fmt.Errorf("rank %d sleeps, and has not taken the last frame of rank %d, which is dead", me, k)
	case n != s.sent[me]:
		return fmt.Errorf("rank %d has %d of %d frames of rank %d, and sleeps", me, n, s.sent[me], k)
	}
	return nil
}

func (r *rank) asleep() error {
	e := r.e
	switch look := e.box.head.look.Load(); {
	case look != 0:
		return fmt.Errorf("rank %d sleeps, and its look word is %d", e.cfg.Rank, look)
	case e.pending.Load() != 0:
		return fmt.Errorf("rank %d sleeps, and %d queues are not empty", e.cfg.Rank, e.pending.Load())
	case !r.g.Enter():
		return fmt.Errorf("rank %d sleeps, and nobody can begin to look", e.cfg.Rank)
	}
	return nil
}
