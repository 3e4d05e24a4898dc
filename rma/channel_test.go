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

// runChannels makes a window of ranks that treat each other as processes. It calls body at each
// rank, with the rank's endpoint, when the first epoch is open at all ranks.
func runChannels(t *testing.T, ranks, bytes int, body func(w *Win, ep *endpoint, mine []byte) error) {
	t.Helper()
	require.NoError(t, comm.Run(inproc.Divide(t.Context()), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
		w, mine, err := Allocate[byte](c, bytes)
		if err != nil {
			return err
		}
		if err := errors.Join(w.Fence(0), c.Barrier()); err != nil {
			return err
		}
		return body(w, w.b.(*memory).ep, mine) // the end of the run frees the window
	}))
}

// await waits until something that another goroutine does is true.
func await(what string, is func() bool) error {
	for end := time.Now().Add(20 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			return fmt.Errorf("timed out while waiting until %s", what)
		}
	}
	return nil
}

// block keeps an endpoint from completing fences until unblock is called.
func (ep *endpoint) block() (unblock func()) {
	ep.mu.Lock()
	ep.settling = true
	ep.mu.Unlock()
	return func() {
		ep.mu.Lock()
		ep.settling = false
		ep.settle()
	}
}

// state is the sending half of a channel.
type state struct {
	filling                                    bool
	backlog, outbox, inFlight, eagerLeft, gets int
	seq                                        uint64
}

func (ch *channel) state() state {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return state{ch.filling != nil, len(ch.backlog), len(ch.outbox), ch.inFlight, ch.eagerLeft, ch.gets, ch.seq}
}

// atRest is the state of a channel that has sent so many packets, and has nothing left to send.
func atRest(packets uint64) state { return state{eagerLeft: maxEager, seq: packets} }

func isZero(list []outgoing) bool {
	for _, x := range list {
		if !reflect.ValueOf(x).IsZero() {
			return false
		}
	}
	return true
}

func wantsState(ch *channel, want state) error {
	if got := ch.state(); got != want {
		return fmt.Errorf("the channel is %+v, not %+v", got, want)
	}
	return nil
}

