// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"weft/internal/event"
	"weft/internal/event/journal"
)

// Times of several processes. README.md, beside this file, has the argument.

// mostPairs is how many messages of one sort are looked at to compare clocks: the first ones.
const mostPairs = 1 << 14

// survey is what a first reading of a file finds.
type survey struct {
	start, last event.Moment
	sends, gets map[Message][]int64 // ticks, in order, of messages of the job
	lossy       bool                // events of messages are missing
}

// span is how long the clock was watched, in ticks.
func (v *survey) span() int64 { return v.last.Ticks - v.start.Ticks }

func (v *survey) rate() float64 {
	if v.span() <= 0 {
		return 1 // in nanoseconds, or too short to tell
	}
	return float64(v.last.Wall-v.start.Wall) / float64(v.span())
}

// look reads a file once. What is wrong with it, the second reading tells.
func look(name string, process int, messages bool) *survey {
	v := &survey{sends: map[Message][]int64{}, gets: map[Message][]int64{}}
	f, err := os.Open(name)
	if err != nil {
		return v
	}
	defer f.Close()
	r, err := journal.NewReader(f)
	if err != nil {
		return v
	}
	v.start, v.last = r.Head.Start, r.Head.Start
	for {
		b, err := r.Next()
		switch {
		case err != nil:
			return v
		case b.Records == nil:
			v.last = b.Moment
		case messages && b.Source.Location.Kind == event.RankLocation && b.Source.Location.Group == JobGroup:
			for i := range b.Records {
				v.message(&Event{Record: b.Records[i], Source: b.Source, Process: process})
			}
		}
	}
}

func (v *survey) message(e *Event) {
	list := v.sends
	switch e.Kind() {
	case event.Lost:
		v.lossy = true
		return
	case event.SendPosted:
	case event.Matched:
		list = v.gets
	default:
		return
	}
	if m := MessageOf(e); len(list[m]) < mostPairs {
		list[m] = append(list[m], e.Ticks())
	}
}

// align gives all processes of a machine one clock, and compares those of several machines by their
// messages.
func (s *Set) align() {
	if len(s.traces) < 2 {
		return
	}
	for _, t := range s.traces {
		id := cmp.Or(t.Head.Boot, "host "+t.Head.Host)
		i := slices.IndexFunc(s.machines, func(m *machine) bool { return m.how == id })
		if i < 0 {
			i = len(s.machines)
			s.machines = append(s.machines, &machine{host: t.Head.Host, how: id})
		}
		s.machines[i].traces = append(s.machines[i].traces, t)
	}
	views := map[*trace]*survey{}
	for i, t := range s.traces {
		views[t] = look(t.name, i, len(s.machines) > 1)
	}
	for _, m := range s.machines {
		m.how, m.doubt = "", -1
		// The counter of the processors is one for all; which moment it had at which tick, the
		// process knows best that has watched it longest.
		best := slices.MaxFunc(m.traces, func(a, b *trace) int { return cmp.Compare(views[a].span(), views[b].span()) })
		for _, t := range m.traces {
			from := views[t]
			if t.Head.Clock == best.Head.Clock && t.Head.Clock != "monotonic" && t.Head.Boot != "" {
				from = views[best]
			}
			t.order.start, t.order.rate, t.order.fixed = from.start, from.rate(), true
		}
	}
	if len(s.machines) > 1 {
		s.compare(views)
	}
	for _, m := range s.machines {
		for _, t := range m.traces {
			t.order.shift = m.shift
		}
	}
}

// gap is what messages say of two clocks: the least time from a sending by one to the matching by
// the other, by the clocks as they are.
type gap struct {
	least int64
	n     int // messages; 0: none
}

// compare finds out by how much the clocks of machines differ.
func (s *Set) compare(views map[*trace]*survey) {
	of := map[*trace]int{}
	sends := map[Message]*trace{}
	for i, m := range s.machines {
		for _, t := range m.traces {
			of[t] = i
			if !views[t].lossy {
				for k := range views[t].sends {
					sends[k] = t
				}
			}
		}
	}
	gaps := make([][]gap, len(s.machines))
	for i := range gaps {
		gaps[i] = make([]gap, len(s.machines))
	}
	for _, t := range s.traces {
		if views[t].lossy {
			continue
		}
		for k, got := range views[t].gets {
			from := sends[k]
			if from == nil || of[from] == of[t] {
				continue
			}
			g := &gaps[of[from]][of[t]]
			sent := views[from].sends[k]
			for i := range min(len(got), len(sent)) {
				d := t.order.time(got[i]) - from.order.time(sent[i])
				if g.n == 0 || d < g.least {
					g.least = d
				}
				g.n++
			}
		}
	}
	s.spread(gaps)
}

