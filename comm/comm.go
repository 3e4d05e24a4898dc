// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
	"weft/comm/internal/smcoll"
)

// Rank returns the caller's rank, 0 to Size-1.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Context returns a context that is cancelled when the run aborts or ends; its cause wraps
// ErrAborted.
func (c *Comm) Context() context.Context { return c.world.ctx }

// worldRank returns a rank of this communicator as a rank of the run.
func (c *Comm) worldRank(r int) int {
	if c.group == nil {
		return r
	}
	return int(c.group[r])
}

func (c *Comm) fail(op string, peer, tag int, err error) error {
	return &Error{Op: op, Rank: c.rank, Peer: peer, Tag: tag, Err: err}
}

// Dup returns a communicator of the same ranks with a message context of its own. Collective.
func (c *Comm) Dup() (*Comm, error) { return c.split(coll.Dup, 0, c.rank) }

// Split returns the communicator of all ranks that give the same colour, ordered by key and, where
// keys are equal, by rank. A rank that gives Undefined gets nil. Collective.
func (c *Comm) Split(color, key int) (*Comm, error) {
	if color < 0 && color != Undefined {
		return nil, c.fail("split", NoPeer, NoPeer, fmt.Errorf("%w: %d; colours are Undefined or 0 and more", ErrColor, color))
	}
	return c.split(coll.Split, color, key)
}

func (c *Comm) split(as coll.Kind, color, key int) (*Comm, error) {
	type choice struct{ color, key, ctx, indices int64 }
	var offer uint64
	if c.world.shareMemory != nil {
		offer = c.proc.mapped.indices.Offer()
	}
	mine := []choice{{color: int64(color), key: int64(key), indices: int64(offer)}}
	if c.rank == 0 {
		mine[0].ctx = int64(c.proc.newContext())
	}
	choices := make([]choice, c.size)
	if err := c.collective(as, Of(mine), Of(choices), Op{}, -1); err != nil {
		c.proc.mapped.indices.GiveBack(offer)
		return nil, err
	}
	if color == Undefined {
		c.proc.mapped.indices.GiveBack(offer)
		return nil, nil
	}
	var members []int
	common := offer
	for r, v := range choices {
		if v.color == int64(color) {
			members = append(members, r)
			common &= uint64(v.indices)
		}
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(choices[a].key, choices[b].key) })
	n := c.sub(members, uint64(choices[0].ctx))
	if n.lineage = c.lineage; n.lineage == nil {
		n.lineage = []uint64{c.ctx}
	}
	n.lineage = append(slices.Clone(n.lineage), n.ctx)
	index := -1
	if common != 0 {
		index = bits.TrailingZeros64(common)
		offer &^= 1 << index
	}
	n.joinMemory(index)
	c.proc.mapped.indices.GiveBack(offer)
	c.proc.addComm(n)
	return n, nil
}

// sub returns this rank's view of the communicator of some members, in that order. This rank is one
// of them.
func (c *Comm) sub(members []int, ctx uint64) *Comm {
	n := &Comm{world: c.world, proc: c.proc, size: len(members), ctx: ctx, eager: c.eager}
	n.group = make([]int32, len(members))
	n.peers = make([]*proc, len(members))
	for i, r := range members {
		n.group[i] = int32(c.worldRank(r))
		n.peers[i] = c.peers[r]
		if r == c.rank {
			n.rank = i
		}
	}
	n.hist = &history{c: n}
	c.proc.count(n)
	return n
}

// newContext returns a context that no other call on any rank returns: it is made of the caller's
// rank and a count. All colours of a split share one context, since their groups are disjoint.
func (p *proc) newContext() uint64 {
	n := p.made.Add(1)
	if n > math.MaxInt32 {
		panic("comm: more than 2^31 communicators made by one rank")
	}
	return uint64(p.rank+1)<<32 | uint64(n)<<1
}

// checkPeer reports whether a rank is a valid destination or, if wildcard, a valid source.
func (c *Comm) checkPeer(r int, wildcard bool) error {
	if uint(r) < uint(c.size) || r == ProcNull || (wildcard && r == AnySource) {
		return nil
	}
	if !wildcard && r == AnySource {
		return fmt.Errorf("%w: AnySource cannot be sent to", ErrRank)
	}
	return fmt.Errorf("%w: %d; this communicator has ranks 0 to %d", ErrRank, r, c.size-1)
}

func checkTag(tag int, wildcard bool) error {
	if (tag >= 0 && tag <= TagUB) || (wildcard && tag == AnyTag) {
		return nil
	}
	if !wildcard && tag == AnyTag {
		return fmt.Errorf("%w: AnyTag cannot be sent", ErrTag)
	}
	return fmt.Errorf("%w: %d; tags are 0 to %d", ErrTag, tag, TagUB)
}

