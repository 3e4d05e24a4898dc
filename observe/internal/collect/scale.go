// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"

	"weft/internal/event"
	"weft/observe/internal/dist"
)

// scaled returns copies of the statistics by origin, scaled so that they also stand for the tasks
// that are not recorded. A family is the tasks of one label, line and body. The numbers of recorded
// and of other tasks of a family are exact. Their times and stacks are those of the recorded tasks:
// each counts with its weight, times the ratio of all tasks of the family to the sum of the
// weights. So the sums are right on average. Main tasks are always recorded, and stand for
// themselves. If no task of a family was recorded, only the number of its tasks is known.
// +checklocks:c.mu
func (c *Collector) scaled() map[uint32]*Kind {
	m := make(map[uint32]*Kind, len(c.kinds))
	for spec, k := range c.kinds {
		m[spec] = new(*k)
	}
	if !c.rec.Samples() {
		return m
	}
	skipped, names := c.rec.Skipped(), c.rec.Names()
	specs := uint32(names.Specs()) // read once, because new origins may be added at any time
	by := families(names, specs)
	for spec := range specs { // in order, so that the result is deterministic
		o := names.Origin(spec + 1)
		o.Stack = 0
		family := by[o]
		if family[0] != spec+1 {
			continue // the family has been done
		}
		number := int64(0) // tasks of the family
		begun := int64(0)  // the sum of the weights of the recorded ones
		over := int64(0)   // the part of begun that has been scaled below
		for _, s := range family {
			number += int64(skipped[s])
			if k := m[s]; k != nil {
				number += k.recorded
				begun += k.begun
			}
		}
		if begun == 0 {
			if number > 0 {
				m[family[0]] = &Kind{}
				m[family[0]].Sum.Count = number
			}
			continue
		}
		f := float64(number) / float64(begun)
		for _, s := range family {
			if k := m[s]; k != nil { // rounded so that the sum of the counts is the rounded sum
				before := times(over, f)
				over += k.Sum.Count
				k.multiply(f)
				k.Sum.Count = times(over, f) - before
			}
		}
	}
	return m
}

// leftOut returns the number of tasks that were not observed, and of all tasks. +checklocks:c.mu
func (c *Collector) leftOut() (n, all int64) {
	for _, k := range c.rec.Skipped() {
		n += int64(k)
	}
	all = n
	for _, k := range c.kinds {
		all += k.recorded
	}
	return n, all
}

// families groups the origins with numbers up to specs that differ only in their stack.
func families(names *event.Names, specs uint32) map[event.Origin][]uint32 {
	m := map[event.Origin][]uint32{}
	for spec := range specs {
		o := names.Origin(spec + 1)
		o.Stack = 0
		m[o] = append(m[o], spec+1)
	}
	return m
}

func times(n int64, f float64) int64 { return int64(math.Round(float64(n) * f)) }

// multiply makes k stand for f times as many tasks.
func (k *Kind) multiply(f float64) {
	k.Sum.Count = times(k.Sum.Count, f)
	k.Sum.Scale(f)
	for _, d := range []*dist.D{&k.Run, &k.Deps, &k.Ready, &k.Blocked, &k.Bound} {
		d.Multiply(f)
	}
	k.Failed = times(k.Failed, f)
	k.Skipped = times(k.Skipped, f)
}
