// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"fmt"
	"time"

	"weft/comm"
)

// Options says how rows are measured.
type Options struct {
	Sizes  []int64
	Iter   int64         // repetitions at most
	Volume int64         // bytes of all repetitions, at most; there is at least one repetition
	Time   time.Duration // of all repetitions of a row, at most; there are at least two
	Sync   bool          // barriers between collectives, so that all ranks begin each together
}

// Measure measures benchmarks on all ranks of c. It is collective. Rank 0 reports the rows.
func Measure(c *comm.Comm, names []string, o Options, report func(Row) error) error {
	var w *work
	for _, name := range names {
		b := find(name)
		if w == nil && (b.kind == overlap || b.name == "Progress") {
			w = newWork()
		}
		if c.Size() < b.need {
			return fmt.Errorf("%s needs %d ranks, and there are %d", name, b.need, c.Size())
		}
		for _, size := range b.sizesOf(o.Sizes) {
			row, err := measure(c, b, size, &o, w)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", name, size, err)
			}
			if c.Rank() != 0 {
				continue
			}
			row.Bench, row.Size, row.Ranks = b.name, size, c.Size()
			if err := report(row); err != nil {
				return err
			}
		}
	}
	return nil
}

func measure(c *comm.Comm, b *benchmark, size int64, o *Options, w *work) (Row, error) {
	r := newRank(c, b, size)
	if b.kind == special {
		return r.special(b, w)
	}
	var row Row
	var err error
	if row.Why, err = r.check(b); err != nil {
		return row, err
	}
	if row.Reps, err = r.repetitions(b, o); err != nil {
		return row, err
	}
	each, err := r.timed(b, row.Reps, o.Sync)
	if err != nil {
		return row, err
	}
	each /= b.halves
	if b.kind == single && r.me > 1 {
		each = 0
	}
	least, most, mean, err := r.statistics(each)
	if err != nil {
		return row, err
	}
	if b.kind == overlap {
		return row, r.overlapped(b, &row, each, most, w)
	}
	if b.kind == single {
		least, mean = most, most // only two ranks take part
	}
	row.Min, row.Max, row.Avg = least*1e6, most*1e6, mean*1e6
	if pairs := r.pairs() / 2; most > 0 {
		row.Rate = b.carried * float64(size) / most / 1e6
		if b.kind == band {
			row.Rate *= float64(pairs)
			row.Msgs = b.carried / most * float64(pairs)
		}
	}
	return row, nil
}

var epoch = time.Now()

// now is the time in seconds. It reads the monotonic clock only.
func now() float64 { return time.Since(epoch).Seconds() }

// warm is the time, in seconds, of the operations before the measured ones; the peers' program has
// the same. After an idle time Go's monitor thread wakes every 20 to 70 µs for some milliseconds.
// Each time it takes the processor from the rank that is bound to it.
const warm = 0.01

// repetitions warms up and returns the number of operations to measure. It is the same at all
// ranks.
func (r *rank) repetitions(b *benchmark, o *Options) (int64, error) {
	n := o.Iter
	if r.size > 0 {
		n = min(n, max(1, o.Volume/int64(r.size)))
	}
	few := min(max(3, n/10), 50)
	each, err := r.timed(b, 2, o.Sync)
	if err == nil {
		// the decision must be the same at all ranks
		_, each, _, err = r.statistics(each)
	}
	if err == nil && each*float64(few) < o.Time.Seconds() {
		each, err = r.timed(b, few, o.Sync)
	}
	if err != nil {
		return 0, err
	}
	_, guess, _, err := r.statistics(each)
	if err != nil {
		return 0, err
	}
	if more := int64(min(warm, o.Time.Seconds()) / max(guess, 1e-9)); more > few {
		if _, err := r.timed(b, more, o.Sync); err != nil {
			return 0, err
		}
	}
	phases := 1.
	if b.kind == overlap {
		phases = 3
	}
	if limit := o.Time.Seconds(); guess*float64(n)*phases > limit {
		n = max(2, int64(limit/guess/phases))
	}
	return n, nil
}

// timed returns the mean time of n operations at this rank, in seconds.
func (r *rank) timed(b *benchmark, n int64, sync bool) (float64, error) {
	between := sync && b.carried == 0
	for range 2 {
		if err := r.c.Barrier(); err != nil {
			return 0, err
		}
	}
	took, began := 0., now()
	for range n {
		if between {
			began = now()
		}
		if err := r.once(b); err != nil {
			return 0, err
		}
		if between {
			took += now() - began
			if err := r.c.Barrier(); err != nil {
				return 0, err
			}
		}
	}
	if !between {
		took = now() - began
	}
	return took / float64(n), nil
}

// statistics returns the least, the greatest and the mean of all ranks' values, at all ranks.
func (r *rank) statistics(mine float64) (least, most, mean float64, err error) {
	all := make([]float64, r.n)
	if err := r.c.Allgather(comm.Of([]float64{mine}), comm.Of(all)); err != nil {
		return 0, 0, 0, err
	}
	least, most = all[0], all[0]
	for _, v := range all {
		least, most, mean = min(least, v), max(most, v), mean+v/float64(r.n)
	}
	return least, most, mean, nil
}

// overlapped measures the operation together with as much computation as the operation takes.
func (r *rank) overlapped(b *benchmark, row *Row, pure, most float64, w *work) error {
	units := w.units(most)
	if err := r.c.Barrier(); err != nil {
		return err
	}
	began := now()
	for range row.Reps {
		w.do(units)
	}
	cpu := (now() - began) / float64(row.Reps)
	both := 0.
	for range row.Reps {
		if err := r.c.Barrier(); err != nil {
			return err
		}
		began = now()
		q, err := b.start(r)
		if err != nil {
			return err
		}
		w.do(units)
		if err := r.wait(q); err != nil {
			return err
		}
		both += now() - began
	}
	both /= float64(row.Reps)
	hidden := 0.
	if shorter := min(pure, cpu); shorter > 0 {
		hidden = min(max((pure+cpu-both)/shorter*100, 0), 100)
	}
	for _, m := range []struct {
		to   *float64
		mine float64
	}{{&row.Both, both * 1e6}, {&row.Pure, pure * 1e6}, {&row.CPU, cpu * 1e6}, {&row.Overlap, hidden}} {
		var err error
		if _, _, *m.to, err = r.statistics(m.mine); err != nil {
			return err
		}
	}
	return nil
}
