// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"math"
	"sync"
)

// Answers counts the answers for which a rank waits after it has asked other ranks to compare their
// histories.
type Answers struct {
	Done func(error) // called with nil after the last answer; further calls have no effect

	mu sync.Mutex
	of map[int]int // guarded by mu: outstanding answers by rank of the run; none are 0
}

// NewAnswers returns a count of outstanding answers by rank of the run. It calls done after the
// last one.
func NewAnswers(of map[int]int, done func(error)) *Answers { return &Answers{Done: done, of: of} }

// Take counts an answer of rank r of the run.
func (a *Answers) Take(r int) { a.subtract(r, 1) }

// Lose counts all answers of a lost rank.
func (a *Answers) Lose(r int) { a.subtract(r, math.MaxInt) }

func (a *Answers) subtract(r, n int) {
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
