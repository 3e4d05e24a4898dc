// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package consensus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// simulation has the instances of one agreement, and the messages between them. Its steps are
// random: any event that is possible may happen next.
type simulation struct {
	instances []*Instance // nil: not begun
	values    []*Value
	dead      []bool
	knows     [][]bool // knows[a][b]: a knows that b is lost
	net       []inFlight
	results   []*Value // by rank: the decision, of dead ranks too
	rand      *rand.Rand
}

type inFlight struct {
	from int
	m    Message
}

func newSimulation(n int, r *rand.Rand) *simulation {
	s := &simulation{instances: make([]*Instance, n), dead: make([]bool, n), results: make([]*Value, n), rand: r}
	for i := range n {
		s.knows = append(s.knows, make([]bool, n))
		s.values = append(s.values, &Value{Kind: Agree, Flags: ^(1 << i), Ctx: uint64(100 + i), Lost: NewMembers(n), Acked: NewMembers(n)})
	}
	return s
}

// send puts the messages of a rank into the network. If crash is not negative, the rank dies after
// it has sent so many of them.
func (s *simulation) send(from int, out []Message, crash int) {
	if crash >= 0 && crash <= len(out) {
		s.dead[from] = true
		out = out[:crash]
	} else if b := s.instances[from]; b != nil && b.Out != nil && s.results[from] == nil {
		s.results[from] = b.Out // the program gets the result after all is sent
	}
	if crash == len(out) && s.instances[from].Out != nil {
		s.results[from] = s.instances[from].Out // or it dies just after that
	}
	for _, m := range out {
		s.net = append(s.net, inFlight{from, m})
	}
}

// step makes one possible event happen, and reports whether there was one. deaths is how many ranks
// may still die.
func (s *simulation) step(deaths *int) bool {
	type event func()
	var events []event
	crash := func() int {
		if *deaths > 0 && s.rand.IntN(12) == 0 {
			*deaths--
			return s.rand.IntN(len(s.instances) + 1)
		}
		return -1
	}
	n := len(s.instances)
	for r := range n {
		if s.dead[r] {
			continue
		}
		if s.instances[r] == nil {
			events = append(events, func() {
				gone := NewMembers(n)
				for q := range n {
					if s.knows[r][q] {
						gone.Add(q)
						s.values[r].Lost.Add(q)
					}
				}
				b, out := New(n, r, gone, s.values[r])
				s.instances[r] = b
				s.send(r, out, crash())
			})
		}
		for q := range n {
			if s.dead[q] && !s.knows[r][q] {
				events = append(events, func() {
					s.knows[r][q] = true
					if b := s.instances[r]; b != nil {
						s.send(r, b.Lose(q), crash())
					}
				})
			}
		}
	}
	for i, x := range s.net {
		to := x.m.To
		if s.dead[to] || s.knows[to][x.from] {
			s.net = slices.Delete(s.net, i, i+1)
			return true
		}
		if s.instances[to] != nil {
			events = append(events, func() {
				s.net = slices.Delete(s.net, i, i+1)
				s.send(to, s.instances[to].Receive(x.from, &x.m), crash())
			})
		}
	}
	if len(events) == 0 {
		return false
	}
	events[s.rand.IntN(len(events))]()
	return true
}

func (s *simulation) check() error {
	var first *Value
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
		if v.Flags != first.Flags || v.Ctx != first.Ctx || !slices.Equal(v.Lost, first.Lost) {
			return fmt.Errorf("rank %d has decided %+v, another one %+v", r, v, first)
		}
	}
	for r := range s.dead {
		if first != nil && !s.dead[r] && first.Flags&(1<<r) != 0 {
			return fmt.Errorf("the value of rank %d, which lives, does not count", r)
		}
	}
	return nil
}

// In any order of events, and whichever ranks die at whatever moment: all ranks that live decide,
// and all decisions are the same, those of dead ranks too.
func TestInstanceExplored(t *testing.T) {
	rounds := 30000
	if testing.Short() {
		rounds = 3000
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		n := 1 + r.IntN(5)
		deaths := r.IntN(n)
		s := newSimulation(n, r)
		for s.step(&deaths) {
		}
		require.NoError(t, s.check(), "seed %d", seed)
	}
}

