// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"math"
	"sync"
)

// Answers are those that a rank waits for, which has asked others to compare.
type Answers struct {
	Done func(error) // is called with nil when there are no more to come; again does nothing

	mu sync.Mutex
	of map[int]int // guarded by mu: how many, by rank of the run; without those of none
}

// NewAnswers waits for so many of each rank.
func NewAnswers(of map[int]int, done func(error)) *Answers { return &Answers{Done: done, of: of} }

// Take counts one answer of rank r of the run.
func (a *Answers) Take(r int) { a.less(r, 1) }

// Lose counts all answers of a rank that is lost.
func (a *Answers) Lose(r int) { a.less(r, math.MaxInt) }

func (a *Answers) less(r, n int) {
	a.mu.Lock()
	left, ok := a.of[r]
	if ok {
		if a.of[r] = left - n; a.of[r] <= 0 {
			delete(a.of, r)
		}
		ok = len(a.of) == 0
	}
	a.mu.Unlock()
	if ok {
		a.Done(nil)
	}
}
