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

// program is a small job, of which every order of steps is run.
type program struct {
	name string
	// if not zero, only so many random orders are run; with -explore.big, all orders; with -short,
	// none
	some  int
	setup func(l *exploredJob)
}

func exploreAll(t *testing.T, programs []program) {
	for _, p := range programs {
		ok := t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(&exploredJob{Run: r}) })
		})
		if !ok {
			return
		}
	}
}

// exploredJob is a job whose processes are goroutines of the explorer. The endpoints are the real
// ones. Their memory is in this process, their doorbells are channels, and the program tells a rank
// of the end of another process.
type exploredJob struct {
	*explore.Run
	ranks []*rank
}

// rank is one process.
type rank struct {
	*exploredJob
	e      *Endpoint
	g      *progress.Engine
	last   explore.Mark // when the last Deliver or Lost returned
	some   bool         // last is set
	got    [][]uint64   // by sender: the frames that have arrived, in order
	each   func(src int, n uint64)
	lost   []int
	dead   bool              // its process has been killed
	rings  int               // how often it has rung doorbells of others
	sent   []uint64          // by receiver: frames whose Send has returned no error
	direct *directReceive    // owned by the goroutine that polls; nil if there is none
	used   []*xatomic.Uint32 // by peer: stands for the descriptor of its doorbell
}

