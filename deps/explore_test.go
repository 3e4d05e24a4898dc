//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"weft/internal/xatomic"
)

// stage runs the goroutines of a crew one at a time: before and after each atomic
// operation of the engine it may hand over to another one, as a seeded random
// schedule says. So each schedule can be run again, and unlikely ones are as likely as others.
type stage struct {
	r     *rand.Rand
	wake  []chan struct{}
	alive []int
	now   int
	stay  int // of 256: chance to go on
	done  chan struct{}
}

func (s *stage) step() {
	if s.r.IntN(256) >= s.stay {
		s.turn()
	}
}

// turn hands over to a random goroutine, perhaps the same.
func (s *stage) turn() {
	me := s.now
	if next := s.alive[s.r.IntN(len(s.alive))]; next != me {
		s.now = next
		s.wake[next] <- struct{}{}
		<-s.wake[me]
	}
}

// leave is the end of the goroutine whose turn it is.
func (s *stage) leave() {
	i := slices.Index(s.alive, s.now)
	s.alive = slices.Delete(s.alive, i, i+1)
	if len(s.alive) == 0 {
		close(s.done)
		return
	}
	s.now = s.alive[s.r.IntN(len(s.alive))]
	s.wake[s.now] <- struct{}{}
}

// TestExplore runs random programs under random schedules of atomic operations:
//
//	go test -tags explore -run Explore ./deps
func TestExplore(t *testing.T) {
	eachSeed(t, 2000, func(t *testing.T, p *profile, seed uint64) {
		small := *p
		small.illegal = 0
		explore(t, &small, seed)
	})
}

func explore(t *testing.T, p *profile, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	p.tasks = 3 + r.IntN(p.tasks)
	c, pr, root := newCrew(p, r)
	s := &stage{r: r, stay: []int{0, 64, 128, 200, 240}[r.IntN(5)], done: make(chan struct{})}
	c.turn = s.turn
	c.begin(root)
	xatomic.Step = s.step
	for i := range 2 + r.IntN(4) {
		s.wake = append(s.wake, make(chan struct{}))
		s.alive = append(s.alive, i)
		h := c.newHand(seed, i)
		go func() {
			<-s.wake[i]
			defer s.leave()
			defer func() {
				if e := recover(); e != nil {
					c.fail("panic: %v\n%s", e, debug.Stack())
					c.over = true
				}
			}()
			h.loop()
		}()
	}
	s.wake[0] <- struct{}{}
	<-s.done
	xatomic.Step = nil
	c.end()
	c.verify(t, p, pr, seed)
}
