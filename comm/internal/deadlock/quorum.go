// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import "slices"

// Inspection is what an inspection of a process has found: all its ranks wait, and nothing is under
// way.
type Inspection struct {
	// Nothing in this process will ever act by itself. If false, goroutines of the program may.
	Certain    bool
	Waits      []string // what ranks and tasks wait for, and what may act
	Sent, Here int64    // frames that the process has sent to others, and taken from them
}

// quorum is what the first process knows of all. It is pure.
type quorum struct {
	all      []*Inspection // by process: the last report; nil: something may go on there
	asked    []*Inspection // by process: the report that the last query asks about
	answered []uint64      // by process: the query that the last report answers; 0: none
	query    uint64        // the last query
}

func newQuorum(processes int) *quorum {
	return &quorum{all: make([]*Inspection, processes), answered: make([]uint64, processes)}
}

// add adds the report of a process; query is 0, or the query that it answers. It returns whether to
// send a query now. When all processes have answered the last query without a change, it returns
// all inspections.
func (q *quorum) add(process int, query uint64, now *Inspection) (ask bool, all []*Inspection) {
	last := q.all[process]
	q.all[process], q.answered[process] = now, 0
	if now == nil {
		return false, nil
	}
	if query != 0 {
		if query != q.query || last == nil {
			return false, nil
		}
		// not the last report: the process may have sent a frame since, and reported that
		if about := q.asked[process]; about.Sent != now.Sent || about.Here != now.Here {
			return false, nil
		}
		q.answered[process] = query
	}
	var sent, here int64
	for p, f := range q.all {
		if f == nil || query != 0 && q.answered[p] != query {
			return false, nil
		}
		sent += f.Sent
		here += f.Here
	}
	switch {
	case query != 0:
		return false, q.all
	case sent != here:
		return false, nil
	}
	q.query++
	q.asked = slices.Clone(q.all)
	return true, nil
}
