// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
)

// lanes has a window of ranks that take each other for processes, and calls body with each one's
// port when the first epoch is open everywhere.
func lanes(t *testing.T, ranks, bytes int, body func(w *Win, p *port, mine []byte) error) {
	t.Helper()
	require.NoError(t, comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
		w, mine, err := Allocate[byte](c, bytes)
		if err != nil {
			return err
		}
		if err := errors.Join(w.Fence(0), c.Barrier()); err != nil {
			return err
		}
		return body(w, w.b.(*memory).p, mine) // the end of the run frees the window
	}))
}

// await waits until something that another goroutine does is true.
func await(what string, is func() bool) error {
	for end := time.Now().Add(20 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			return fmt.Errorf("it never comes that %s", what)
		}
	}
	return nil
}

// stall keeps a port from completing fences until it is let go of.
func (p *port) stall() (letGo func()) {
	p.mu.Lock()
	p.moving = true
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.moving = false
		p.settle()
	}
}

// state is what a lane keeps of what it sends.
type state struct {
	filling                             bool
	backlog, outbox, under, ahead, gets int
	seq                                 uint64
}

func (l *lane) state() state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return state{l.filling != nil, len(l.backlog), len(l.outbox), l.under, l.ahead, l.gets, l.seq}
}

// atRest is the state of a lane that has sent bundles and has nothing more.
func atRest(bundles uint64) state { return state{ahead: aheadBundles, seq: bundles} }

func isZero(list []parcel) bool {
	for _, x := range list {
		if !reflect.ValueOf(x).IsZero() {
			return false
		}
	}
	return true
}

func wantsState(l *lane, want state) error {
	if got := l.state(); got != want {
		return fmt.Errorf("the lane is %+v, not %+v", got, want)
	}
	return nil
}

