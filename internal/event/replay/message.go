// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "weft/internal/event"

// JobGroup is the group of the places of ranks that are processes: that of the one run that the processes of a job make together. Runs of
// ranks inside of a process have groups from 1 on.
const JobGroup = 0

// Message names the messages that match in the order in which they are sent: the n-th that is sent is the n-th that is matched.
type Message struct {
	Process  int // whose ranks they are; -1 for those of the job
	Group    int
	Comm     uint64
	From, To int
	Tag      int32
}

// MessageOf returns which messages an event of kind SendPosted or Matched is of.
func MessageOf(e *Event) Message {
	m := Message{Process: e.Process, Group: e.Source.Place.Group, Comm: e.C >> 40, Tag: int32(uint32(e.B >> 32))}
	if m.Group == JobGroup {
		m.Process = -1
	}
	here, peer := e.Source.Place.Index, int(int32(uint32(e.B)))
	if e.Kind() == event.SendPosted {
		m.From, m.To = here, peer
	} else {
		m.From, m.To = peer, here
	}
	return m
}
