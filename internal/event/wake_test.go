// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newUnreadRecorder returns a recorder without a reader goroutine.
func newUnreadRecorder(ring int) *Recorder {
	return &Recorder{opt: Options{Ring: ring, Wants: All}, clock: newClock(), work: make(chan struct{}, 1)}
}

// woken reports whether the reader has been woken since the last call.
func (r *Recorder) woken() bool {
	select {
	case <-r.work:
		return true
	default:
		return false
	}
}

// A writer wakes the reader with the first record past the half, and with each record for which
// there is no room. It loads tail when it reaches limit, and no sooner.
func TestRingWakes(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	r := rec.Ring(Location{Kind: SlotLocation})
	const half = minRing / 2
	put := func(n int) (wakes []int) {
		for i := range n {
			if r.Put(1, Started, 0, 0, 0); rec.woken() {
				wakes = append(wakes, i)
			}
		}
		return wakes
	}
	took := 0
	take := func() { r.take(func(l []Record) { took += len(l) }) }
	require.Empty(t, put(half))
	require.EqualValues(t, half, r.limit)
	require.Equal(t, []int{0}, put(1))
	require.EqualValues(t, minRing, r.limit)
	require.Empty(t, put(half-1))
	require.Zero(t, r.losses())
	require.Equal(t, []int{0, 1, 2}, put(3))
	require.EqualValues(t, 3, r.losses())
	take()
	require.Equal(t, minRing, took)
	require.Empty(t, put(half))
	require.EqualValues(t, minRing+half, r.limit)
	take()
	require.Empty(t, put(half), "the reader has caught up")
	require.Equal(t, []int{0}, put(1))
	require.EqualValues(t, 3, r.losses())
}

// Records are passed in contiguous pieces of the ring, and each piece is freed after it was read.
func TestRingTakes(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	r := rec.Ring(Location{Kind: SlotLocation})
	next, seen := uint64(0), uint64(0)
	var pieces []int
	step := func(n int) []int {
		for range n {
			r.Put(1, Started, next, 0, 0)
			next++
		}
		pieces = nil
		r.take(func(l []Record) {
			require.Equal(t, seen, r.tail.Load(), "a piece is not freed while it is read")
			for i := range l {
				require.Equal(t, seen, l[i].A)
				seen++
			}
			pieces = append(pieces, len(l))
		})
		require.Equal(t, seen, r.tail.Load())
		return pieces
	}
	require.Empty(t, step(0))
	require.Equal(t, []int{40}, step(40))
	require.Equal(t, []int{24, 16}, step(40))
	require.Equal(t, []int{48}, step(48))
	require.Equal(t, []int{minRing}, step(minRing))
	require.Equal(t, []int{1}, step(1))
	require.Zero(t, r.losses())
}

// The same for a shared ring: it wakes the reader once past the half, whatever the reader has
// consumed.
func TestSharedWakes(t *testing.T) {
	rec := newUnreadRecorder(minRing)
	s := rec.Shared(Location{Kind: RankLocation})
	put := func(n int) (wakes []int) {
		for i := range n {
			if s.Put(Matched, 0, 0, 0); rec.woken() {
				wakes = append(wakes, i)
			}
		}
		return wakes
	}
	for round := range 3 {
		took := 0
		require.Equal(t, []int{minRing / 2}, put(minRing), "round %d", round)
		require.Equal(t, []int{0, 1}, put(2))
		require.EqualValues(t, 2*(round+1), s.losses())
		s.take(func(l []Record) { took += len(l) })
		require.Equal(t, minRing, took)
	}
}

