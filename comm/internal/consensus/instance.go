// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package consensus lets the ranks of a communicator agree on a value although some ranks may be
// lost. An [Instance] is pure: it has no locks and sends no messages. Its caller guards it, sends
// the messages that it returns, and tells it which ranks are lost. A [Set] has the instances of one
// rank, with a lock. ../../README.md, "Agreement", has the protocol and the bad schedule that each
// rule prevents.
package consensus

// Instance is one consensus at one rank. Ranks are those of the communicator.
//
//	absent ──begin──→ joined ──propose──→ bound ──commit──→ decided
//	                     └───────────────commit───────────────┘
//
// The coordinator is the lowest rank that is not known to be lost. It goes through the same states:
// it has joined, and is then bound to its own proposal.
//
// The coordinator collects a value from each member that is not lost, makes one proposal of them,
// and binds all these members to it. Only then does it decide, and commits the decision to all. If
// the coordinator is lost, all members join the next one and send it the proposal that they are
// bound to. So if any rank has decided, all ranks that live are bound to the same proposal, and the
// next coordinator proposes it again: two ranks never decide differently. Each wait ends because
// the other rank acts or is lost, and there are at most as many coordinators as members.
type Instance struct {
	n, me int
	Gone  Members // known to be lost
	Mine  *Value  // this rank's own value
	bound *Value  // the proposal that this rank is bound to; nil without
	by    int     // the coordinator that made that proposal; -1 without
	Out   *Value  // the decision; nil before

	asked     int // the coordinator that this rank has joined; -1 at first
	joins     []*join
	proposing bool
	accepted  Members
}

// Value is what a rank brings to an agreement, what a coordinator proposes, and what is decided.
type Value struct {
	Kind  Kind
	Flags uint64
	Ctx   uint64  // the context of the communicator to be made; the coordinator's counts
	Lost  Members // ranks known to be lost: by any member
	Acked Members // lost ranks that are acknowledged: by all members
}

// Kind is what an agreement is for.
type Kind uint8

const (
	Agree Kind = 1 + iota
	Shrink
	Leave
	Mixed    // the members brought values of different kinds
	LastKind = Mixed
)

// join is what a rank has sent to its coordinator: its own value, a proposal of an earlier
// coordinator, or the decision.
type join struct {
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
	PhaseCommit                   // from it, or from another rank that has decided
	LastPhase    = PhaseCommit
)

// Message is a message of an agreement, and the rank that it goes to.
type Message struct {
	To      int
	Phase   Phase
	Decided bool
	// Join: the coordinator that proposed Value, or -1: Value is the sender's own. Accept: the
	// coordinator whose proposal is accepted.
	By    int
	Value *Value
}

// New begins an instance of n ranks at rank me, which knows that the ranks in gone are lost, and
// whose own value is mine. It returns the messages to be sent, as do all methods that return
// messages.
func New(n, me int, gone Members, mine *Value) (*Instance, []Message) {
	b := &Instance{n: n, me: me, Gone: gone, Mine: mine, by: -1, asked: -1, joins: make([]*join, n), accepted: NewMembers(n)}
	return b, b.advance(nil)
}

// coordinator returns the lowest rank that is not known to be lost. This rank is never lost.
func (b *Instance) coordinator() int {
	for r := range b.n {
		if !b.Gone.Has(r) {
			return r
		}
	}
	return b.me
}

// Lose notes that a rank is lost.
func (b *Instance) Lose(r int) []Message {
	if r == b.me {
		return nil
	}
	before := b.coordinator()
	b.Gone.Add(r)
	if b.Out == nil {
		return b.advance(nil)
	}
	// The lost coordinator may have committed to this rank only.
	k := b.coordinator()
	switch {
	case k == before:
		return nil
	case k == b.me:
		return b.broadcast(nil, Message{Phase: PhaseCommit, Value: b.Out, By: -1})
	}
	return []Message{{To: k, Phase: PhaseJoin, Decided: true, Value: b.Out, By: -1}}
}

// Awaits returns a rank that this one waits for and that may not have joined the agreement; -1 if
// all ranks that live have joined, as far as this rank knows.
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

// Receive handles a message from a rank that is not known to be lost.
func (b *Instance) Receive(from int, m *Message) []Message {
	switch m.Phase {
	case PhaseJoin:
		if b.Out != nil {
			return []Message{{To: from, Phase: PhaseCommit, Value: b.Out, By: -1}}
		}
		b.joins[from] = &join{m.Value, m.By, m.Decided}
		if m.Decided {
			return b.decide(nil, m.Value)
		}
	case PhasePropose:
		if b.Out == nil {
			if from < b.by {
				return nil // from a lost coordinator: this rank is bound to a later one's proposal
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

// advance makes the steps that are possible now, and appends their messages to out.
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
		out = b.broadcast(out, Message{Phase: PhasePropose, Value: b.bound, By: b.me})
	}
	for r := range b.n {
		if r != b.me && !b.Gone.Has(r) && !b.accepted.Has(r) {
			return out
		}
	}
	return b.decide(out, b.bound)
}

// proposal returns the proposal that an earlier coordinator may have decided. If no member is bound
// to one, it combines the members' own values.
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
	return b.broadcast(out, Message{Phase: PhaseCommit, Value: v, By: -1})
}

// broadcast appends a message to each other rank that is not known to be lost.
func (b *Instance) broadcast(out []Message, m Message) []Message {
	for r := range b.n {
		if r != b.me && !b.Gone.Has(r) {
			m.To = r
			out = append(out, m)
		}
	}
	return out
}

// NewValue returns a value of a rank that knows of no lost rank among n.
func NewValue(kind Kind, n int) *Value {
	return &Value{Kind: kind, Lost: NewMembers(n), Acked: NewMembers(n)}
}

func (v *Value) clone() *Value {
	n := *v
	n.Lost, n.Acked = append(Members(nil), v.Lost...), append(Members(nil), v.Acked...)
	return &n
}

// add combines another rank's value into v.
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

// MembersBytes returns the length in bytes of a set of ranks below n.
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

// Within reports whether all ranks of s are in o.
func (s Members) Within(o Members) bool {
	for i := range s {
		if s[i]&^o[i] != 0 {
			return false
		}
	}
	return true
}
