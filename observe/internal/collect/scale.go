// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math"

	"weft/internal/event"
	"weft/observe/internal/dist"
)

// scaled returns copies of what is known by origin, made to stand for the tasks that are not
// recorded as well. Of the tasks of one label, line and body, the number of those that are recorded
// and of those that are not is exact; what they have done, and by which stacks they were spawned,
// is that of the recorded ones, as often as each stands for others, in the proportion of the two.
// So the sums are right on average, and main tasks, which are always recorded, stand for
// themselves. Of tasks of which none was recorded there is a number and nothing else.
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
	specs := uint32(names.Specs()) // once: tasks of other origins may come at any time
	by := families(names, specs)
	for spec := range specs { // in their order, so that the outcome is always the same
		o := names.Origin(spec + 1)
		o.Stack = 0
		family := by[o]
		if family[0] != spec+1 {
			continue // the family has been done
		}
		// that there are; that the recorded ones stand for; of these
		number, begun, over := int64(0), int64(0), int64(0)
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
			if k := m[s]; k != nil { // the numbers of all are rounded so that their sum is
				before := times(over, f)
				over += k.Sum.Count
				k.multiply(f)
				k.Sum.Count = times(over, f) - before
			}
		}
	}
	return m
}

// leftOut is how many tasks are not looked at, and how many there are. +checklocks:c.mu
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

// families are those of the first so many origins, by their numbers, that are alike but for the
// stack.
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

// multiply makes what is known stand for so many times the tasks.
func (k *Kind) multiply(f float64) {
	k.Sum.Count = times(k.Sum.Count, f)
	k.Sum.Scale(f)
	for _, d := range []*dist.D{&k.Run, &k.Deps, &k.Ready, &k.Blocked, &k.Bound} {
		d.Multiply(f)
	}
	k.Failed = times(k.Failed, f)
	k.Skipped = times(k.Skipped, f)
}