// A cell that is claimed and not filled holds up the cells after it: in the first round, and when
// it still contains a record of the previous round.
func TestSharedHeldUp(t *testing.T) {
	rec := newUnreadRecorder(512)
	s := rec.Shared(Location{Kind: RankLocation})
	next, seen := uint64(0), uint64(0)
	put := func(n int) {
		for range n {
			s.Put(Matched, next, 0, 0)
			next++
		}
	}
	take := func() (batches []int) {
		s.take(func(l []Record) {
			require.Equal(t, seen+uint64(len(l)), s.tail.Load(), "copied cells are free")
			for i := range l {
				require.Equal(t, seen, l[i].A)
				seen++
			}
			batches = append(batches, len(l))
		})
		return batches
	}
	for range 3 {
		put(3)
		at := s.head.Add(1) - 1
		next++
		put(300)
		require.Equal(t, []int{3}, take())
		require.Empty(t, take())
		c := &s.cells[at%512]
		c.rec = Make(0, Matched, at, 0, 0)
		c.full.Store(at + 1)
		require.Equal(t, []int{256, 45}, take())
	}
	require.Zero(t, s.losses())
}

// callLog is a sink that logs its calls.
type callLog struct {
	name  string
	log   *[]string
	fail  map[string]error
	last  Moment
	calls chan string // if not nil, receives each call
}

func (k *callLog) note(format string, args ...any) {
	s := k.name + " " + fmt.Sprintf(format, args...)
	*k.log = append(*k.log, s)
	if k.calls != nil {
		k.calls <- s
	}
}
func (k *callLog) Begin(*Recorder) { k.note("begin") }
func (k *callLog) Events(s *Source, l []Record) {
	for i := range l {
		k.note("%d: %v %d", s.ID, l[i].Kind(), l[i].A)
	}
}
func (k *callLog) Flush(m Moment) error { k.last = m; k.note("flush"); return k.fail["flush"] }
func (k *callLog) Idle() error          { k.note("idle"); return k.fail["idle"] }
func (k *callLog) Close() error         { k.note("close"); return k.fail["close"] }

// The order of calls of sinks: sources one after another; losses once, after the records of their
// source; a flush after all records; idle after a flush; close last.
func TestSinkCalls(t *testing.T) {
	var log []string
	a, b := &callLog{name: "a", log: &log}, &callLog{name: "b", log: &log}
	said := func() (l []string) { l, log = log, nil; return l }
	rec, err := New(Options{Ring: minRing, Sinks: []Sink{a, b}, Every: 1 << 40})
	require.NoError(t, err)
	require.Equal(t, []string{"a begin", "b begin"}, said())
	rec.Attach()
	rec.Attach()
	one, two := rec.Ring(Location{Kind: SlotLocation, Index: 5}), rec.Shared(Location{Kind: RankLocation})
	require.Equal(t, Source{0, Location{SlotLocation, 0, 5}}, one.Source)
	require.Equal(t, Source{1, Location{Kind: RankLocation}}, two.Source)
	require.Same(t, rec, two.Recorder())
	require.Equal(t, All, one.Wants)
	two.Put(Matched, 7, 0, 0)
	one.Put(1, Started, 8, 0, 0)
	before := Ticks()
	require.NoError(t, rec.Flush())
	require.Equal(t, []string{"a 0: started 8", "b 0: started 8", "a 1: matched 7", "b 1: matched 7", "a flush", "b flush"}, said())
	require.LessOrEqual(t, before, b.last.Ticks)
	require.Equal(t, a.last, b.last)
	rate := Clock{first: rec.Start()}
	rate.refine(b.last)
	require.Equal(t, rate.rate.Load(), rec.clock.rate.Load(), "the rate follows from the last moment")

	rec.Detach()
	require.Empty(t, said())
	one.lost.Add(3)
	two.lost.Add(4)
	two.Put(Matched, 9, 0, 0)
	one.Retire()
	rec.Detach()
	require.Equal(t, []string{"a 0: lost 3", "b 0: lost 3", "a 1: matched 9", "b 1: matched 9", "a 1: lost 4", "b 1: lost 4", "a flush", "b flush", "a idle", "b idle"}, said())
	require.NoError(t, rec.Flush())
	require.Equal(t, []string{"a flush", "b flush"}, said(), "losses are reported once")
	require.EqualValues(t, 7, rec.Lost())
	require.Len(t, rec.rings, 1)
	two.lost.Add(2)
	two.Put(Matched, 10, 0, 0)
	require.EqualValues(t, 9, rec.Lost())
	require.NoError(t, rec.Close())
	require.Equal(t, []string{"a 1: matched 10", "b 1: matched 10", "a 1: lost 2", "b 1: lost 2", "a flush", "b flush", "a close", "b close"}, said())
	two.Put(Matched, 11, 0, 0)
	rec.empty()
	require.NoError(t, rec.Flush())
	require.NoError(t, rec.Close())
	rec.Attach()
	rec.Detach()
	require.Empty(t, said(), "the recording is over")
}

