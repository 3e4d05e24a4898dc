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
