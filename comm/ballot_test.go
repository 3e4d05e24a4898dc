// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// assembly are the ballots of one agreement, and the messages between them. Anything that can happen next may.
type assembly struct {
	ballots []*ballot // nil: not begun
	votes   []*vote
	dead    []bool
	knows   [][]bool // knows[a][b]: a has learned that b is lost
	net     []inFlight
	results []*vote // of all that have ever decided, the dead too
	rand    *rand.Rand
}

type inFlight struct {
	from int
	m    ballotMsg
}

func newAssembly(n int, r *rand.Rand) *assembly {
	s := &assembly{ballots: make([]*ballot, n), dead: make([]bool, n), results: make([]*vote, n), rand: r}
	for i := range n {
		s.knows = append(s.knows, make([]bool, n))
		s.votes = append(s.votes, &vote{kind: voteAgree, flags: ^(1 << i), ctx: uint64(100 + i), lost: newMembers(n), acked: newMembers(n)})
	}
	return s
}

// post puts what a rank sends into the network. If crash is not negative, the rank dies when it has sent that many of it.
func (s *assembly) post(from int, out []ballotMsg, crash int) {
	if crash >= 0 && crash <= len(out) {
		s.dead[from] = true
		out = out[:crash]
	} else if b := s.ballots[from]; b != nil && b.out != nil && s.results[from] == nil {
		s.results[from] = b.out // the program sees the result when all is sent
	}
	if crash == len(out) && s.ballots[from].out != nil {
		s.results[from] = s.ballots[from].out // or it dies just after that
	}
	for _, m := range out {
		s.net = append(s.net, inFlight{from, m})
	}
}

// step does one thing that can happen, and reports whether there was one. deaths is how many may still die.
func (s *assembly) step(deaths *int) bool {
	type event func()
	var events []event
	crash := func() int {
		if *deaths > 0 && s.rand.IntN(12) == 0 {
			*deaths--
			return s.rand.IntN(len(s.ballots) + 1)
		}
		return -1
	}
	n := len(s.ballots)
	for r := range n {
		if s.dead[r] {
			continue
		}
		if s.ballots[r] == nil {
			events = append(events, func() {
				gone := newMembers(n)
				for q := range n {
					if s.knows[r][q] {
						gone.add(q)
						s.votes[r].lost.add(q)
					}
				}
				b, out := newBallot(n, r, gone, s.votes[r])
				s.ballots[r] = b
				s.post(r, out, crash())
			})
		}
		for q := range n {
			if s.dead[q] && !s.knows[r][q] {
				events = append(events, func() {
					s.knows[r][q] = true
					if b := s.ballots[r]; b != nil {
						s.post(r, b.lose(q), crash())
					}
				})
			}
		}
	}
	for i, x := range s.net {
		to := x.m.to
		if s.dead[to] || s.knows[to][x.from] {
			s.net = slices.Delete(s.net, i, i+1)
			return true
		}
		if s.ballots[to] != nil {
			events = append(events, func() {
				s.net = slices.Delete(s.net, i, i+1)
				s.post(to, s.ballots[to].receive(x.from, &x.m), crash())
			})
		}
	}
	if len(events) == 0 {
		return false
	}
	events[s.rand.IntN(len(events))]()
	return true
}

func (s *assembly) check() error {
	var first *vote
	for r, v := range s.results {
		if v == nil {
			if !s.dead[r] {
				return fmt.Errorf("rank %d lives and has not decided", r)
			}
			continue
		}
		if first == nil {
			first = v
		}
		if v.flags != first.flags || v.ctx != first.ctx || !slices.Equal(v.lost, first.lost) {
			return fmt.Errorf("rank %d has decided %+v, another one %+v", r, v, first)
		}
	}
	for r := range s.dead {
		if first != nil && !s.dead[r] && first.flags&(1<<r) != 0 {
			return fmt.Errorf("the vote of rank %d, which lives, does not count", r)
		}
	}
	return nil
}

// In whatever order things happen, and whoever dies in the middle of whatever: all that live decide, and all that have ever decided
// have decided the same.
func TestBallotExplored(t *testing.T) {
	rounds := 30000
	if testing.Short() {
		rounds = 3000
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		n := 1 + r.IntN(5)
		deaths := r.IntN(n)
		s := newAssembly(n, r)
		for s.step(&deaths) {
		}
		require.NoError(t, s.check(), "seed %d", seed)
	}
}