// The first error of several is kept until the end. An error of Close is added, unless it is the
// same.
func TestFirstErrorOfSinks(t *testing.T) {
	flush, idle, end, late := errors.New("flush"), errors.New("idle"), errors.New("end"), errors.New("late")
	var log []string
	a := &callLog{log: &log, fail: map[string]error{}}
	b := &callLog{log: &log, fail: map[string]error{"close": late}}
	rec, err := New(Options{Sinks: []Sink{a, b}, Every: 1 << 40})
	require.NoError(t, err)
	require.NoError(t, rec.Flush())
	b.fail["flush"] = flush
	require.ErrorIs(t, rec.Flush(), flush)
	b.fail["flush"] = end
	a.fail["idle"] = idle
	rec.Attach()
	rec.Detach()
	require.Equal(t, flush, rec.Flush())
	a.fail["close"] = flush
	require.EqualError(t, rec.Close(), "flush\nlate")
	require.EqualError(t, rec.Flush(), "flush\nlate")

	b.fail = map[string]error{"flush": flush}
	rec, err = New(Options{Sinks: []Sink{b}, Every: 1 << 40})
	require.NoError(t, err)
	require.Equal(t, flush, rec.Flush())
	require.True(t, rec.Close() == flush, "an end without an error adds none")
}

// Several goroutines may close a recording at once: each call returns after the sinks are closed
// and the reader goroutine has ended.
func TestCloseAtOnce(t *testing.T) {
	for range 20 {
		k := &kept{}
		rec, err := New(Options{Sinks: []Sink{k}, Every: 1 << 40})
		require.NoError(t, err)
		var wg sync.WaitGroup
		rec.work <- struct{}{} // the reader is about to empty the rings
		for range 3 {
			wg.Go(func() {
				err := rec.Close()
				select {
				case <-rec.ended:
				default:
					err = errors.New("the reader is there")
				}
				if rec.drain.Lock(); err != nil || k.closed != 1 {
					t.Errorf("%v, closed %d times", err, k.closed)
				}
				rec.drain.Unlock()
			})
		}
		wg.Wait()
	}
}

// A writer that waits for room wakes the reader, which makes it.
func TestWaitForRoom(t *testing.T) {
	for _, eager := range []bool{false, true} {
		rec := newUnreadRecorder(minRing)
		rec.opt.Patient = !eager
		rec.eager.Store(eager)
		own, shared := rec.Ring(Location{Kind: SlotLocation}), rec.Shared(Location{Kind: RankLocation})
		for name, put := range map[string]func(){
			"own":    func() { own.Put(1, Parked, 0, 0, 0) },
			"shared": func() { shared.Put(Matched, 0, 0, 0) },
		} {
			for range minRing {
				put()
			}
			rec.woken()
			done := make(chan struct{})
			go func() { put(); close(done) }()
			<-rec.work
			own.take(func([]Record) {})
			shared.take(func([]Record) {})
			<-done
			require.Zero(t, own.losses()+shared.losses(), name)
		}
		rec.closing.Store(true)
		for range 2 * minRing {
			own.Put(1, Parked, 0, 0, 0)
		}
		require.NotZero(t, own.losses())
	}
}

