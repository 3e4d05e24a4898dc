// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"fmt"
)

// StatusDeadlock is the exit status of a job whose ranks wait for each other. It is ParaStation MPI's.
const StatusDeadlock = 112

// stall is what a rank says when it waits for others and does nothing else.
type stall struct {
	sent, here uint64 // frames to and from other ranks
	waits      string
	doubt      bool // goroutines of its program wait too, and may act
}

// doubtBit marks in the number of frames taken that there is doubt.
const doubtBit = 1 << 63

// stalls takes a report. README.md, "Deadlocks", has the protocol.
func (s *space) stalls(rank int, f *frame) ([]post, error) {
	if len(f.value) < 16 {
		return nil, fmt.Errorf("%w: a report of %d bytes", ErrProtocol, len(f.value))
	}
	taken := binary.BigEndian.Uint64(f.value[8:])
	said := &stall{binary.BigEndian.Uint64(f.value), taken &^ doubtBit, string(f.value[16:]), taken&doubtBit != 0}
	m := &s.members[rank]
	same := m.stall != nil && m.stall.sent == said.sent && m.stall.here == said.here
	m.stall = said
	if f.id != 0 {
		if f.id != s.question || !same {
			return nil, nil
		}
		m.answered = s.question
		for r := range s.members {
			if m := &s.members[r]; m.present() && (m.stall == nil || m.answered != s.question) {
				return nil, nil
			}
		}
		var waits []string
		doubt := false
		for r := range s.members {
			if m := &s.members[r]; m.present() {
				waits = append(waits, m.stall.waits)
				doubt = doubt || m.stall.doubt
			}
		}
		if doubt {
			s.suspected = waits
		} else {
			s.deadlock = waits
		}
		return nil, nil
	}
	var sent, here uint64
	for r := range s.members {
		m := &s.members[r]
		switch {
		case m.present() && m.stall != nil:
			sent += m.stall.sent
			here += m.stall.here
		case m.left || m.death != nil && m.death.Clean:
		default:
			return nil, nil // it moves, or is still to come, or has died with frames that nobody knows of
		}
	}
	if sent != here {
		return nil, nil
	}
	s.question++
	var out []post
	for r := range s.members {
		if s.members[r].present() {
			out = append(out, post{r, frame{kind: jobAsks, id: s.question}})
		}
	}
	return out, nil
}

// Stalls tells the launcher that this rank waits for others and does nothing else: how many frames it has sent to them and taken from
// them, and what it waits for. question is 0, or that of OnAsk. doubt: goroutines of its program may act though they wait, so it is not certain.
func (c *Client) Stalls(question uint64, sent, here int64, waits string, doubt bool) error {
	b := binary.BigEndian.AppendUint64(nil, uint64(sent))
	taken := uint64(here)
	if doubt {
		taken |= doubtBit
	}
	b = binary.BigEndian.AppendUint64(b, taken)
	return c.tell("stalls", &frame{kind: rankStalls, id: question, value: append(b, cut(waits)...)})
}

// Moves takes that back.
func (c *Client) Moves(question uint64) error {
	return c.tell("moves", &frame{kind: rankMoves, id: question})
}

func (c *Client) tell(op string, f *frame) error {
	c.mu.Lock()
	err := c.usableLocked()
	c.mu.Unlock()
	if err != nil {
		return c.fail(op, err)
	}
	return c.writeOr(op, f)
}

// OnAsk has f called when the launcher asks whether this rank still stalls. f must not block; it has Stalls or Moves called later. It is
// for before the first Stalls.
func (c *Client) OnAsk(f func(question uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onAsk = f
}