// A ballot without the step of acceptance lets one that has decided and died differ from the rest: the exploration would find it.
func TestBallotExplorationFindsMistakes(t *testing.T) {
	for name, plant := range map[string]func(b *ballot){
		"no acceptance": func(b *ballot) {
			for r := range b.n {
				b.accepted.add(r)
			}
		},
		"no help": func(b *ballot) {
			if b.out != nil {
				for r := range b.n {
					b.gone.add(r) // lose does nothing then
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 30000 {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				n := 2 + r.IntN(4)
				deaths := r.IntN(n)
				s := newAssembly(n, r)
				for s.step(&deaths) {
					for _, b := range s.ballots {
						if b != nil {
							plant(b)
						}
					}
				}
				if s.check() != nil {
					return
				}
			}
			require.Fail(t, "the mistake was not found")
		})
	}
}

func FuzzBallotFrame(f *testing.F) {
	m := &ballotMsg{phase: phaseJoin, by: -1, v: &vote{kind: voteShrink, flags: 3, ctx: 1<<32 | 6, lost: newMembers(9), acked: newMembers(9)}}
	x := m.pack(2, 7)
	f.Add(x.Head[1], x.Head[3], x.Data)
	f.Add(uint64(1), uint64(0), []byte{1})
	f.Fuzz(func(t *testing.T, w1, w3 uint64, data []byte) {
		head := x.Head
		head[1], head[3] = w1, w3
		if m, err := unpackBallot(9, &head, data); err == nil {
			again := m.pack(head[0], uint32(w1>>32))
			require.Equal(t, data, again.Data)
			require.Equal(t, head[1], again.Head[1])
		}
	})
}

// An agreement reports a death that all have acknowledged to nobody, and any other one to all, also
// one that happens while they wait for the rank that dies. Then all know of it.
func TestAgreeReportsDeaths(t *testing.T) {
	for how, run := range runners {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while others wait: %v", how, late), func(t *testing.T) {
				var waiting sync.WaitGroup
				waiting.Add(2)
				err := run(t.Context(), Config{Ranks: 3, Survive: true}, func(c *Comm) error {
					if c.Rank() == 2 {
						if late {
							waiting.Wait()
							runtime.Gosched()
						}
						return errTest
					}
					if late {
						waiting.Done()
					}
					for acked := range 3 { // by nobody, rank 0, both
						want := min(1, max(0, acked-c.Rank()))
						if n := c.AckFailed(want); n != want {
							return fmt.Errorf("%d of %v are acknowledged, not %d", n, c.Failed(), want)
						}
						all, err := c.Agree(t.Context(), uint64(3-c.Rank()))
						if all != 2 || errors.Is(err, ErrPeerLost) != (acked < 2) {
							return fmt.Errorf("acknowledged by %d, agreed on %d: %w", acked, all, err)
						}
					}
					return nil
				})
				if of := (*RankError)(nil); err != nil {
					require.ErrorAs(t, err, &of)
					require.Equal(t, 2, of.Rank, "%v", err)
				}
			})
		}
	}
}