// The reader empties a ring that is half full, and flushes the sinks at intervals, without any
// call.
func TestReader(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		put   int
		want  string
	}{{1 << 40, minRing/2 + 1, " 0: parked 31"}, {time.Millisecond, 1, " flush"}} {
		// the last record is put after the wake
		var log []string
		k := &callLog{log: &log, calls: make(chan string, 4*minRing)}
		rec, err := New(Options{Ring: minRing, Sinks: []Sink{k}, Every: c.every})
		require.NoError(t, err)
		r := rec.Ring(Location{Kind: SlotLocation})
		for i := range uint64(c.put) {
			r.Put(1, Parked, i, 0, 0)
		}
		for s := range k.calls {
			if s == c.want {
				break
			}
		}
		go func() { // the log may be longer than the channel
			for range k.calls {
			}
		}()
		require.NoError(t, rec.Close())
		close(k.calls)
	}
}

// Options and their defaults.
func TestOptions(t *testing.T) {
	rec, err := New(Options{})
	require.NoError(t, err)
	require.Len(t, rec.Ring(Location{}).buf, DefaultRing)
	require.Len(t, rec.Shared(Location{}).cells, DefaultRing)
	require.Equal(t, All, rec.Wants())
	require.False(t, rec.Annotate() || rec.Stacks() || rec.Samples() || rec.opt.Patient || rec.eager.Load())
	require.Nil(t, rec.StackCache())
	require.Same(t, rec.clock, rec.Clock())
	require.Equal(t, rec.clock.first, rec.Start())
	require.Equal(t, []int{1, 2}, []int{rec.Group(), rec.Group()})
	require.Equal(t, []uint64{1, 4, 5}, []uint64{rec.TaskIDs(3), rec.TaskIDs(1), rec.TaskIDs(2)})
	require.Equal(t, []uint64{1, 2}, []uint64{rec.ID(), rec.ID()})
	require.NoError(t, rec.Close())

	rec, err = New(Options{Ring: 2 * minRing, Wants: Of(Put, Get) | 1, Annotate: true, Stacks: true, Eager: true, Patient: true, Sample: 3})
	require.NoError(t, err)
	require.Len(t, rec.Ring(Location{}).buf, 2*minRing)
	require.Equal(t, Of(Put, Get), rec.Wants())
	require.Equal(t, Of(Put, Get), rec.Shared(Location{}).Wants)
	require.True(t, rec.Annotate() && rec.Stacks() && rec.Samples() && rec.opt.Patient && rec.eager.Load())
	require.NotNil(t, rec.StackCache())
	rec.Thin()
	require.False(t, rec.eager.Load())
	require.NoError(t, rec.Close())

	for sample, want := range map[int]struct {
		is bool
		of int
	}{0: {false, 1}, 1: {false, 1}, 2: {true, 2}, 9: {true, 9}, Adaptive: {true, 1}} {
		rec, err := New(Options{Sample: sample})
		require.NoError(t, err)
		require.Equal(t, want.is, rec.Samples(), sample)
		require.Equal(t, want.is, rec.Sampler() != nil, sample)
		require.Equal(t, want.of, rec.Sample())
		require.NoError(t, rec.Close())
	}
}

// Each number is given once, also to concurrent callers.
func TestNumbersHammer(t *testing.T) {
	const callers, times = 4, 2000
	rec, err := New(Options{})
	require.NoError(t, err)
	var all [callers][]uint64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range times {
				first := rec.TaskIDs(3)
				all[i] = append(all[i], first, first+1, first+2, 1<<32+rec.ID(), 1<<33+uint64(rec.Group()))
			}
		})
	}
	wg.Wait()
	require.NoError(t, rec.Close())
	seen := map[uint64]bool{}
	for _, list := range all {
		for _, n := range list {
			require.False(t, seen[n], n)
			seen[n] = true
		}
	}
	require.Len(t, seen, 5*callers*times)
}
