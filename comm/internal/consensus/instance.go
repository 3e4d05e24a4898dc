// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package consensus is the agreement of ranks of which some may be lost, without locks or messages:
// the caller guards a [Ballot], sends what it returns, and says who is lost. ../../README.md,
// "Agreement", has the protocol and its argument.
package consensus

// Ballot is one agreement at one rank. Ranks are those of the communicator.
//
//	absent ──begin──→ joined ──propose──→ bound ──commit──→ decided
//	                     └───────────────commit───────────────┘
//
// The coordinator is the lowest rank that is not known to be lost. It is joined, then bound to its
// own proposal, like the others.
type Instance struct {
	n, me int
	Gone  Members // known to be lost
	Mine  *Value  // what this rank brought
	bound *Value  // a proposal; what is decided if anything is
	by    int     // whose, -1 without
	Out   *Value  // decided

	asked     int // the coordinator that this rank has joined, -1 at first
	joins     []*joining
	proposing bool
	accepted  Members
}

// Vote is what a rank brings to an agreement, and what comes out of it.
type Value struct {
	Kind  Kind
	Flags uint64
	Ctx   uint64  // of the communicator to be made, which the coordinator names
	Lost  Members // known to be lost: by one
	Acked Members // acknowledged: by all
}

// Kind is what an agreement is for.
type Kind uint8

const (
	Agree Kind = 1 + iota
	Shrink
	Leave
	Mixed    // ranks do not agree on what they agree on
	LastKind = Mixed
)

// joining is what a rank has told its coordinator: its vote, or a proposal of an earlier
// coordinator, or what is decided.
type joining struct {
	v       *Value
	by      int
	decided bool
}

// Phase is what a message of an agreement is for.
type Phase uint8

const (
	PhaseJoin    Phase = 1 + iota // to the coordinator
	PhasePropose                  // from it
	PhaseAccept                   // to it
	PhaseCommit                   // from it, or from whoever knows
	LastPhase    = PhaseCommit
)

// ballotMsg is a message of an agreement, and the rank that it goes to.
type Message struct {
	To      int
	Phase   Phase
	Decided bool
	By      int // join: whose proposal Vote is, -1: it is a vote; accept: whose was accepted
	Value   *Value
}

// New begins a ballot of n ranks at rank me, which knows that those of gone are lost, and brings a
// vote. It returns what is to be sent.
func New(n, me int, gone Members, mine *Value) (*Instance, []Message) {
	b := &Instance{n: n, me: me, Gone: gone, Mine: mine, by: -1, asked: -1, joins: make([]*joining, n), accepted: NewMembers(n)}
	return b, b.advance(nil)
}

// coordinator returns the lowest rank that is not known to be lost. This one is never.
func (b *Instance) coordinator() int {
	for r := range b.n {
		if !b.Gone.Has(r) {
			return r
		}
	}
	return b.me
}

// Lose says that a rank is lost.
func (b *Instance) Lose(r int) []Message {
	if r == b.me {
		return nil
	}
	before := b.coordinator()
	b.Gone.Add(r)
	if b.Out == nil {
		return b.advance(nil)
	}
	// Who was to tell the others may have told this one only.
	k := b.coordinator()
	switch {
	case k == before:
		return nil
	case k == b.me:
		return b.tell(nil, Message{Phase: PhaseCommit, Value: b.Out, By: -1})
	}
	return []Message{{To: k, Phase: PhaseJoin, Decided: true, Value: b.Out, By: -1}}
}

// Awaits returns a rank that this one waits for, which may not have come to the agreement; -1 if
// all have that live, as far as this rank knows.
func (b *Instance) Awaits() int {
	if b.Out != nil {
		return -1
	}
	switch k := b.coordinator(); {
	case k != b.me && b.by != k:
		return k
	case k == b.me && !b.proposing:
		for r := range b.n {
			if r != b.me && !b.Gone.Has(r) && b.joins[r] == nil {
				return r
			}
		}
	}
	return -1
}