// One ballot at a time, whose neighbours are the test: which messages each event has it send, and
// whom it waits for.
func TestBallotSteps(t *testing.T) {
	v := func(flags uint64) *vote { return aVote(voteAgree, 9, flags) }
	type step struct {
		from, lose int // a message from a rank, or the loss of one
		m          ballotMsg
		want       string
		awaits     int
	}
	lose := func(r int, want string, awaits int) step { return step{lose: r, from: -1, want: want, awaits: awaits} }
	hears := func(from int, p phase, by int, flags uint64, want string, awaits int) step {
		return step{from: from, m: ballotMsg{phase: p, by: by, v: v(flags)}, want: want, awaits: awaits}
	}
	decided := func(s step) step { s.m.decided = true; return s }
	for name, x := range map[string]struct {
		n, me  int
		gone   []int
		begins string
		awaits int
		steps  []step
		out    uint64 // flags
	}{
		"the coordinator": {n: 3, me: 0, awaits: 1, out: 4, steps: []step{
			hears(1, phaseJoin, -1, 6, "", 2),
			hears(2, phaseJoin, -1, 5, "propose 1 (4, 0);propose 2 (4, 0);", -1),
			hears(1, phaseAccept, 0, 4, "", -1),
			hears(2, phaseAccept, 1, 4, "", -1), // of another one's proposal
			hears(2, phaseAccept, 0, 4, "commit 1 (4, -1);commit 2 (4, -1);", -1),
			hears(1, phaseJoin, -1, 6, "commit 1 (4, -1);", -1),
			hears(2, phaseAccept, 0, 4, "", -1),
			hears(2, phaseCommit, -1, 9, "", -1),
			hears(2, phasePropose, 2, 9, "accept 2 (9, 2);", -1),
			lose(1, "", -1), lose(2, "", -1),
		}},
		"ranks are lost before they come": {n: 4, me: 0, awaits: 1, out: 5, steps: []step{
			hears(2, phaseJoin, -1, 5, "", 1),
			lose(1, "", 3),
			lose(3, "propose 2 (5, 0);", -1),
			lose(3, "", -1),
			lose(2, "", -1),
		}},
		"a member": {n: 3, me: 1, begins: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			lose(2, "", 0), lose(1, "", 0), lose(2, "", 0),
			hears(0, phasePropose, 0, 4, "accept 0 (4, 0);", -1),
			lose(0, "", -1), // and alone
		}},
		"who is bound tells the next": {n: 4, me: 2, begins: "join 0 (7, -1);", awaits: 0, out: 3, steps: []step{
			hears(0, phasePropose, 0, 4, "accept 0 (4, 0);", -1),
			lose(0, "join 1 (4, 0);", 1), lose(0, "", 1),
			hears(1, phasePropose, 1, 3, "accept 1 (3, 1);", -1),
			hears(0, phasePropose, 0, 4, "", -1), // bound to a later one
			hears(1, phasePropose, 1, 3, "accept 1 (3, 1);", -1),
			lose(1, "", 3),
			hears(3, phaseJoin, 0, 4, "propose 3 (3, 2);", -1),
			lose(3, "", -1),
		}},
		"the proposal of the latest": {n: 5, me: 2, gone: []int{0, 1}, awaits: 3, out: 2, steps: []step{
			hears(3, phaseJoin, 1, 2, "", 4),
			hears(4, phaseJoin, 0, 1, "propose 3 (2, 2);propose 4 (2, 2);", -1),
			hears(4, phaseAccept, 2, 2, "", -1),
			hears(3, phaseAccept, 2, 2, "commit 3 (2, -1);commit 4 (2, -1);", -1),
		}},
		"who has decided helps": {n: 5, me: 3, begins: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			hears(0, phaseCommit, -1, 4, "", -1),
			lose(4, "", -1), lose(1, "", -1),
			lose(0, "join 2 decided (4, -1);", -1), lose(0, "", -1),
			lose(2, "", -1), // it coordinates, and there is nobody left
		}},
		"who has decided coordinates": {n: 4, me: 1, begins: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			hears(0, phaseCommit, -1, 4, "", -1),
			lose(0, "commit 2 (4, -1);commit 3 (4, -1);", -1),
		}},
		"it is decided already": {n: 4, me: 1, gone: []int{0}, awaits: 2, out: 4, steps: []step{
			decided(hears(3, phaseJoin, -1, 4, "commit 2 (4, -1);commit 3 (4, -1);", -1)),
		}},
		"the coordinator is lost from the beginning": {n: 9, me: 8, gone: []int{0, 1}, begins: "join 2 (7, -1);", awaits: 2, out: 7, steps: []step{
			lose(2, "join 3 (7, -1);", 3), lose(4, "", 3), lose(3, "join 5 (7, -1);", 5), lose(6, "", 5), lose(7, "", 5), lose(5, "", -1),
		}},
		"one rank": {n: 1, me: 0, awaits: -1, out: 7},
	} {
		gone := newMembers(9)
		for _, r := range x.gone {
			gone.add(r)
		}
		text := func(out []ballotMsg) (all string) {
			for _, m := range out {
				all += fmt.Sprintf("%s %d", phaseNames[m.phase], m.to)
				if m.decided {
					all += " decided"
				}
				all += fmt.Sprintf(" (%d, %d);", m.v.flags, m.by)
			}
			return all
		}
		mine := v(7)
		b, out := newBallot(x.n, x.me, gone, mine)
		require.Equal(t, x.begins, text(out), name)
		require.Equal(t, x.awaits, b.awaits(), name)
		for i, s := range x.steps {
			if s.from < 0 {
				out = b.lose(s.lose)
			} else {
				out = b.receive(s.from, &s.m)
			}
			require.Equal(t, s.want, text(out), "%s, step %d", name, i)
			require.Equal(t, s.awaits, b.awaits(), "%s, step %d", name, i)
		}
		require.Equal(t, x.out, b.out.flags, name)
		require.EqualValues(t, 7, mine.flags, "a vote is not changed")
		require.Equal(t, newMembers(9), mine.lost, "a vote is not changed")
	}
}

// Votes of different kinds are mixed; who is lost is so by one, and acknowledged by all.
func TestVotesAdd(t *testing.T) {
	a, b := aVote(voteAgree, 20, 6), aVote(voteAgree, 20, 3)
	for r := range 20 {
		if r%2 == 0 {
			a.lost.add(r)
			a.acked.add(r)
		}
		if r%3 == 0 {
			b.lost.add(r)
			b.acked.add(r)
		}
	}
	v := a.clone()
	v.add(b)
	require.Equal(t, voteAgree, v.kind)
	require.EqualValues(t, 2, v.flags)
	for r := range 20 {
		require.Equal(t, r%2 == 0 || r%3 == 0, v.lost.has(r), r)
		require.Equal(t, r%6 == 0, v.acked.has(r), r)
		require.Equal(t, r%2 == 0, a.lost.has(r) && a.acked.has(r), r)
	}
	v.add(aVote(voteShrink, 20, 0))
	require.Equal(t, voteMixed, v.kind)
	require.True(t, b.lost.within(v.lost))
	require.False(t, v.lost.within(b.lost))
	one, last := newMembers(17), newMembers(17)
	require.True(t, one.within(last))
	last.add(16)
	require.False(t, last.within(one))
	require.True(t, one.within(last))
	for n, want := range map[int]int{0: 0, 1: 1, 7: 1, 8: 1, 9: 2, 16: 2, 17: 3} {
		require.Len(t, newMembers(n), want)
	}
}
