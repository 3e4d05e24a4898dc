// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"weft/internal/addrmap"
	"weft/internal/chain"
	"weft/internal/order"
	"weft/internal/xatomic"
)

// ErrConflict is the cause when debug mode finds two tasks that may use one object at the same time
// although one of them writes it: an ancestor of one has not declared the object, or not strongly
// enough.
var ErrConflict = errors.New("conflicting accesses that nothing orders")

// books is what debug mode knows of a run.
type books struct {
	log     *slog.Logger
	mu      xatomic.Mutex
	live    addrmap.Map // uses of objects that are not given up, by address. +checklocks:mu
	objects useIndex    // the same, for ranges to find. +checklocks:mu
	ranges  useIndex    // uses of ranges that are not given up. +checklocks:mu
	said    addrmap.Map // program counters that were warned of. +checklocks:mu
	idle    addrmap.Map // the same, of accesses that serve nothing. +checklocks:mu
	copies  copies      // what was named so far. +checklocks:mu
}

// index returns the index that has u. +checklocks:b.mu
func (b *books) index(u *use) *useIndex {
	if u.slice {
		return &b.ranges
	}
	return &b.objects
}

// add enters u. +checklocks:b.mu
func (b *books) add(u *use) {
	u.live = true
	b.index(u).add(u)
	if !u.slice {
		put(&b.live, u.lo, u, &u.object)
	}
}

// dropUse takes u out, if it is in. +checklocks:b.mu
func (b *books) dropUse(u *use) {
	if !u.live {
		return
	}
	u.live = false
	b.index(u).remove(u)
	if !u.slice {
		u.object.take(&b.live, u.lo).object.at = u.object.at
	}
}

// others calls f for the live uses of memory that u uses too, by tasks with another parent, until
// it returns true. +checklocks:b.mu
func (b *books) others(u *use, f func(o *use) bool) {
	if !u.slice {
		list, _ := b.live.Get(u.lo).([]*group)
		for _, g := range list {
			if g.parent != u.rec.parent && slices.ContainsFunc(g.uses, f) {
				return
			}
		}
	}
	if !b.ranges.each(u, f) && u.slice {
		b.objects.each(u, f)
	}
}

// gap returns a live use that clashes with u and is not linked with it, and says why not.
// +checklocks:b.mu
func (b *books) gap(u *use) (other *use, why string) {
	if u.weak {
		return nil, ""
	}
	b.others(u, func(o *use) bool {
		if !o.weak && order.Clash(u.mode, o.mode) {
			if why = unlinked(u, o); why != "" {
				other = o
			}
		}
		return other != nil
	})
	return other, why
}

// openAll says that r's task may run from now on. The error names a task that may as well, and
// should not.
func (b *books) openAll(r *Record) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range r.uses {
		if u.open || !u.live || u.weak {
			continue
		}
		u.open = true
		b.others(u, func(o *use) bool {
			if o.open && order.Clash(u.mode, o.mode) && !o.rec.isUnder(r) && !r.isUnder(o.rec) {
				if why := unlinked(u, o); why != "" {
					err = fmt.Errorf("%w: %v of %s and %v of %s: %s", ErrConflict, u.access, r.name(), o.access, o.rec.name(), why)
				}
			}
			return err != nil
		})
		if err != nil {
			break
		}
	}
	return err
}

func (b *books) drop(r *Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range r.uses {
		b.copies.over(u)
		b.dropUse(u)
	}
}

// release takes a part of what r's task uses out, and returns what brings it back.
func (b *books) release(r *Record, a chain.Access) (undo func()) {
	lo, hi, slice := a.Memory()
	b.mu.Lock()
	defer b.mu.Unlock()
	before := r.uses
	var was, parts []*use
	for _, u := range before {
		object := !slice && !u.slice // known by their addresses
		if !u.live || lo >= u.hi || u.lo >= hi || object && u.lo != lo {
			continue
		}
		was = append(was, u)
		for _, part := range [2]use{{lo: u.lo, hi: lo}, {lo: hi, hi: u.hi}} {
			if !object && part.lo < part.hi {
				p := *u
				p.lo, p.hi, p.slice, p.object, p.bytes = part.lo, part.hi, true, spot{}, spot{}
				parts = append(parts, &p)
			}
		}
	}
	for _, u := range was {
		b.dropUse(u)
	}
	for _, p := range parts {
		b.add(p)
	}
	r.uses = append(slices.Clip(before), parts...)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range parts {
			b.dropUse(p)
		}
		for _, u := range was {
			b.add(u)
		}
		r.uses = before
	}
}

// addAll enters the uses that r's task, of a recorded loop, has declared, again. They were dropped
// at the end of the run before, with what Release had left of them.
func (b *books) addAll(r *Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.uses = r.uses[:r.loop]
	for _, u := range r.uses {
		u.open = false
		b.add(u)
	}
}