// Receive takes a message from a rank that is not known to be lost.
func (b *Instance) Receive(from int, m *Message) []Message {
	switch m.Phase {
	case PhaseJoin:
		if b.Out != nil {
			return []Message{{To: from, Phase: PhaseCommit, Value: b.Out, By: -1}}
		}
		b.joins[from] = &joining{m.Value, m.By, m.Decided}
		if m.Decided {
			return b.decide(nil, m.Value)
		}
	case PhasePropose:
		if b.Out == nil {
			if from < b.by {
				return nil // of one who is lost: bound to a later one already
			}
			b.bound, b.by = m.Value, from
		}
		return []Message{{To: from, Phase: PhaseAccept, By: from, Value: m.Value}}
	case PhaseAccept:
		if m.By == b.me {
			b.accepted.Add(from)
		}
	case PhaseCommit:
		if b.Out == nil {
			b.Out = m.Value
		}
		return nil
	}
	return b.advance(nil)
}

// advance does what can be done now.
func (b *Instance) advance(out []Message) []Message {
	if b.Out != nil {
		return out
	}
	k := b.coordinator()
	if k != b.me {
		if b.asked == k {
			return out
		}
		b.asked = k
		v := b.Mine
		if b.bound != nil {
			v = b.bound
		}
		return append(out, Message{To: k, Phase: PhaseJoin, Value: v, By: b.by})
	}
	if !b.proposing {
		for r := range b.n {
			if r != b.me && !b.Gone.Has(r) && b.joins[r] == nil {
				return out
			}
		}
		b.proposing = true
		b.bound, b.by = b.proposal(), b.me
		out = b.tell(out, Message{Phase: PhasePropose, Value: b.bound, By: b.me})
	}
	for r := range b.n {
		if r != b.me && !b.Gone.Has(r) && !b.accepted.Has(r) {
			return out
		}
	}
	return b.decide(out, b.bound)
}

// proposal returns what an earlier coordinator may have decided, or else the votes as one.
func (b *Instance) proposal() *Value {
	best, by := b.bound, b.by
	for _, j := range b.joins {
		if j != nil && j.by > by {
			best, by = j.v, j.by
		}
	}
	if best != nil {
		return best
	}
	v := b.Mine.clone()
	for _, j := range b.joins {
		if j != nil {
			v.add(j.v)
		}
	}
	v.Lost.or(b.Gone)
	return v
}

func (b *Instance) decide(out []Message, v *Value) []Message {
	b.Out = v
	return b.tell(out, Message{Phase: PhaseCommit, Value: v, By: -1})
}

// tell addresses a message to all others that are not known to be lost.
func (b *Instance) tell(out []Message, m Message) []Message {
	for r := range b.n {
		if r != b.me && !b.Gone.Has(r) {
			m.To = r
			out = append(out, m)
		}
	}
	return out
}

// NewVote returns a vote of a rank of n that knows of nobody lost.
func NewValue(kind Kind, n int) *Value {
	return &Value{Kind: kind, Lost: NewMembers(n), Acked: NewMembers(n)}
}

func (v *Value) clone() *Value {
	n := *v
	n.Lost, n.Acked = append(Members(nil), v.Lost...), append(Members(nil), v.Acked...)
	return &n
}

// add takes another rank's vote into v.
func (v *Value) add(o *Value) {
	if v.Kind != o.Kind {
		v.Kind = Mixed
	}
	v.Flags &= o.Flags
	v.Lost.or(o.Lost)
	v.Acked.and(o.Acked)
}

// Members is a set of ranks of a communicator.
type Members []byte

// NewMembers returns the empty set of ranks below n.
func NewMembers(n int) Members { return make(Members, MembersBytes(n)) }

// MembersBytes is how many bytes such a set has.
func MembersBytes(n int) int { return (n + 7) / 8 }

// Has reports whether a rank is in the set.
func (s Members) Has(r int) bool { return s[r/8]&(1<<(r%8)) != 0 }

// Add puts a rank into the set.
func (s Members) Add(r int) { s[r/8] |= 1 << (r % 8) }

func (s Members) or(o Members) {
	for i := range s {
		s[i] |= o[i]
	}
}

func (s Members) and(o Members) {
	for i := range s {
		s[i] &= o[i]
	}
}

// Within says whether all of s are in o.
func (s Members) Within(o Members) bool {
	for i := range s {
		if s[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}