// A rank that is an epoch ahead of a target sends aheadBundles that the target has to keep, then as
// many as may be under way, which the target takes when it comes there; the rest waits here, in
// order. Nothing of it stays.
func TestAheadOfATarget(t *testing.T) {
	const n = aheadBundles + depth + 6
	stalled := make(chan struct{})
	lanes(t, 2, n*inlineBytes, func(w *Win, p *port, mine []byte) error {
		if w.c.Rank() == 1 {
			letGo := p.stall()
			closes := w.Ifence(0)
			<-stalled
			letGo()
			_, err := closes.Wait(context.Background())
			if err := errors.Join(err, w.Fence(0)); err != nil {
				return err
			}
			for i, b := range mine {
				if b != byte(1+i/inlineBytes) {
					return fmt.Errorf("byte %d is %d", i, b)
				}
			}
			return nil
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		src := make([]byte, n*inlineBytes)
		for i := range src {
			src[i] = byte(1 + i/inlineBytes)
		}
		l := p.lanes[1]
		var err error
		for i := range n { // a bundle each
			err = errors.Join(err, w.Put(comm.Of(src[i*inlineBytes:][:inlineBytes]), 1, i*inlineBytes))
			switch i + 1 {
			case 1:
				err = errors.Join(err, wantsState(l, state{filling: true, ahead: aheadBundles, seq: 2}))
			case 1 + aheadBundles:
				err = errors.Join(err, wantsState(l, state{filling: true, seq: 2 + aheadBundles}))
			case aheadBundles + depth:
				err = errors.Join(err, wantsState(l, state{filling: true, under: depth - 1, seq: 1 + aheadBundles + depth}))
			case 1 + aheadBundles + depth:
				err = errors.Join(err, wantsState(l, state{under: depth, backlog: 1, seq: 2 + aheadBundles + depth}))
			}
		}
		closes := w.Ifence(0)
		full := state{under: depth, backlog: n - aheadBundles - depth + 1, seq: 2 + aheadBundles + depth}
		// another goroutine may put it there
		_ = await("the mark waits as well", func() bool { return l.state() == full })
		err = errors.Join(err, wantsState(l, full))
		l.mu.Lock()
		backlog := l.backlog[:len(l.backlog):len(l.backlog)]
		l.mu.Unlock()
		close(stalled)
		_, werr := closes.Wait(context.Background())
		// the last has the mark
		err = errors.Join(err, werr, await("all is sent", func() bool { return l.state() == atRest(2+n) }))
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.backlog != nil || !isZero(backlog) {
			err = errors.Join(err, errors.New("what has been sent is kept"))
		}
		return err
	})
}

// While one goroutine sends, others leave what they have in the outbox. It is sent in order, and
// kept by nothing.
func TestOutboxOfABusyLane(t *testing.T) {
	lanes(t, 2, 4*inlineBytes, func(w *Win, p *port, mine []byte) error {
		if w.c.Rank() == 1 {
			err := w.Fence(0)
			for i, b := range mine {
				if want := byte(1 + i/inlineBytes); b != want && want < 4 {
					return fmt.Errorf("byte %d is %d", i, b)
				}
			}
			return err
		}
		src := make([]byte, 3*inlineBytes)
		for i := range src {
			src[i] = byte(1 + i/inlineBytes)
		}
		l := p.lanes[1]
		l.mu.Lock()
		l.busy = true
		l.mu.Unlock()
		var err error
		for i := range 3 {
			err = errors.Join(err, w.Put(comm.Of(src[i*inlineBytes:][:inlineBytes]), 1, i*inlineBytes))
		}
		err = errors.Join(err, wantsState(l, state{filling: true, outbox: 2, ahead: aheadBundles - 2, seq: 3}))
		l.mu.Lock()
		outbox := l.outbox[:2:2]
		l.busy = false
		l.ship()
		err = errors.Join(err, await("it is sent", func() bool {
			return l.state() == state{filling: true, ahead: aheadBundles - 2, seq: 3}
		}))
		l.mu.Lock()
		if l.outbox != nil || !isZero(outbox) || l.busy {
			err = errors.Join(err, fmt.Errorf("the outbox keeps %d, busy is %v", len(l.outbox), l.busy))
		}
		l.mu.Unlock()
		return errors.Join(err, w.Fence(0))
	})
}

// A payload that is a message of its own goes behind the record of it, at once.
func TestDirectPutGoesAtOnce(t *testing.T) {
	lanes(t, 2, 4*inlineBytes, func(w *Win, p *port, mine []byte) error {
		var err error
		if w.c.Rank() == 0 {
			l := p.lanes[1]
			l.mu.Lock()
			l.busy = true
			l.mu.Unlock()
			err = errors.Join(w.Put(comm.Of([]byte{1}), 1, 0), w.Put(comm.Of(make([]byte, 2*inlineBytes)), 1, 1),
				// behind the fence
				wantsState(l, state{outbox: 2, ahead: aheadBundles - 1, seq: 2}))
			l.mu.Lock()
			if l.outbox[0].sealed == nil || l.outbox[1].sealed != nil {
				err = errors.Join(err, errors.New("the payload is ahead of its record"))
			}
			l.busy = false
			l.ship()
		}
		return errors.Join(err, w.Fence(0))
	})
}

// The first get goes at once. Those that follow wait for its answer in one bundle, which goes with
// the answer and not with the fence.
func TestGetsWaitForTheAnswer(t *testing.T) {
	stalled, got := make(chan struct{}), make(chan struct{})
	lanes(t, 2, 64, func(w *Win, p *port, mine []byte) error {
		for i := range mine {
			mine[i] = byte(i)
		}
		if w.c.Rank() == 1 {
			letGo := p.stall()
			closes := w.Ifence(0)
			<-stalled
			letGo()
			_, err := closes.Wait(context.Background())
			<-got
			return errors.Join(err, w.Fence(0))
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		l := p.lanes[1]
		dst := make([]byte, 10)
		var err error
		for i := range dst {
			err = errors.Join(err, w.Get(comm.Of(dst[i:i+1]), 1, 3*i))
		}
		err = errors.Join(err, wantsState(l, state{filling: true, ahead: aheadBundles - 1, gets: len(dst), seq: 3}))
		close(stalled)
		err = errors.Join(err, await("all gets are answered", func() bool {
			return l.state() == state{ahead: aheadBundles - 2, seq: 4}
		}))
		close(got)
		err = errors.Join(err, w.Fence(0))
		for i, b := range dst {
			if b != byte(3*i) {
				err = errors.Join(err, fmt.Errorf("get %d: %d", i, b))
			}
		}
		return err
	})
}

// Tags of answers and of direct puts are used again when they have come to their end, and none is
// that of bundles.
func TestTagsComeRound(t *testing.T) {
	const size, n = inlineBytes + 8, 9
	lanes(t, 2, 2*n*size, func(w *Win, p *port, mine []byte) error {
		other := 1 - w.c.Rank()
		// The last tag but n, or n-1: then a put would have that of bundles.
		l := p.lanes[other]
		l.tags = comm.TagUB>>1 - n + uint32(other)
		for i := range mine[:n*size] {
			mine[i] = byte(i / size)
		}
		src, dst := make([]byte, n*size), make([]byte, n*size)
		for i := range src {
			src[i] = byte(100 + i/size)
		}
		err := w.Fence(0)
		for i := range n {
			err = errors.Join(err, w.Put(comm.Of(src[i*size:][:size]), other, (n+i)*size), w.Get(comm.Of(dst[i*size:][:size]), other, i*size))
		}
		if err := errors.Join(err, w.Fence(0)); err != nil {
			return err
		}
		for i := range dst {
			if dst[i] != byte(i/size) || mine[n*size+i] != byte(100+i/size) {
				return fmt.Errorf("byte %d: got %d, have %d", i, dst[i], mine[n*size+i])
			}
		}
		if l.tags != comm.TagUB>>1+n+2*uint32(other) {
			return fmt.Errorf("the last tag is %d", l.tags)
		}
		return w.Free()
	})
}

// Bundles are used again: epochs allocate less than bundles are large.
func TestBundlesAreUsedAgain(t *testing.T) {
	const rounds = 200
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	lanes(t, 2, 16, func(w *Win, p *port, mine []byte) error {
		epoch := func() error { return errors.Join(w.Put(comm.Of(mine[:8]), 1-w.c.Rank(), 8), w.Fence(0)) }
		err := epoch()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			err = errors.Join(err, epoch())
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > bundleBytes {
			// of two, which both send one
			err = errors.Join(err, fmt.Errorf("%d bytes an epoch", each))
		}
		return err
	})
}

// A rank that is given up is counted once, whether its fence has come or not, and however often it
// is given up. The window is lost with the first error, and the others' fences go on.
func TestRankIsGivenUpOnce(t *testing.T) {
	for _, marked := range []bool{false, true} {
		given := make(chan struct{})
		lanes(t, 3, 8, func(w *Win, p *port, mine []byte) error {
			if w.c.Rank() != 0 {
				if w.c.Rank() == 2 || !marked {
					<-given
				}
				return errors.Join(w.Fence(0), w.Fence(0), w.Fence(0), w.Free())
			}
			l := p.lanes[1]
			if marked {
				if err := await("the fence of rank 1 is there", func() bool {
					p.mu.Lock()
					defer p.mu.Unlock()
					return l.marked
				}); err != nil {
					return err
				}
			}
			p.lose(l, errors.New("first"))
			p.lose(l, errors.New("second"))
			p.mu.Lock()
			marks := p.marks
			p.mu.Unlock()
			close(given)
			var err error
			if marks != 1 {
				err = fmt.Errorf("%d ranks are counted", marks)
			}
			for range 3 {
				ferr := w.Fence(0)
				if ferr == nil || ferr.Error() != "rma: fence on rank 0: rank 1: first" {
					err = errors.Join(err, fmt.Errorf("the fence: %w", ferr))
				}
			}
			if ferr := w.Free(); ferr == nil || ferr.Error() != "rma: free on rank 0: rank 1: first" {
				err = errors.Join(err, fmt.Errorf("free: %w", ferr))
			}
			return err
		})
	}
}

// Which loss ends the window for the other ranks too: that of a rank, and not the end of the run.
func TestLossRevokes(t *testing.T) {
	for _, row := range []struct {
		err     error
		revokes bool
		text    string
	}{
		{errors.New("odd"), false, "rank 1: odd"},
		{fmt.Errorf("gone: %w", comm.ErrPeerLost), true, "gone: " + comm.ErrPeerLost.Error()},
		{&comm.Error{Op: "recv", Err: fmt.Errorf("gone: %w", comm.ErrPeerLost)}, true, "gone: " + comm.ErrPeerLost.Error()},
		{fmt.Errorf("%w by %w", comm.ErrAborted, comm.ErrPeerLost), false, comm.ErrAborted.Error() + " by " + comm.ErrPeerLost.Error()},
		{fmt.Errorf("it is %w", comm.ErrRevoked), false, "it is " + comm.ErrRevoked.Error()},
	} {
		lanes(t, 2, 8, func(w *Win, p *port, mine []byte) error {
			if w.c.Rank() == 1 {
				err := w.Fence(0)
				if errors.Is(err, comm.ErrRevoked) != row.revokes || (err != nil) != row.revokes {
					return fmt.Errorf("%v: the other rank's fence: %w", row.err, err)
				}
				return nil
			}
			p.lose(p.lanes[1], row.err)
			err := w.Fence(0)
			if err == nil || err.Error() != "rma: fence on rank 0: "+row.text {
				return fmt.Errorf("%v: the fence: %w", row.err, err)
			}
			return nil
		})
	}
}

// A port that is closed takes nothing on and loses nobody: a receive that is posted too late is
// taken back.
func TestClosedPort(t *testing.T) {
	lanes(t, 2, 8, func(w *Win, p *port, mine []byte) error {
		l := p.lanes[1-w.c.Rank()]
		errs := []error{w.Free()}
		_, err := l.req.Wait(context.Background())
		if !errors.Is(err, comm.ErrCancelled) {
			errs = append(errs, fmt.Errorf("the standing receive: %w", err))
		}
		l.listen()
		if _, err := l.req.Wait(context.Background()); !errors.Is(err, comm.ErrCancelled) {
			errs = append(errs, fmt.Errorf("the late receive: %w", err))
		}
		p.lose(l, errors.New("late"))
		p.mu.Lock()
		defer p.mu.Unlock()
		if l.lost || p.err != nil || p.teller.of.Load() != nil {
			errs = append(errs, fmt.Errorf("lost %v, %w", l.lost, p.err))
		}
		return errors.Join(errs...)
	})
}

// A receive of a port says what the other rank is to do; a standing one says so only while a fence
// waits for that rank, and one of a port that is closed says nothing.
func TestReceivesOfAPortAreDescribed(t *testing.T) {
	done := func(error) {}
	for _, row := range []struct {
		says   string
		tag    int
		done   func(error)
		change func(p *port)
	}{
		{"rank 1 to answer a get", 7, nil, func(*port) {}},
		{"rank 1 to send what it puts", 8, done, func(*port) {}},
		{"", bundleTag, nil, func(*port) {}},
		{"rank 1 in fence number 5", bundleTag, done, func(*port) {}},
		{"rank 1 in free window number 5", bundleTag, done, func(p *port) { p.frees = true }},
		{"", bundleTag, done, func(p *port) { p.lanes[1].marked = true }},
		{"", bundleTag, done, func(p *port) { p.lanes[1].lost = true }},
		{"", 7, done, func(p *port) { p.teller.of.Store(nil) }},
	} {
		p := &port{epoch: 4, done: row.done, lanes: []*lane{nil, {}}, teller: new(teller)}
		p.teller.of.Store(p)
		row.change(p)
		require.Equal(t, row.says, p.teller.describe(1, row.tag), row.tag)
	}
}
