// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"fmt"
	"slices"
	"sync/atomic"

	"weft/internal/xatomic"
)

// HistoryLen is how many collectives a rank remembers, to say which one it was that ranks did not
// agree on. A guess: ranks notice with the next collective that they have in common, mostly.
const HistoryLen = 16

// History is what one rank knows of the collectives of a communicator: so much that it can be
// compared with another rank's. ../../README.md, "Collectives that disagree", has the argument.
//
// It is written with each collective, and other ranks' histories are beside it in memory: so it is
// of full cache lines, two by two.
type History struct {
	Mu xatomic.VisibleMutex // guards the numbering of the communicator's collectives

	// Guarded by Mu.
	count uint64     // collectives so far
	state uint64     // digest of all of them
	asked []Question // of ranks that are ahead of this one

	behind atomic.Bool // there are such
	_      [7]byte

	last [HistoryLen]Signature // by number modulo; guarded by Mu
	_    [64]byte
}

// Question is what another rank tells of its history, for this one to compare.
type Question struct {
	From    int         // its rank here
	Count   uint64      // its collectives so far
	Last    []Signature // the last of them, in their order
	Certain bool        // it has seen that the two do not agree
}

// First is the number of the first collective that a question tells of.
func (q *Question) First() uint64 { return q.Count - uint64(len(q.Last)) + 1 }

// Record adds a collective, and gives d.What its bits of the history. The caller holds Mu.
func (h *History) Record(d *Call, elem uint64) {
	s := NewSignature(d.What, elem, d.Unit)
	h.count++
	h.state = s.Digest(h.state)
	h.last[h.count%HistoryLen] = s
	d.What = s.What | Collective(h.state>>48)<<HistoryShift
}

// Note adds what ranks make in another way: an agreement, or a collective that another package
// makes of messages. Agree and Shrink count as one: which of them ranks are in, the agreement
// itself finds out. It returns the number. The caller holds Mu.
func (h *History) Note(k Kind) uint64 {
	s := Signature{What: NewCollective(k, nil, -1)}
	h.count++
	h.last[h.count%HistoryLen] = s
	if k == Shrink {
		s.What = NewCollective(Agree, nil, -1)
	}
	h.state = s.Digest(h.state)
	return h.count
}

// Behind reports whether ranks have told of collectives that this one has not made yet. Whoever has
// added one compares, when Mu is free.
func (h *History) Behind() bool { return h.behind.Load() }

// Count returns how many collectives there are. The caller holds Mu.
func (h *History) Count() uint64 { return h.count }

// Told returns what the rank, which is number from of the communicator, tells of its history.
func (h *History) Told(from int) Question {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	q := Question{From: from, Count: h.count}
	for n := h.count - min(h.count, HistoryLen) + 1; n <= h.count; n++ {
		q.Last = append(q.Last, h.last[n%HistoryLen])
	}
	return q
}

// Compare returns the number of the first collective on which another rank and this one do not
// agree, and what this one has there; 0 if there is none that both know of. What this rank has not
// begun yet is kept, to be compared when it has.
func (h *History) Compare(q *Question) (number uint64, mine Signature) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for n := q.First(); n <= min(q.Count, h.count); n++ {
		if n+HistoryLen <= h.count {
			continue // forgotten
		}
		if mine := h.last[n%HistoryLen]; !mine.Agrees(q.At(n)) {
			return n, mine
		}
	}
	if q.Count > h.count && !q.Certain {
		h.asked = slices.DeleteFunc(h.asked, func(o Question) bool { return o.From == q.From })
		h.asked = append(h.asked, *q)
		h.behind.Store(true)
	}
	return 0, Signature{}
}

// At returns a collective that a question tells of.
func (q *Question) At(number uint64) Signature { return q.Last[number-q.First()] }

// Take returns the questions that were kept.
func (h *History) Take() []Question {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	asked := h.asked
	h.asked = nil
	h.behind.Store(false)
	return asked
}

// Missing returns the first collective of another rank, and its number, that a rank does not have
// which makes no more of them. The question was kept.
func (h *History) Missing(q *Question) (number uint64, theirs Signature) {
	h.Mu.Lock()
	n := max(h.count+1, q.First())
	h.Mu.Unlock()
	return n, q.At(n)
}

// QuestionOf reads what Append has written: count is that of the other rank.
func QuestionOf(from int, count uint64, certain bool, b []byte) (Question, error) {
	q := Question{From: from, Count: count, Certain: certain}
	if n := len(b) / SignatureBytes; len(b)%SignatureBytes != 0 || uint64(n) != min(count, HistoryLen) {
		return q, fmt.Errorf("it compares %d collectives in %d bytes", count, len(b))
	}
	for ; len(b) > 0; b = b[SignatureBytes:] {
		q.Last = append(q.Last, SignatureOf(b))
	}
	return q, nil
}

// Append puts the collectives that it tells of to a frame.
func (q *Question) Append(b []byte) []byte {
	for _, s := range q.Last {
		b = s.Append(b)
	}
	return b
}