// plain reports whether the arguments of a message are valid, which is the common case. If it
// returns false, check returns what is wrong, if anything is. plain does not check that the run
// lives: the matchers do.
func (c *Comm) plain(buf *mem.Buffer, peer, tag int) bool {
	return uint(peer) < uint(c.size) && uint(tag) <= TagUB && buf.Plain()
}

// check verifies the arguments of a message.
func (c *Comm) check(op string, buf *mem.Buffer, peer, tag int, wildcard bool) error {
	err := buf.Err()
	if err == nil {
		err = c.checkPeer(peer, wildcard)
	}
	if err == nil {
		err = checkTag(tag, wildcard)
	}
	if err == nil {
		if a := c.world.aborted.Load(); a != nil {
			err = a
		}
	}
	if err != nil {
		return c.fail(op, peer, tag, err)
	}
	return nil
}

// Poller returns a function that delivers what has come from other processes and reports whether
// there was anything. It returns nil if no fabric of this rank can be polled. Nothing depends on
// polling: it saves waking a goroutine. Any goroutine may call the function, which runs the
// callbacks of what it completes.
func (c *Comm) Poller() func() bool {
	if !c.proc.engine.Polls() {
		return nil
	}
	return c.proc.engine.Poll
}

// Info is a list of keys and values in the order in which they were first set. The zero Info is
// empty and ready to use. Copies are independent: a change copies the list first. Not safe for
// concurrent change.
type Info struct{ entries []infoEntry }

type infoEntry struct{ key, value string }

// NewInfo returns an Info of alternating keys and values; it panics if the last value is missing.
func NewInfo(keysAndValues ...string) Info {
	if len(keysAndValues)%2 != 0 {
		panic(fmt.Sprintf("comm: NewInfo with %d strings; keys and values alternate", len(keysAndValues)))
	}
	var in Info
	for i := 0; i < len(keysAndValues); i += 2 {
		in.Set(keysAndValues[i], keysAndValues[i+1])
	}
	return in
}

func (in *Info) index(key string) int {
	return slices.IndexFunc(in.entries, func(e infoEntry) bool { return e.key == key })
}

// Set sets the value of a key.
func (in *Info) Set(key, value string) {
	in.entries = slices.Clone(in.entries) // copies of in stay as they are
	if i := in.index(key); i >= 0 {
		in.entries[i].value = value
		return
	}
	in.entries = append(in.entries, infoEntry{key, value})
}

// Get returns the value of a key, or "".
func (in Info) Get(key string) string {
	v, _ := in.Lookup(key)
	return v
}

// Lookup returns the value of a key and whether it is set.
func (in Info) Lookup(key string) (string, bool) {
	if i := in.index(key); i >= 0 {
		return in.entries[i].value, true
	}
	return "", false
}

// Delete removes a key.
func (in *Info) Delete(key string) {
	if i := in.index(key); i >= 0 {
		in.entries = slices.Concat(in.entries[:i], in.entries[i+1:])
	}
}

// Keys returns the keys in order.
func (in Info) Keys() []string {
	keys := make([]string, len(in.entries))
	for i, e := range in.entries {
		keys[i] = e.key
	}
	return keys
}

// Len returns the number of keys.
func (in Info) Len() int { return len(in.entries) }

// Clone returns a separate copy.
func (in Info) Clone() Info { return Info{slices.Clone(in.entries)} }

// String returns key=value pairs, separated by blanks.
func (in Info) String() string {
	var b strings.Builder
	for i, e := range in.entries {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%q", e.key, e.value)
	}
	return b.String()
}

// joinMemory lets a new communicator make collectives by memory, if its ranks can: all are in this
// process, or are processes of one machine. index tells processes which part of each rank's mapped
// memory belongs to the communicator; negative means none. All ranks decide alike, or are lost to
// each other.
func (c *Comm) joinMemory(index int) {
	w, p := c.world, c.proc
	switch {
	case c.size == 1 || !w.memoryColls:
	case !w.multiProcess:
		first := int32(c.worldRank(0))
		c.member = smcoll.NewMember(w.segments.Heap(c.ctx, first, c.size), c.rank, (*memberHost)(c), &c.hist.History, &w.anyFailure)
	case index >= 0 && w.shareMemory != nil && c.size <= smcoll.FlatRanks && w.shareMemory(c.group, c.size):
		mem, err := p.ep.Shared(p.rank)
		if err != nil {
			return
		}
		if c.member = smcoll.NewMapped(c.size, c.rank, index, mem, (*memberHost)(c), &c.hist.History, &w.anyFailure, p.mapped.staging); c.member != nil {
			p.mapped.add(c)
		}
	}
}

// label names c and its rank in error texts and reports.
func (c *Comm) label() string {
	return fmt.Sprintf("rank %d of communicator %d (%d ranks)", c.rank, c.ctx, c.size)
}