// spread goes from the first machine to the others, each by way of the one by which it is known
// best.
func (s *Set) spread(gaps [][]gap) {
	known := make([]bool, len(s.machines))
	known[0], s.machines[0].doubt = true, 0
	for {
		to, doubt := -1, int64(0)
		var shift int64
		var via int
		for a, k := range known {
			for b := range known {
				there, back := gaps[a][b], gaps[b][a]
				if !k || known[b] || there.n == 0 || back.n == 0 {
					continue
				}
				// By its own clock, b matches something there.least after a has sent it, and a
				// back.least after b. What b is ahead by is between -back.least and there.least,
				// since no message arrives before it is sent.
				ahead := (there.least - back.least) / 2
				d := s.machines[a].doubt + max((there.least+back.least)/2, 0)
				if to < 0 || d < doubt {
					to, via, doubt, shift = b, a, d, s.machines[a].shift-ahead
				}
			}
		}
		if to < 0 {
			break
		}
		m := s.machines[to]
		known[to], m.shift, m.doubt = true, shift, doubt
		m.how = fmt.Sprintf("by %d messages to and fro with %s; give or take %v", gaps[via][to].n+gaps[to][via].n, s.machines[via].host, time.Duration(doubt))
	}
	for b, m := range s.machines {
		if known[b] {
			continue
		}
		m.how = "by the time of day, since no messages with others tell"
		for a, k := range known {
			there, back := gaps[a][b], gaps[b][a]
			at := s.machines[a].shift
			switch {
			case !k:
			case there.n > 0 && there.least+m.shift-at < 0: // it would arrive before it is sent
				m.shift = at - there.least
				m.how = fmt.Sprintf("by %d messages in one direction, so at least that; the rest is not known", there.n)
			case back.n > 0 && back.least+at-m.shift < 0:
				m.shift = at + back.least
				m.how = fmt.Sprintf("by %d messages in one direction, so at least that; the rest is not known", back.n)
			}
		}
	}
}

// Clocks says how times of different machines were compared, a sentence for each machine but the
// first; nothing where there is one.
func (s *Set) Clocks() (lines []string) {
	for _, m := range s.machines[min(1, len(s.machines)):] {
		var ranks []string
		for _, t := range m.traces {
			ranks = append(ranks, fmt.Sprint(t.Head.Rank))
		}
		word := "behind"
		if m.shift <= 0 {
			word = "ahead of"
		}
		lines = append(lines, fmt.Sprintf("clock of %s (rank %s): %v %s that of %s, %s", m.host, strings.Join(ranks, ", "), time.Duration(max(m.shift, -m.shift)), word, s.machines[0].host, m.how))
	}
	return lines
}

// Doubt is how far times of different machines may be off, as far as that is known; ok is false if
// it is not known for all.
func (s *Set) Uncertainty() (most time.Duration, ok bool) {
	for _, m := range s.machines {
		if len(s.machines) > 1 && m.doubt < 0 {
			return 0, false
		}
		most = max(most, time.Duration(m.doubt))
	}
	return most, true
}

// JobGroup is the group of the places of ranks that are processes: that of the one run that the
// processes of a job make together. Runs of ranks inside of a process have groups from 1 on.
const JobGroup = 0

// Message names the messages that match in the order in which they are sent: the n-th that is sent
// is the n-th that is matched.
type Message struct {
	Process  int // whose ranks they are; -1 for those of the job
	Group    int
	Comm     uint64
	From, To int
	Tag      int32
}

// Pair returns what waits in theirs under a key, the first of several. If nothing does, here waits
// in mine. So the n-th of one sort is paired with the n-th of the other, whichever comes first.
func Pair[K comparable, V any](mine, theirs map[K][]V, key K, here V) (there V, ok bool) {
	l := theirs[key]
	if len(l) == 0 {
		mine[key] = append(mine[key], here)
		return there, false
	}
	if theirs[key] = l[1:]; len(l) == 1 {
		delete(theirs, key)
	}
	return l[0], true
}

// MessageOf returns which messages an event of kind SendPosted or Matched is of.
func MessageOf(e *Event) Message {
	m := Message{Process: e.Process, Group: e.Source.Location.Group, Comm: e.C >> 40, Tag: int32(uint32(e.B >> 32))}
	if m.Group == JobGroup {
		m.Process = -1
	}
	here, peer := e.Source.Location.Index, int(int32(uint32(e.B)))
	if e.Kind() == event.SendPosted {
		m.From, m.To = here, peer
	} else {
		m.From, m.To = peer, here
	}
	return m
}
