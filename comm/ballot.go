// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

// ballot is one agreement at one rank: pure, the caller locks, sends what it returns and says who is lost. Ranks are those of
// the communicator. README.md, "Agreement", has the protocol and its argument.
//
//	absent ──begin──→ joined ──propose──→ bound ──commit──→ decided
//	                     └───────────────commit───────────────┘
//
// The coordinator is the lowest rank that is not known to be lost. It is joined, then bound to its own proposal, like the others.
type ballot struct {
	n, me int
	gone  members // known to be lost
	mine  *vote   // what this rank brought
	bound *vote   // a proposal; what is decided if anything is
	by    int     // whose, -1 without
	out   *vote   // decided

	asked     int // the coordinator that this rank has joined, -1 at first
	joins     []*joining
	proposing bool
	accepted  members
}

// vote is what a rank brings to an agreement, and what comes out of it.
type vote struct {
	kind  voteKind
	flags uint64
	ctx   uint64  // of the communicator to be made, which the coordinator names
	lost  members // known to be lost: by one
	acked members // acknowledged: by all
}

type voteKind uint8

const (
	voteAgree voteKind = 1 + iota
	voteShrink
	voteLeave
	voteMixed // ranks do not agree on what they agree on
	lastVote  = voteMixed
)

// joining is what a rank has told its coordinator: its vote, or a proposal of an earlier coordinator, or what is decided.
type joining struct {
	v       *vote
	by      int
	decided bool
}

// phase is what a message of an agreement is for.
type phase uint8

const (
	phaseJoin    phase = 1 + iota // to the coordinator
	phasePropose                  // from it
	phaseAccept                   // to it
	phaseCommit                   // from it, or from whoever knows
	lastPhase    = phaseCommit
)

// ballotMsg is a message of an agreement, and the rank that it goes to.
type ballotMsg struct {
	to      int
	phase   phase
	decided bool
	by      int // join: whose proposal v is, -1: v is a vote; accept: whose was accepted
	v       *vote
}

func newBallot(n, me int, gone members, mine *vote) (*ballot, []ballotMsg) {
	b := &ballot{n: n, me: me, gone: gone, mine: mine, by: -1, asked: -1, joins: make([]*joining, n), accepted: newMembers(n)}
	return b, b.advance(nil)
}

// coordinator returns the lowest rank that is not known to be lost. This one is never.
func (b *ballot) coordinator() int {
	for r := range b.n {
		if !b.gone.has(r) {
			return r
		}
	}
	return b.me
}

// lose says that a rank is lost.
func (b *ballot) lose(r int) []ballotMsg {
	if r == b.me {
		return nil
	}
	before := b.coordinator()
	b.gone.add(r)
	if b.out == nil {
		return b.advance(nil)
	}
	// Who was to tell the others may have told this one only.
	k := b.coordinator()
	switch {
	case k == before:
		return nil
	case k == b.me:
		return b.tell(nil, ballotMsg{phase: phaseCommit, v: b.out, by: -1})
	}
	return []ballotMsg{{to: k, phase: phaseJoin, decided: true, v: b.out, by: -1}}
}

// awaits returns a rank that this one waits for, which may not have come to the agreement; -1 if
// all have that live, as far as this rank knows.
func (b *ballot) awaits() int {
	if b.out != nil {
		return -1
	}
	switch k := b.coordinator(); {
	case k != b.me && b.by != k:
		return k
	case k == b.me && !b.proposing:
		for r := range b.n {
			if r != b.me && !b.gone.has(r) && b.joins[r] == nil {
				return r
			}
		}
	}
	return -1
}

// receive takes a message from a rank that is not known to be lost.
func (b *ballot) receive(from int, m *ballotMsg) []ballotMsg {
	switch m.phase {
	case phaseJoin:
		if b.out != nil {
			return []ballotMsg{{to: from, phase: phaseCommit, v: b.out, by: -1}}
		}
		b.joins[from] = &joining{m.v, m.by, m.decided}
		if m.decided {
			return b.decide(nil, m.v)
		}
	case phasePropose:
		if b.out == nil {
			if from < b.by {
				return nil // of one who is lost: bound to a later one already
			}
			b.bound, b.by = m.v, from
		}
		return []ballotMsg{{to: from, phase: phaseAccept, by: from, v: m.v}}
	case phaseAccept:
		if m.by == b.me {
			b.accepted.add(from)
		}
	case phaseCommit:
		if b.out == nil {
			b.out = m.v
		}
		return nil
	}
	return b.advance(nil)
}

// advance does what can be done now.
func (b *ballot) advance(out []ballotMsg) []ballotMsg {
	if b.out != nil {
		return out
	}
	k := b.coordinator()
	if k != b.me {
		if b.asked == k {
			return out
		}
		b.asked = k
		v := b.mine
		if b.bound != nil {
			v = b.bound
		}
		return append(out, ballotMsg{to: k, phase: phaseJoin, v: v, by: b.by})
	}
	if !b.proposing {
		for r := range b.n {
			if r != b.me && !b.gone.has(r) && b.joins[r] == nil {
				return out
			}
		}
		b.proposing = true
		b.bound, b.by = b.proposal(), b.me
		out = b.tell(out, ballotMsg{phase: phasePropose, v: b.bound, by: b.me})
	}
	for r := range b.n {
		if r != b.me && !b.gone.has(r) && !b.accepted.has(r) {
			return out
		}
	}
	return b.decide(out, b.bound)
}

// proposal returns what an earlier coordinator may have decided, or else the votes as one.
func (b *ballot) proposal() *vote {
	best, by := b.bound, b.by
	for _, j := range b.joins {
		if j != nil && j.by > by {
			best, by = j.v, j.by
		}
	}
	if best != nil {
		return best
	}
	v := b.mine.clone()
	for _, j := range b.joins {
		if j != nil {
			v.add(j.v)
		}
	}
	v.lost.or(b.gone)
	return v
}

func (b *ballot) decide(out []ballotMsg, v *vote) []ballotMsg {
	b.out = v
	return b.tell(out, ballotMsg{phase: phaseCommit, v: v, by: -1})
}

// tell addresses a message to all others that are not known to be lost.
func (b *ballot) tell(out []ballotMsg, m ballotMsg) []ballotMsg {
	for r := range b.n {
		if r != b.me && !b.gone.has(r) {
			m.to = r
			out = append(out, m)
		}
	}
	return out
}

func (v *vote) clone() *vote {
	n := *v
	n.lost, n.acked = append(members(nil), v.lost...), append(members(nil), v.acked...)
	return &n
}

// add takes another rank's vote into v.
func (v *vote) add(o *vote) {
	if v.kind != o.kind {
		v.kind = voteMixed
	}
	v.flags &= o.flags
	v.lost.or(o.lost)
	v.acked.and(o.acked)
}

// members is a set of ranks of a communicator.
type members []byte

func newMembers(n int) members { return make(members, membersBytes(n)) }

func membersBytes(n int) int { return (n + 7) / 8 }

func (s members) has(r int) bool { return s[r/8]&(1<<(r%8)) != 0 }
func (s members) add(r int)      { s[r/8] |= 1 << (r % 8) }

func (s members) or(o members) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s members) and(o members) {
	for i := range s {
		s[i] &= o[i]
	}
}

// within says whether all of s are in o.
func (s members) within(o members) bool {
	for i := range s {
		if s[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}
