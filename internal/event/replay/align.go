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

// Times of several processes. README.md has the argument.

// mostPairs is how many messages with equal communicator, ranks and tag are used to compare clocks:
// the first ones.
const mostPairs = 1 << 14

// survey is the result of the first reading of a file.
type survey struct {
	start, last    event.Moment
	sends, matches map[Message][]int64 // ticks, in order, of messages of the job
	lossy          bool                // records of messages were lost
}

// span is the time between the first and the last moment, in ticks.
func (v *survey) span() int64 { return v.last.Ticks - v.start.Ticks }

func (v *survey) rate() float64 {
	if v.span() <= 0 {
		return 1 // in nanoseconds, or too short for a rate
	}
	return float64(v.last.Wall-v.start.Wall) / float64(v.span())
}

// readSurvey reads a file once. It ignores errors: the second reading reports them.
func readSurvey(name string, process int, messages bool) *survey {
	v := &survey{sends: map[Message][]int64{}, matches: map[Message][]int64{}}
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
		list = v.matches
	default:
		return
	}
	if m := MessageOf(e); len(list[m]) < mostPairs {
		list[m] = append(list[m], e.Ticks())
	}
}

// align gives all processes of a machine one clock, and compares the clocks of machines by their
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
		views[t] = readSurvey(t.name, i, len(s.machines) > 1)
	}
	for _, m := range s.machines {
		m.how, m.uncertainty = "", -1
		// All processors have the same counter. The process that has recorded longest knows its
		// rate best.
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

// delay is the least time of n messages from sending at one machine to matching at another, by
// their unadjusted clocks.
type delay struct {
	least int64
	n     int // number of messages; 0: least has no value
}

// compare computes the delays between machines, and shifts the machines by them.
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
	delays := make([][]delay, len(s.machines))
	for i := range delays {
		delays[i] = make([]delay, len(s.machines))
	}
	for _, t := range s.traces {
		if views[t].lossy {
			continue
		}
		for k, got := range views[t].matches {
			from := sends[k]
			if from == nil || of[from] == of[t] {
				continue
			}
			g := &delays[of[from]][of[t]]
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
	s.spread(delays)
}

// spread sets the shifts of all machines, beginning with the first. Each machine is shifted through
// the machine that gives the least uncertainty.
func (s *Set) spread(delays [][]delay) {
	known := make([]bool, len(s.machines))
	known[0], s.machines[0].uncertainty = true, 0
	for {
		to, uncertainty := -1, int64(0)
		var shift int64
		var via int
		for a, k := range known {
			for b := range known {
				there, back := delays[a][b], delays[b][a]
				if !k || known[b] || there.n == 0 || back.n == 0 {
					continue
				}
				// By the unadjusted clocks, b matches a message there.least after a has sent it,
				// and a matches one back.least after b has sent it. No message arrives before it is
				// sent. So the clock of b is ahead by at least -back.least and at most there.least.
				ahead := (there.least - back.least) / 2
				d := s.machines[a].uncertainty + max((there.least+back.least)/2, 0)
				if to < 0 || d < uncertainty {
					to, via, uncertainty, shift = b, a, d, s.machines[a].shift-ahead
				}
			}
		}
		if to < 0 {
			break
		}
		m := s.machines[to]
		known[to], m.shift, m.uncertainty = true, shift, uncertainty
		m.how = fmt.Sprintf("measured by %d messages in both directions with %s, uncertainty %v", delays[via][to].n+delays[to][via].n, s.machines[via].host, time.Duration(uncertainty))
	}
	for b, m := range s.machines {
		if known[b] {
			continue
		}
		m.how = "by the time of day, since no messages in both directions measure it"
		for a, k := range known {
			there, back := delays[a][b], delays[b][a]
			at := s.machines[a].shift
			switch {
			case !k:
			case there.n > 0 && there.least+m.shift-at < 0:
				// otherwise a message would arrive before it is sent
				m.shift = at - there.least
				m.how = fmt.Sprintf("a lower bound from %d messages in one direction", there.n)
			case back.n > 0 && back.least+at-m.shift < 0:
				m.shift = at + back.least
				m.how = fmt.Sprintf("a lower bound from %d messages in one direction", back.n)
			}
		}
	}
}

// Clocks returns a sentence for each machine but the first: by how much its clock differs, and how
// that was measured. It returns nothing if there is one machine.
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
		lines = append(lines, fmt.Sprintf("clock of %s (rank %s): %v %s the clock of %s, %s", m.host, strings.Join(ranks, ", "), time.Duration(max(m.shift, -m.shift)), word, s.machines[0].host, m.how))
	}
	return lines
}

// Uncertainty returns a bound for the error in the order of times of different machines. ok is
// false if it is not known for all machines.
func (s *Set) Uncertainty() (most time.Duration, ok bool) {
	for _, m := range s.machines {
		if len(s.machines) > 1 && m.uncertainty < 0 {
			return 0, false
		}
		most = max(most, time.Duration(m.uncertainty))
	}
	return most, true
}

// JobGroup is the Location.Group of ranks that are processes: of the one run that all processes of
// a job make together. Runs of ranks within one process have groups from 1 on.
const JobGroup = 0

// Message identifies messages that match in the order in which they are sent: the n-th sent message
// is the n-th matched one.
type Message struct {
	Process  int // the process of both ranks; -1 if ranks are processes
	Group    int
	Comm     uint64
	From, To int
	Tag      int32
}

// Pair removes and returns the first value under key in theirs. If there is none, it appends here
// to the values under key in mine. So the n-th value of one map is paired with the n-th of the
// other, whichever comes first.
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

// MessageOf returns the Message of a record of kind SendPosted or Matched.
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
