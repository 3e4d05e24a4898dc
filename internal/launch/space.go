// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// space is the launcher's knowledge of its ranks: which have joined, which values they have
// published, and which waits for what. It has no goroutine, no lock and no clock; its methods
// return the frames to be sent, in order. The server guards and drives it.
type space struct {
	members []member
	round   exchange
}

// member is one rank.
//
//	absent → joined → left → ended
//	absent, joined → ended
type member struct {
	joined, left bool
	death        *Death // nil while it lives
	values       map[string][]byte
	bytes        int
	waiting      map[string][]waiter // by key: gets that wait for a value of this member
	waits        int                 // how many gets of this member wait

	blames *Blame // the blame that counts; nil: none; immutable
	own    *Blame // of its own failure; nil: none; immutable
}

type waiter struct {
	rank int
	id   uint64
}

// exchange is the exchange in progress. The n-th exchanges of all ranks are the same one.
type exchange struct {
	id     uint64 // from 1
	values [][]byte
	called []bool // by rank: the rank has called Exchange
	count  int    // of called
}

// post is a frame for a rank.
type post struct {
	to int
	f  frame
}

func newSpace(ranks int) *space {
	s := &space{members: make([]member, ranks)}
	s.nextRound()
	return s
}

func (s *space) nextRound() {
	s.round = exchange{id: s.round.id + 1, values: make([][]byte, len(s.members)), called: make([]bool, len(s.members))}
}

// join admits a rank. It returns the notices that the rank has missed.
func (s *space) join(rank int) ([]post, error) {
	if rank < 0 || rank >= len(s.members) {
		return nil, fmt.Errorf("there is no rank %d of %d", rank, len(s.members))
	}
	m := &s.members[rank]
	switch {
	case m.left:
		return nil, fmt.Errorf("rank %d has left the job; a process of the job is a rank once", rank)
	case m.joined:
		return nil, fmt.Errorf("rank %d is another process already; a rank is one process", rank)
	case m.death != nil:
		return nil, fmt.Errorf("the process that was started as rank %d has ended", rank)
	}
	m.joined = true
	var out []post
	for r := range s.members {
		if d := s.members[r].death; d != nil {
			out = append(out, notice(rank, d))
		}
	}
	return out, nil
}

// lostMark follows the rank of a cause that is a loss, in a jobNotifies.
const lostMark = "!"

// parseNotice parses the frame of notice.
func parseNotice(f *frame) (*Death, error) {
	how, reason, _ := strings.Cut(string(f.value), "\x00")
	d := &Death{Rank: int(f.rank), Code: int(f.code), How: how, Clean: f.id == 1}
	if f.key != "" {
		number, lost := strings.CutSuffix(f.key, lostMark)
		rank, err := strconv.Atoi(number)
		if err != nil || rank < 0 {
			return nil, fmt.Errorf("%w: the end of rank %d because of %q", ErrProtocol, f.rank, f.key)
		}
		d.Cause = &Blame{Rank: rank, Certain: true, Lost: lost, Reason: reason}
	}
	return d, nil
}

// notice returns the frame that tells a rank of a death.
func notice(to int, d *Death) post {
	f := frame{kind: jobNotifies, rank: int32(d.Rank), code: int32(d.Code), value: cut(d.How)}
	if d.Clean {
		f.id = 1
	}
	if b := d.Cause; b != nil {
		f.key = strconv.Itoa(b.Rank)
		if b.Lost {
			f.key += lostMark
		}
		f.value = append(append(f.value, 0), cut(b.Reason)...)
	}
	return post{to, f}
}

// handle handles a frame from a rank that has joined. It returns an error if the rank violates the
// protocol.
func (s *space) handle(rank int, f *frame) ([]post, error) {
	m := &s.members[rank]
	if !m.joined || m.left || m.death != nil {
		return nil, fmt.Errorf("%w: a frame of kind %d from a rank that has left or ended", ErrProtocol, f.kind)
	}
	switch f.kind {
	case rankPuts:
		return s.put(m, f)
	case rankGets:
		return s.get(rank, f)
	case rankExchanges:
		return s.exchange(rank, f)
	case rankBlames:
		return nil, s.blame(rank, f)
	case rankLeaves:
		return s.leave(rank), nil
	}
	return nil, fmt.Errorf("%w: a rank does not send frames of kind %d", ErrProtocol, f.kind)
}

func (s *space) put(m *member, f *frame) ([]post, error) {
	if err := checkPut(m.values, m.bytes, f.key, f.value); err != nil {
		return nil, err
	}
	if m.values == nil {
		m.values = map[string][]byte{}
	}
	m.values[f.key] = f.value
	m.bytes += len(f.value)
	var out []post
	for _, w := range m.waiting[f.key] {
		s.members[w.rank].waits--
		out = append(out, post{w.rank, frame{kind: jobAnswers, id: w.id, value: f.value}})
	}
	delete(m.waiting, f.key)
	return out, nil
}

