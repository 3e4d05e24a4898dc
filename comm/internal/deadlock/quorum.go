// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

// Found is what one look at a process has found: all its ranks wait, and nothing is under way.
type Found struct {
	// nothing in this process will ever act by itself; else goroutines of the program may
	Certain    bool
	Waits      []string // what ranks and tasks wait for, and what may act
	Sent, Here int64    // frames that the process has sent to others, and taken from them
}

// quorum is what the first process knows of all. It is pure.
type quorum struct {
	all      []*Found // by process; nil: it moves
	answered []uint64 // the last question that this is the answer to
	question uint64   // asked last: whether all still wait
}

func newQuorum(processes int) *quorum {
	return &quorum{all: make([]*Found, processes), answered: make([]uint64, processes)}
}

// take takes what a process says, nil: that it moves, by itself, or as the answer to a question. It
// returns whether all are to be asked now, and, when all have answered that nothing has changed,
// what they have found.
func (q *quorum) take(process int, question uint64, now *Found) (ask bool, over []*Found) {
	last := q.all[process]
	q.all[process], q.answered[process] = now, 0
	if now == nil {
		return false, nil
	}
	if question != 0 {
		if question != q.question || last == nil || last.Sent != now.Sent || last.Here != now.Here {
			return false, nil
		}
		q.answered[process] = question
	}
	var sent, here int64
	for p, f := range q.all {
		if f == nil || question != 0 && q.answered[p] != question {
			return false, nil
		}
		sent += f.Sent
		here += f.Here
	}
	switch {
	case question != 0:
		return false, q.all
	case sent != here:
		return false, nil
	}
	q.question++
	return true, nil
}
