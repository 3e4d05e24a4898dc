// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"fmt"
	"slices"
	"sync/atomic"

	"weft/internal/xatomic"
)

// HistoryLen is how many collectives a rank remembers, to name the first one on which ranks did not
// agree. A guess: ranks mostly notice with the next collective that they have in common.
const HistoryLen = 16

// History records the collectives of a communicator at one rank, to be compared with other ranks'
// histories. ../../README.md, "Collectives that disagree", has the argument.
//
// A History is written with each collective, and other ranks' histories are next to it in memory.
// So it fills whole pairs of cache lines.
type History struct {
	Mu xatomic.VisibleMutex // guards the numbering of the communicator's collectives

	// Guarded by Mu.
	count uint64     // collectives so far
	state uint64     // digest of all of them
	asked []Question // of ranks that are ahead of this one: their collectives are not begun here

	behind atomic.Bool // asked is not empty
	_      [7]byte

	last [HistoryLen]Signature // by number modulo; guarded by Mu
	_    [64]byte
}

// Question has the end of another rank's history, for this rank to compare.
type Question struct {
	From    int         // the other rank, in the communicator
	Count   uint64      // how many collectives it has begun
	Last    []Signature // the last of these, in their order
	Certain bool        // the other rank knows that the two histories differ
}

// First returns the number of the first collective in Last.
func (q *Question) First() uint64 { return q.Count - uint64(len(q.Last)) + 1 }

// Record adds a collective, and sets the bits of the history in d.What. The caller holds Mu.
func (h *History) Record(d *Call, elem uint64) {
	s := NewSignature(d.What, elem, d.Unit)
	h.count++
	h.state = s.Digest(h.state)
	h.last[h.count%HistoryLen] = s
	d.What = s.What | Collective(h.state>>48)<<HistoryShift
}

// Note adds an operation without a Call: an agreement, or a collective that another package runs by
// messages. It returns the operation's number. Agree and Shrink have the same digest, since an
// agreement itself finds out that ranks are in different ones. The caller holds Mu.
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

// Behind reports whether there are questions about collectives that this rank has not begun yet. A
// caller that has added a collective calls Behind after it has released Mu, and then compares.
func (h *History) Behind() bool { return h.behind.Load() }

// Count returns how many collectives this rank has begun. The caller holds Mu.
func (h *History) Count() uint64 { return h.count }

// NewQuestion returns the end of this history as a question for another rank. This rank is from.
func (h *History) NewQuestion(from int) Question {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	q := Question{From: from, Count: h.count}
	for n := h.count - min(h.count, HistoryLen) + 1; n <= h.count; n++ {
		q.Last = append(q.Last, h.last[n%HistoryLen])
	}
	return q
}

// Compare returns the number of the first collective on which the other rank and this one do not
// agree, and this rank's collective of that number; 0 if there is none in both histories. If the
// question has collectives that this rank has not begun yet, Compare keeps it for later.
func (h *History) Compare(q *Question) (number uint64, mine Signature) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for n := q.First(); n <= min(q.Count, h.count); n++ {
		if n+HistoryLen <= h.count {
			continue // this rank has forgotten it
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

// At returns the collective of a number, which is in Last.
func (q *Question) At(number uint64) Signature { return q.Last[number-q.First()] }

// Take removes and returns the questions that were kept.
func (h *History) Take() []Question {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	asked := h.asked
	h.asked = nil
	h.behind.Store(false)
	return asked
}

// Missing returns the first collective of the other rank that this rank has not begun, and its
// number. This rank begins no more collectives. The question was kept.
func (h *History) Missing(q *Question) (number uint64, theirs Signature) {
	h.Mu.Lock()
	n := max(h.count+1, q.First())
	h.Mu.Unlock()
	return n, q.At(n)
}

// QuestionOf reads the data that Append has written, in a frame of rank from; count is
// Question.Count.
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

// Append appends Last to the data of a frame.
func (q *Question) Append(b []byte) []byte {
	for _, s := range q.Last {
		b = s.Append(b)
	}
	return b
}
