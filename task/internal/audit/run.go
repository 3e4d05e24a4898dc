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

// runAudit is the audit of a run: the declared accesses that are not given up.
type runAudit struct {
	log        *slog.Logger
	mu         xatomic.Mutex
	live       addrmap.Map // accesses to objects that are not given up, by address. +checklocks:mu
	objects    accessIndex // the same, by bytes, for comparing with ranges. +checklocks:mu
	ranges     accessIndex // accesses to ranges that are not given up. +checklocks:mu
	warned     addrmap.Map // program counters of spawns that a warning was about. +checklocks:mu
	warnedIdle addrmap.Map // the same, of warnings about accesses without purpose. +checklocks:mu
	copies     copies      // the objects that were named so far. +checklocks:mu
}

// index returns the index that a belongs to. +checklocks:run.mu
func (run *runAudit) index(a *access) *accessIndex {
	if a.slice {
		return &run.ranges
	}
	return &run.objects
}

// add enters a. +checklocks:run.mu
func (run *runAudit) add(a *access) {
	a.live = true
	run.index(a).add(a)
	if !a.slice {
		put(&run.live, a.lo, a, &a.object)
	}
}

// drop takes a out, if it is in. +checklocks:run.mu
func (run *runAudit) drop(a *access) {
	if !a.live {
		return
	}
	a.live = false
	run.index(a).remove(a)
	if !a.slice {
		a.object.take(&run.live, a.lo).object.at = a.object.at
	}
}

// others calls f for the live accesses to a's memory by tasks with another parent, until f returns
// true. +checklocks:run.mu
func (run *runAudit) others(a *access, f func(b *access) bool) {
	if !a.slice {
		list, _ := run.live.Get(a.lo).([]*group)
		for _, g := range list {
			if g.parent != a.rec.parent && slices.ContainsFunc(g.accesses, f) {
				return
			}
		}
	}
	if !run.ranges.each(a, f) && a.slice {
		run.objects.each(a, f)
	}
}

// findUnordered returns a live access that clashes with a and is not linked with it, and why not.
// +checklocks:run.mu
func (run *runAudit) findUnordered(a *access) (other *access, why string) {
	if a.weak {
		return nil, ""
	}
	run.others(a, func(b *access) bool {
		if !b.weak && order.Clash(a.mode, b.mode) {
			if why = unordered(a, b); why != "" {
				other = b
			}
		}
		return other != nil
	})
	return other, why
}

// openAll notes that r's task may run from now on. The error names a task that may run too, and
// must not.
func (run *runAudit) openAll(r *Record) (err error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, a := range r.accesses {
		if a.open || !a.live || a.weak {
			continue
		}
		a.open = true
		run.others(a, func(b *access) bool {
			if b.open && order.Clash(a.mode, b.mode) && !b.rec.isUnder(r) && !r.isUnder(b.rec) {
				if why := unordered(a, b); why != "" {
					err = fmt.Errorf("%w: %v of %s and %v of %s: %s", ErrConflict, a.decl, r.name(), b.decl, b.rec.name(), why)
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

func (run *runAudit) dropAll(r *Record) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, a := range r.accesses {
		run.copies.over(a)
		run.drop(a)
	}
}

// release takes the memory of decl out of the accesses of r's task, and returns a function that
// puts it back.
func (run *runAudit) release(r *Record, decl chain.Access) (undo func()) {
	lo, hi, slice := decl.Memory()
	run.mu.Lock()
	defer run.mu.Unlock()
	before := r.accesses
	var was, parts []*access
	for _, a := range before {
		objects := !slice && !a.slice // known by their addresses
		if !a.live || lo >= a.hi || a.lo >= hi || objects && a.lo != lo {
			continue
		}
		was = append(was, a)
		for _, part := range [2]access{{lo: a.lo, hi: lo}, {lo: hi, hi: a.hi}} {
			if !objects && part.lo < part.hi {
				p := *a
				p.lo, p.hi, p.slice, p.object, p.bytes = part.lo, part.hi, true, spot{}, spot{}
				parts = append(parts, &p)
			}
		}
	}
	for _, a := range was {
		run.drop(a)
	}
	for _, p := range parts {
		run.add(p)
	}
	r.accesses = append(slices.Clip(before), parts...)
	return func() {
		run.mu.Lock()
		defer run.mu.Unlock()
		for _, p := range parts {
			run.drop(p)
		}
		for _, a := range was {
			run.add(a)
		}
		r.accesses = before
	}
}

// addAll enters the declared accesses of r's task, which is of a recorded loop, again. At the end
// of the run of the task before, they were dropped, with the parts that Release had left.
func (run *runAudit) addAll(r *Record) {
	run.mu.Lock()
	defer run.mu.Unlock()
	r.accesses = r.accesses[:r.loop]
	for _, a := range r.accesses {
		a.open = false
		run.add(a)
	}
}