// checkPut has the checks that both sides make before a value is published.
func checkPut[V any](values map[string]V, bytes int, key string, value []byte) error {
	switch {
	case key == "" || len(key) > MaxKey:
		return fmt.Errorf("%w: a key of %d bytes; 1 to %d are legal", ErrLimit, len(key), MaxKey)
	case len(value) > MaxValue:
		return fmt.Errorf("%w: %d bytes; a value has %d at most", ErrLimit, len(value), MaxValue)
	case len(values) >= MaxKeys:
		return fmt.Errorf("%w: a rank has %d keys at most", ErrLimit, MaxKeys)
	case bytes+len(value) > MaxRankBytes:
		return fmt.Errorf("%w: the values of a rank have %d bytes at most", ErrLimit, MaxRankBytes)
	}
	if _, ok := values[key]; ok {
		return fmt.Errorf("%w: %q", ErrDuplicate, key)
	}
	return nil
}

func (s *space) get(rank int, f *frame) ([]post, error) {
	if f.rank < 0 || int(f.rank) >= len(s.members) || f.key == "" {
		return nil, fmt.Errorf("%w: get of key %q of rank %d", ErrProtocol, f.key, f.rank)
	}
	of := &s.members[f.rank]
	if v, ok := of.values[f.key]; ok {
		return []post{{rank, frame{kind: jobAnswers, id: f.id, value: v}}}, nil
	}
	if of.left || of.death != nil {
		return []post{{rank, frame{kind: jobDenies, id: f.id, rank: f.rank}}}, nil
	}
	m := &s.members[rank]
	if m.waits >= maxWaiting {
		return nil, fmt.Errorf("%w: %d gets wait at one time", ErrLimit, m.waits+1)
	}
	m.waits++
	if of.waiting == nil {
		of.waiting = map[string][]waiter{}
	}
	of.waiting[f.key] = append(of.waiting[f.key], waiter{rank, f.id})
	return nil, nil
}

func (s *space) exchange(rank int, f *frame) ([]post, error) {
	x := &s.round
	if f.id != x.id || x.called[rank] {
		return nil, fmt.Errorf("%w: exchange %d while %d is being made", ErrProtocol, f.id, x.id)
	}
	x.called[rank], x.values[rank] = true, f.value
	x.count++
	if r := s.gone(); r >= 0 {
		return []post{{rank, frame{kind: jobFails, id: x.id, rank: int32(r)}}}, nil
	}
	if x.count < len(s.members) {
		return nil, nil
	}
	var out []post
	for to := range s.members {
		for r, v := range x.values {
			if len(v) > 0 {
				out = append(out, post{to, frame{kind: jobShares, id: x.id, rank: int32(r), value: v}})
			}
		}
		out = append(out, post{to, frame{kind: jobShared, id: x.id}})
	}
	s.nextRound()
	return out, nil
}

// gone returns a rank that has left or ended, -1 if there is none. If there is one, no exchange can
// be completed, even if that rank has called it before it ended: the value that it contributed may
// be of no use any more.
func (s *space) gone() int {
	return slices.IndexFunc(s.members, func(m member) bool { return m.left || m.death != nil })
}

// leave records that a rank has left the job.
func (s *space) leave(rank int) []post {
	s.members[rank].left = true
	return s.depart(rank)
}

// end records the end of a rank. A second end of the same rank has no effect.
func (s *space) end(d *Death) []post {
	m := &s.members[d.Rank]
	if m.death != nil {
		return nil
	}
	m.death = d
	if !d.Clean {
		d.Cause = m.cause()
	}
	var out []post
	for r := range s.members {
		if s.members[r].present() {
			out = append(out, notice(r, d))
		}
	}
	if m.left {
		return out // leave has done the rest
	}
	return append(out, s.depart(d.Rank)...)
}

// depart fails the gets and the exchange that wait for a rank that will publish nothing any more.
func (s *space) depart(rank int) []post {
	var out []post
	m := &s.members[rank]
	for _, ws := range m.waiting {
		for _, w := range ws {
			s.members[w.rank].waits--
			if s.members[w.rank].present() {
				out = append(out, post{w.rank, frame{kind: jobDenies, id: w.id, rank: int32(rank)}})
			}
		}
	}
	m.waiting = nil
	for r, here := range s.round.called {
		if here && s.members[r].present() {
			out = append(out, post{r, frame{kind: jobFails, id: s.round.id, rank: int32(rank)}})
		}
	}
	return out
}

func (m *member) present() bool { return m.joined && !m.left && m.death == nil }