// start starts n ranks, which can reach each other and are not connected.
func (l *exploredJob) start(n int) []*rank {
	reachable = func(p *peer) (*inbox, peerDoorbell) {
		to := l.ranks[p.rank]
		if to.dead {
			return nil, peerDoorbell{}
		}
		from := l.ranks[p.e.cfg.Rank]
		fd := from.used[p.rank]
		return to.e.box.of(p.e.cfg.Rank), peerDoorbell{to.e.doorbell, func(ring func()) { l.Plain(fd); from.rings++; l.Whole(ring) }, func() { l.Free(fd) }}
	}
	l.ranks = nil
	for k := range n {
		e, err := New(Config{Rank: k, Size: n})
		if err != nil {
			panic(err)
		}
		r := &rank{exploredJob: l, e: e, g: progress.New(e.Sources(), progress.Config{Ranks: 1}), got: make([][]uint64, n), sent: make([]uint64, n)}
		for range n {
			r.used = append(r.used, new(xatomic.Uint32))
		}
		e.handler, e.progress = r, r.g
		e.bound.Store(true)
		l.Name(fmt.Sprint(k), e)
		l.Name(fmt.Sprintf("%d.engine", k), r.g)
		l.Name(fmt.Sprintf("%d.inbox", k), e.box.head)
		l.Name(fmt.Sprintf("%d.doorbell", k), e.doorbell)
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

// connectTo connects r with others before the program begins.
func (r *rank) connectTo(others ...*rank) {
	for _, to := range others {
		if err := r.e.peers.At(to.e.cfg.Rank).connect(); err != nil {
			panic(err)
		}
	}
}

// connectBoth connects two ranks both ways, as if each had sent to the other.
func connectBoth(a, b *rank) {
	a.connectTo(b)
	b.connectTo(a)
	a.e.join(a.e.box.head.joins.Load())
	b.e.join(b.e.box.head.joins.Load())
}

// advanceRing advances both ends of the ring from a to b by so many lines.
func advanceRing(a, b *rank, lines int) {
	out, in := &a.e.peers.At(b.e.cfg.Rank).out, &b.e.peers.At(a.e.cfg.Rank).in
	for range lines {
		var f fabric.Frame
		out.put(kindFrame, &f)
		_, n, _ := in.get(&f)
		in.done(n)
	}
}

// fillRing fills the ring from r to another rank, and rings its doorbell.
func (r *rank) fillRing(to *rank) {
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
	to.e.box.head.doorbellWord.Store(1)
	to.e.doorbell.ring()
}

// Deliver checks that frames arrive in order and from one goroutine at a time.
func (r *rank) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	if k := r.direct; k != nil && src == k.src && f.Head[0] == k.n {
		k.received, met = true, true
	}
	r.Check(!r.some || r.Before(r.last), "two take frames at once")
	r.Check(len(r.lost) == 0 || r.lost[0] != src, "a frame of rank %d after its loss", src)
	r.got[src] = append(r.got[src], f.Head[0])
	r.Check(f.Head[0] == uint64(len(r.got[src])), "frame %d of rank %d comes as number %d", f.Head[0], src, len(r.got[src]))
	if r.each != nil {
		r.each(src, f.Head[0])
	}
	r.last, r.some = r.Now(), true
	return met
}

// Lost records a loss.
func (r *rank) Lost(src int, _ error) {
	r.Check(!r.some || r.Before(r.last), "two take frames at once")
	r.lost = append(r.lost, src)
	r.last, r.some = r.Now(), true
}

// startDoorbellLoop starts the rank's doorbell goroutine.
func (r *rank) startDoorbellLoop() {
	r.e.wg.n.Add(1)
	r.Daemon(fmt.Sprintf("%d doorbell goroutine", r.e.cfg.Rank), func() {
		r.e.doorbellLoop()
		r.e.wg.n.Add(-1)
	})
}

func numbered(n uint64) fabric.Frame { return fabric.Frame{Head: [fabric.HeadWords]uint64{n}} }

// send sends the next frame, of one line, or of two if long.
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

// directReceiver waits for frame n of a sender, as package comm does in a blocking receive: it
// polls for the frame itself. If its budget is exhausted, it waits for the goroutine that delivers
// the frame.
func (r *rank) directReceiver(src int, n uint64) {
	k := &directReceive{src: src, n: n, woken: make(xatomic.Chan[struct{}], 1)}
	before := r.each
	r.each = func(s int, m uint64) {
		if s == src && m == n && !k.received {
			k.woken.Send(struct{}{})
		}
		if before != nil {
			before(s, m)
		}
	}
	r.Go(fmt.Sprintf("%d direct receiver", r.e.cfg.Rank), func() {
		if !r.g.Enter() {
			r.g.PollChannel(k.woken, false)
			k.woken.Recv()
			return
		}
		if uint64(len(r.got[src])) >= n { // it has arrived before
			r.g.Leave()
			k.woken.Recv()
			return
		}
		r.direct = k
		_, exhausted := r.g.PollUntil(func() bool { return uint64(len(r.got[k.src])) >= k.n })
		r.direct = nil
		received := k.received
		switch {
		case received, exhausted:
			r.g.Leave()
		default:
			r.g.PollChannel(k.woken, true)
		}
		if !received {
			k.woken.Recv()
		}
	})
}

// directReceive is a blocking receive of frame n of src.
type directReceive struct {
	src      int
	n        uint64
	woken    xatomic.Chan[struct{}]
	received bool // owned by the goroutine that polls
}

// checkAtEnd checks at the end that all frames to r have arrived, and that r sleeps and can be
// woken.
func (r *rank) checkAtEnd() {
	r.End(func() error {
		for k, s := range r.ranks {
			if err := r.checkReceived(k, s); err != nil {
				return err
			}
		}
		return r.checkAsleep()
	})
}

// checkReceived checks that r has taken all frames that s has sent; if s is dead, all that it has
// written.
func (r *rank) checkReceived(k int, s *rank) error {
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

func (r *rank) checkAsleep() error {
	e := r.e
	switch word := e.box.head.doorbellWord.Load(); {
	case word != 0:
		return fmt.Errorf("rank %d sleeps, and its doorbell word is %d", e.cfg.Rank, word)
	case e.pending.Load() != 0:
		return fmt.Errorf("rank %d sleeps, and %d queues are not empty", e.cfg.Rank, e.pending.Load())
	case !r.g.Enter():
		return fmt.Errorf("rank %d sleeps, and no goroutine can take the turn", e.cfg.Rank)
	}
	return nil
}
