// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"sync"
	"sync/atomic"
)

// polls are the functions that slots without work call before they park. They are rarely changed, and so copied.
type polls struct {
	all atomic.Pointer[[]*func() bool] // not explored: nobody relies on a poll being made
	mu  sync.Mutex                     // held by who changes all
}

// pollRounds is how much longer a slot hunts where it polls: about 20 µs, since whoever would wake it otherwise needs some 10.
const pollRounds = 6

// Poll has slots without work call poll before they park, and returns a function that ends this. poll looks for something that completes tasks,
// or makes new ones, such as a message, and reports whether there was any. It must not block, and several slots may call it at a time.
//
// Polling only shortens the way: parked slots do not poll, so whatever poll finds must come by itself as well.
func (rt *Runtime) Poll(poll func() bool) (stop func()) {
	mustCall("Poll", poll != nil)
	p := &rt.polls
	change := func(f func([]*func() bool) []*func() bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var now []*func() bool
		if all := p.all.Load(); all != nil {
			now = slices.Clone(*all)
		}
		if now = f(now); len(now) == 0 {
			p.all.Store(nil)
			return
		}
		p.all.Store(&now)
	}
	if rt.probe != nil {
		rt.probe.shows()
	}
	change(func(all []*func() bool) []*func() bool { return append(all, &poll) })
	return func() {
		change(func(all []*func() bool) []*func() bool {
			return slices.DeleteFunc(all, func(f *func() bool) bool { return f == &poll })
		})
	}
}

// rounds returns how long a slot hunts, in looks at everything.
func (p *polls) rounds(n int) int {
	if p.all.Load() != nil {
		return n * pollRounds
	}
	return n
}

// poll polls once.
func (s *slot) poll() {
	rt := s.rt
	if all := rt.polls.all.Load(); all != nil {
		if rt.probe != nil {
			rt.probe.sees(false) // what is called comes after who has registered it
		}
		s.polling = true
		for _, f := range *all {
			(*f)()
		}
		s.polling = false
	}
}