// The exploration finds two mistakes. Without the accept step, a rank may decide, die, and differ
// from the rest. Without the help of ranks that have decided, others wait for ever.
func TestExplorationFindsMistakes(t *testing.T) {
	for name, plant := range map[string]func(b *Instance){
		"no acceptance": func(b *Instance) {
			for r := range b.n {
				b.accepted.Add(r)
			}
		},
		"no help": func(b *Instance) {
			if b.Out != nil {
				for r := range b.n {
					b.Gone.Add(r) // Lose does nothing then
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 30000 {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				n := 2 + r.IntN(4)
				deaths := r.IntN(n)
				s := newSimulation(n, r)
				for s.step(&deaths) {
					for _, b := range s.instances {
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

var phaseNames = [...]string{PhaseJoin: "join", PhasePropose: "propose", PhaseAccept: "accept", PhaseCommit: "commit"}

// testValue returns a value of a rank of n.
func testValue(kind Kind, n int, flags uint64) *Value {
	v := NewValue(kind, n)
	v.Flags = flags
	return v
}

// One instance at a time; the test takes the part of the other ranks. Each event has the instance
// send certain messages, and wait for a certain rank.
func TestInstanceSteps(t *testing.T) {
	v := func(flags uint64) *Value { return testValue(Agree, 9, flags) }
	type step struct {
		from, lose int // a message from a rank, or the loss of one
		m          Message
		want       string
		awaits     int
	}
	lose := func(r int, want string, awaits int) step { return step{lose: r, from: -1, want: want, awaits: awaits} }
	hears := func(from int, p Phase, by int, flags uint64, want string, awaits int) step {
		return step{from: from, m: Message{Phase: p, By: by, Value: v(flags)}, want: want, awaits: awaits}
	}
	decided := func(s step) step { s.m.Decided = true; return s }
	for name, x := range map[string]struct {
		n, me  int
		gone   []int
		sends  string
		awaits int
		steps  []step
		out    uint64 // flags
	}{
		"the coordinator": {n: 3, me: 0, awaits: 1, out: 4, steps: []step{
			hears(1, PhaseJoin, -1, 6, "", 2),
			hears(2, PhaseJoin, -1, 5, "propose 1 (4, 0);propose 2 (4, 0);", -1),
			hears(1, PhaseAccept, 0, 4, "", -1),
			hears(2, PhaseAccept, 1, 4, "", -1), // of another rank's proposal
			hears(2, PhaseAccept, 0, 4, "commit 1 (4, -1);commit 2 (4, -1);", -1),
			hears(1, PhaseJoin, -1, 6, "commit 1 (4, -1);", -1),
			hears(2, PhaseAccept, 0, 4, "", -1),
			hears(2, PhaseCommit, -1, 9, "", -1),
			hears(2, PhasePropose, 2, 9, "accept 2 (9, 2);", -1),
			lose(1, "", -1), lose(2, "", -1),
		}},
		"ranks are lost before they join": {n: 4, me: 0, awaits: 1, out: 5, steps: []step{
			hears(2, PhaseJoin, -1, 5, "", 1),
			lose(1, "", 3),
			lose(3, "propose 2 (5, 0);", -1),
			lose(3, "", -1),
			lose(2, "", -1),
		}},
		"a member": {n: 3, me: 1, sends: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			lose(2, "", 0), lose(1, "", 0), lose(2, "", 0),
			hears(0, PhasePropose, 0, 4, "accept 0 (4, 0);", -1),
			lose(0, "", -1), // no other rank is left
		}},
		"a bound rank joins with the proposal": {n: 4, me: 2, sends: "join 0 (7, -1);", awaits: 0, out: 3, steps: []step{
			hears(0, PhasePropose, 0, 4, "accept 0 (4, 0);", -1),
			lose(0, "join 1 (4, 0);", 1), lose(0, "", 1),
			hears(1, PhasePropose, 1, 3, "accept 1 (3, 1);", -1),
			hears(0, PhasePropose, 0, 4, "", -1), // bound to a later one
			hears(1, PhasePropose, 1, 3, "accept 1 (3, 1);", -1),
			lose(1, "", 3),
			hears(3, PhaseJoin, 0, 4, "propose 3 (3, 2);", -1),
			lose(3, "", -1),
		}},
		"the latest proposal": {n: 5, me: 2, gone: []int{0, 1}, awaits: 3, out: 2, steps: []step{
			hears(3, PhaseJoin, 1, 2, "", 4),
			hears(4, PhaseJoin, 0, 1, "propose 3 (2, 2);propose 4 (2, 2);", -1),
			hears(4, PhaseAccept, 2, 2, "", -1),
			hears(3, PhaseAccept, 2, 2, "commit 3 (2, -1);commit 4 (2, -1);", -1),
		}},
		"a rank that has decided helps": {n: 5, me: 3, sends: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			hears(0, PhaseCommit, -1, 4, "", -1),
			lose(4, "", -1), lose(1, "", -1),
			lose(0, "join 2 decided (4, -1);", -1), lose(0, "", -1),
			lose(2, "", -1), // this rank is the coordinator, and no other is left
		}},
		"the next coordinator has decided": {n: 4, me: 1, sends: "join 0 (7, -1);", awaits: 0, out: 4, steps: []step{
			hears(0, PhaseCommit, -1, 4, "", -1),
			lose(0, "commit 2 (4, -1);commit 3 (4, -1);", -1),
		}},
		"a rank that joins has decided": {n: 4, me: 1, gone: []int{0}, awaits: 2, out: 4, steps: []step{
			decided(hears(3, PhaseJoin, -1, 4, "commit 2 (4, -1);commit 3 (4, -1);", -1)),
		}},
		"the coordinator is lost from the beginning": {n: 9, me: 8, gone: []int{0, 1}, sends: "join 2 (7, -1);", awaits: 2, out: 7, steps: []step{
			lose(2, "join 3 (7, -1);", 3), lose(4, "", 3), lose(3, "join 5 (7, -1);", 5), lose(6, "", 5), lose(7, "", 5), lose(5, "", -1),
		}},
		"one rank": {n: 1, me: 0, awaits: -1, out: 7},
	} {
		gone := NewMembers(9)
		for _, r := range x.gone {
			gone.Add(r)
		}
		text := func(out []Message) (all string) {
			for _, m := range out {
				all += fmt.Sprintf("%s %d", phaseNames[m.Phase], m.To)
				if m.Decided {
					all += " decided"
				}
				all += fmt.Sprintf(" (%d, %d);", m.Value.Flags, m.By)
			}
			return all
		}
		mine := v(7)
		b, out := New(x.n, x.me, gone, mine)
		require.Equal(t, x.sends, text(out), name)
		require.Equal(t, x.awaits, b.Awaits(), name)
		for i, s := range x.steps {
			if s.from < 0 {
				out = b.Lose(s.lose)
			} else {
				out = b.Receive(s.from, &s.m)
			}
			require.Equal(t, s.want, text(out), "%s, step %d", name, i)
			require.Equal(t, s.awaits, b.Awaits(), "%s, step %d", name, i)
		}
		require.Equal(t, x.out, b.Out.Flags, name)
		require.EqualValues(t, 7, mine.Flags, "a value is not changed")
		require.Equal(t, NewMembers(9), mine.Lost, "a value is not changed")
	}
}

// Values of different kinds become Mixed. A rank is lost if any value says so, and acknowledged if
// all do.
func TestValuesAdd(t *testing.T) {
	a, b := testValue(Agree, 20, 6), testValue(Agree, 20, 3)
	for r := range 20 {
		if r%2 == 0 {
			a.Lost.Add(r)
			a.Acked.Add(r)
		}
		if r%3 == 0 {
			b.Lost.Add(r)
			b.Acked.Add(r)
		}
	}
	v := a.clone()
	v.add(b)
	require.Equal(t, Agree, v.Kind)
	require.EqualValues(t, 2, v.Flags)
	for r := range 20 {
		require.Equal(t, r%2 == 0 || r%3 == 0, v.Lost.Has(r), r)
		require.Equal(t, r%6 == 0, v.Acked.Has(r), r)
		require.Equal(t, r%2 == 0, a.Lost.Has(r) && a.Acked.Has(r), r)
	}
	v.add(testValue(Shrink, 20, 0))
	require.Equal(t, Mixed, v.Kind)
	require.True(t, b.Lost.Within(v.Lost))
	require.False(t, v.Lost.Within(b.Lost))
	one, last := NewMembers(17), NewMembers(17)
	require.True(t, one.Within(last))
	last.Add(16)
	require.False(t, last.Within(one))
	require.True(t, one.Within(last))
	for n, want := range map[int]int{0: 0, 1: 1, 7: 1, 8: 1, 9: 2, 16: 2, 17: 3} {
		require.Len(t, NewMembers(n), want)
	}
}