// A rank whose epoch is one later than the target's sends maxEager packets, which the target has to
// keep. It then sends maxInFlight more, which the target receives in its next epoch. The rest waits
// in the backlog, in order. No memory of the backlog stays in use.
func TestEarlyPackets(t *testing.T) {
	const n = maxEager + maxInFlight + 6
	blocked := make(chan struct{})
	runChannels(t, 2, n*inlineBytes, func(w *Win, ep *endpoint, mine []byte) error {
		if w.c.Rank() == 1 {
			unblock := ep.block()
			closes := w.Ifence(0)
			<-blocked
			unblock()
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
		ch := ep.channels[1]
		var err error
		for i := range n { // a packet each
			err = errors.Join(err, w.Put(comm.Of(src[i*inlineBytes:][:inlineBytes]), 1, i*inlineBytes))
			switch i + 1 {
			case 1:
				err = errors.Join(err, wantsState(ch, state{filling: true, eagerLeft: maxEager, seq: 2}))
			case 1 + maxEager:
				err = errors.Join(err, wantsState(ch, state{filling: true, seq: 2 + maxEager}))
			case maxEager + maxInFlight:
				err = errors.Join(err, wantsState(ch, state{filling: true, inFlight: maxInFlight - 1, seq: 1 + maxEager + maxInFlight}))
			case 1 + maxEager + maxInFlight:
				err = errors.Join(err, wantsState(ch, state{inFlight: maxInFlight, backlog: 1, seq: 2 + maxEager + maxInFlight}))
			}
		}
		closes := w.Ifence(0)
		full := state{inFlight: maxInFlight, backlog: n - maxEager - maxInFlight + 1, seq: 2 + maxEager + maxInFlight}
		// another goroutine may put it there
		_ = await("the mark waits as well", func() bool { return ch.state() == full })
		err = errors.Join(err, wantsState(ch, full))
		ch.mu.Lock()
		backlog := ch.backlog[:len(ch.backlog):len(ch.backlog)]
		ch.mu.Unlock()
		close(blocked)
		_, werr := closes.Wait(context.Background())
		// the last has the mark
		err = errors.Join(err, werr, await("all is sent", func() bool { return ch.state() == atRest(2+n) }))
		ch.mu.Lock()
		defer ch.mu.Unlock()
		if ch.backlog != nil || !isZero(backlog) {
			err = errors.Join(err, errors.New("what has been sent is kept"))
		}
		return err
	})
}

// While one goroutine sends, others put their packets into the outbox. The packets are sent in
// order, and the outbox does not keep their memory.
func TestOutboxOfABusyChannel(t *testing.T) {
	runChannels(t, 2, 4*inlineBytes, func(w *Win, ep *endpoint, mine []byte) error {
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
		ch := ep.channels[1]
		ch.mu.Lock()
		ch.busy = true
		ch.mu.Unlock()
		var err error
		for i := range 3 {
			err = errors.Join(err, w.Put(comm.Of(src[i*inlineBytes:][:inlineBytes]), 1, i*inlineBytes))
		}
		err = errors.Join(err, wantsState(ch, state{filling: true, outbox: 2, eagerLeft: maxEager - 2, seq: 3}))
		ch.mu.Lock()
		outbox := ch.outbox[:2:2]
		ch.busy = false
		ch.ship()
		err = errors.Join(err, await("it is sent", func() bool {
			return ch.state() == state{filling: true, eagerLeft: maxEager - 2, seq: 3}
		}))
		ch.mu.Lock()
		if ch.outbox != nil || !isZero(outbox) || ch.busy {
			err = errors.Join(err, fmt.Errorf("the outbox keeps %d, busy is %v", len(ch.outbox), ch.busy))
		}
		ch.mu.Unlock()
		return errors.Join(err, w.Fence(0))
	})
}

// The payload of a direct put is sent right after its command, and does not wait for the fence.
func TestDirectPutGoesAtOnce(t *testing.T) {
	runChannels(t, 2, 4*inlineBytes, func(w *Win, ep *endpoint, mine []byte) error {
		var err error
		if w.c.Rank() == 0 {
			ch := ep.channels[1]
			ch.mu.Lock()
			ch.busy = true
			ch.mu.Unlock()
			err = errors.Join(w.Put(comm.Of([]byte{1}), 1, 0), w.Put(comm.Of(make([]byte, 2*inlineBytes)), 1, 1),
				// packet 1 was the mark of the first fence
				wantsState(ch, state{outbox: 2, eagerLeft: maxEager - 1, seq: 2}))
			ch.mu.Lock()
			if ch.outbox[0].sealed == nil || ch.outbox[1].sealed != nil {
				err = errors.Join(err, errors.New("the payload is before its command"))
			}
			ch.busy = false
			ch.ship()
		}
		return errors.Join(err, w.Fence(0))
	})
}

// The first get is sent at once. Later gets wait for its answer in one packet, which is sent at the
// answer and not at the fence.
func TestGetsWaitForTheAnswer(t *testing.T) {
	blocked, got := make(chan struct{}), make(chan struct{})
	runChannels(t, 2, 64, func(w *Win, ep *endpoint, mine []byte) error {
		for i := range mine {
			mine[i] = byte(i)
		}
		if w.c.Rank() == 1 {
			unblock := ep.block()
			closes := w.Ifence(0)
			<-blocked
			unblock()
			_, err := closes.Wait(context.Background())
			<-got
			return errors.Join(err, w.Fence(0))
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		ch := ep.channels[1]
		dst := make([]byte, 10)
		var err error
		for i := range dst {
			err = errors.Join(err, w.Get(comm.Of(dst[i:i+1]), 1, 3*i))
		}
		err = errors.Join(err, wantsState(ch, state{filling: true, eagerLeft: maxEager - 1, gets: len(dst), seq: 3}))
		close(blocked)
		err = errors.Join(err, await("all gets are answered", func() bool {
			return ch.state() == state{eagerLeft: maxEager - 2, seq: 4}
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

// Tags of answers and of direct puts start again when the last one has been used, and none is the
// tag of packets.
func TestTagsComeRound(t *testing.T) {
	const size, n = inlineBytes + 8, 9
	runChannels(t, 2, 2*n*size, func(w *Win, ep *endpoint, mine []byte) error {
		other := 1 - w.c.Rank()
		// n or n-1 tags are left. With n-1, a put would get the tag of packets.
		ch := ep.channels[other]
		ch.lastTag = comm.TagUB>>1 - n + uint32(other)
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
		if ch.lastTag != comm.TagUB>>1+n+2*uint32(other) {
			return fmt.Errorf("the last tag is %d", ch.lastTag)
		}
		return w.Free()
	})
}

// Packets are used again: an epoch allocates less than the size of a packet.
func TestPacketsAreUsedAgain(t *testing.T) {
	const rounds = 200
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would empty the pool
	runChannels(t, 2, 16, func(w *Win, ep *endpoint, mine []byte) error {
		epoch := func() error { return errors.Join(w.Put(comm.Of(mine[:8]), 1-w.c.Rank(), 8), w.Fence(0)) }
		err := epoch()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			err = errors.Join(err, epoch())
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > packetBytes {
			// two ranks allocate, and each sends one packet
			err = errors.Join(err, fmt.Errorf("%d bytes an epoch", each))
		}
		return err
	})
}

// A lost rank is counted once, whether its mark has arrived or not, and however often it is lost.
// All fences of the window return the first error, and the other ranks' fences complete.
func TestRankIsLostOnce(t *testing.T) {
	for _, marked := range []bool{false, true} {
		lost := make(chan struct{})
		runChannels(t, 3, 8, func(w *Win, ep *endpoint, mine []byte) error {
			if w.c.Rank() != 0 {
				if w.c.Rank() == 2 || !marked {
					<-lost
				}
				return errors.Join(w.Fence(0), w.Fence(0), w.Fence(0), w.Free())
			}
			ch := ep.channels[1]
			if marked {
				if err := await("the fence of rank 1 is there", func() bool {
					ep.mu.Lock()
					defer ep.mu.Unlock()
					return ch.marked
				}); err != nil {
					return err
				}
			}
			ep.lose(ch, errors.New("first"))
			ep.lose(ch, errors.New("second"))
			ep.mu.Lock()
			marks := ep.marks
			ep.mu.Unlock()
			close(lost)
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

// The loss of a rank ends the window for the other ranks too; the end of the run does not.
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
		runChannels(t, 2, 8, func(w *Win, ep *endpoint, mine []byte) error {
			if w.c.Rank() == 1 {
				err := w.Fence(0)
				if errors.Is(err, comm.ErrRevoked) != row.revokes || (err != nil) != row.revokes {
					return fmt.Errorf("%v: the other rank's fence: %w", row.err, err)
				}
				return nil
			}
			ep.lose(ep.channels[1], row.err)
			err := w.Fence(0)
			if err == nil || err.Error() != "rma: fence on rank 0: "+row.text {
				return fmt.Errorf("%v: the fence: %w", row.err, err)
			}
			return nil
		})
	}
}

// A closed endpoint receives nothing and loses no rank: a receive that is posted too late is
// cancelled.
func TestClosedEndpoint(t *testing.T) {
	runChannels(t, 2, 8, func(w *Win, ep *endpoint, mine []byte) error {
		ch := ep.channels[1-w.c.Rank()]
		errs := []error{w.Free()}
		_, err := ch.req.Wait(context.Background())
		if !errors.Is(err, comm.ErrCancelled) {
			errs = append(errs, fmt.Errorf("the standing receive: %w", err))
		}
		ch.listen()
		if _, err := ch.req.Wait(context.Background()); !errors.Is(err, comm.ErrCancelled) {
			errs = append(errs, fmt.Errorf("the late receive: %w", err))
		}
		ep.lose(ch, errors.New("late"))
		ep.mu.Lock()
		defer ep.mu.Unlock()
		if ch.lost || ep.err != nil || ep.describer.ep.Load() != nil {
			errs = append(errs, fmt.Errorf("lost %v, %w", ch.lost, ep.err))
		}
		return errors.Join(errs...)
	})
}

// A receive of an endpoint is described by what the other rank has to do. A standing receive is
// described only while a fence waits for that rank, and a receive of a closed endpoint is not.
func TestReceivesAreDescribed(t *testing.T) {
	done := func(error) {}
	for _, row := range []struct {
		says   string
		tag    int
		done   func(error)
		change func(ep *endpoint)
	}{
		{"rank 1 to answer a get", 7, nil, func(*endpoint) {}},
		{"rank 1 to send the data of a put", 8, done, func(*endpoint) {}},
		{"", packetTag, nil, func(*endpoint) {}},
		{"rank 1 in fence number 5", packetTag, done, func(*endpoint) {}},
		{"rank 1 in free window number 5", packetTag, done, func(ep *endpoint) { ep.freeing = true }},
		{"", packetTag, done, func(ep *endpoint) { ep.channels[1].marked = true }},
		{"", packetTag, done, func(ep *endpoint) { ep.channels[1].lost = true }},
		{"", 7, done, func(ep *endpoint) { ep.describer.ep.Store(nil) }},
	} {
		ep := &endpoint{epoch: 4, done: row.done, channels: []*channel{nil, {}}, describer: new(describer)}
		ep.describer.ep.Store(ep)
		row.change(ep)
		require.Equal(t, row.says, ep.describer.describe(1, row.tag), row.tag)
	}
}
