//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"reflect"

	"weft/internal/xatomic"
)

// maxProcs bounds the goroutines of one run; sets of them are words.
const maxProcs = 16

// set is a set of goroutines, a bit each.
type set uint32

func (s set) has(p int) bool { return s>>p&1 != 0 }
func (s *set) add(p int)     { *s |= 1 << p }
func (s *set) drop(p int)    { *s &^= 1 << p }

// clock is a vector clock: for each goroutine the number of its steps that come before.
type clock [maxProcs]uint32

func (c *clock) join(d *clock) {
	for i := range c {
		c[i] = max(c[i], d[i])
	}
}

// event is one step of a run.
type event struct {
	proc  int
	kind  xatomic.Kind
	x     any
	val   int64
	wrote bool
	time  uint32 // of proc, with this step
	clock clock  // the steps before this one, and this one
}

// before reports whether e comes before f in each order of the steps that has the same outcome.
func (e *event) before(f *event) bool { return f.clock[e.proc] >= e.time }

// object is the explorer's state for one word, lock or channel in a run.
type object struct {
	written clock // joined clocks of the steps that changed it, and of the reads before them
	read    clock // joined clocks of the reads since

	last  int   // the last step that changed it; -1
	reads []int // the steps that have read it since

	// The last step of each kind that may have to wait; -1 if there is none. Such a step is
	// disabled by another one of its kind.
	acquired, sent, received int

	ops   clock // time of each goroutine's last step here
	marks clock // time of each goroutine's last plain use
	freed bool
}

// object returns the state for x.
func (e *engine) object(x any) *object {
	o := e.objects[x]
	if o != nil {
		return o
	}
	if e.used < len(e.slab) {
		o = e.slab[e.used]
	} else {
		o = new(object)
		e.slab = append(e.slab, o)
		if v := reflect.ValueOf(x); v.Kind() == reflect.Chan && v.Cap() != 1 {
			panic("explore: a channel must have room for just one element")
		}
	}
	e.used++
	*o = object{reads: o.reads[:0], last: -1, acquired: -1, sent: -1, received: -1}
	e.objects[x] = o
	return o
}

// rivals appends the steps that conflict with a step of kind k on o and are not followed by another
// step that conflicts with both: their order with it may be reversed.
func (o *object) rivals(out []int, k xatomic.Kind, wrote bool) []int {
	last, reads := o.last, o.reads
	switch {
	case k == xatomic.Lock:
		last, reads = o.acquired, nil
	case k == xatomic.Send:
		last = o.sent // and the reads by Len
	case k == xatomic.Recv:
		last = o.received
	case wrote && len(reads) > 0:
		last = -1
	default:
		reads = nil
	}
	if last >= 0 {
		out = append(out, last)
	}
	return append(out, reads...)
}

// note adds step i, whose event is ev, to o.
func (o *object) note(i int, ev *event) {
	if !ev.wrote {
		o.read.join(&ev.clock)
		o.reads = append(o.reads, i)
		return
	}
	o.written = ev.clock
	o.read = clock{}
	o.reads = o.reads[:0]
	o.last = i
	switch ev.kind {
	case xatomic.Lock, xatomic.TryLock:
		o.acquired = i
	case xatomic.Send:
		o.sent = i
	case xatomic.Recv:
		o.received = i
	}
}
