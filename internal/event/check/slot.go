// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"weft/internal/event"
	"weft/internal/event/replay"
)

func (c *Checker) slotOf(e *replay.Event) *slot {
	k := slotKey{e.Process, e.Source.Place}
	s := c.slots[k]
	if s == nil {
		s = &slot{}
		c.slots[k] = s
	}
	return s
}

// runs says what the slot does.
func (s *slot) runs() string {
	if s.cur == nil {
		return fmt.Sprintf("the slot is %v and runs nothing", s.state)
	}
	return fmt.Sprintf("the slot runs task %d", s.cur.id.id)
}

func (c *Checker) slotEvent(e *replay.Event) error {
	s := c.slotOf(e)
	switch e.Kind() {
	case event.SlotTaken:
		if s.state != free {
			return fmt.Errorf("the slot is %v: somebody has it", s.state)
		}
		s.state = held
	case event.SlotGiven:
		if s.state != held || s.cur != nil {
			return fmt.Errorf("%s: it cannot be given up", s.runs())
		}
		s.state = free
	case event.Parked:
		if s.state != held || s.cur != nil {
			return fmt.Errorf("%s: it cannot park", s.runs())
		}
		s.state = parked
	case event.Unparked:
		if s.state != parked {
			return fmt.Errorf("the slot is %v, not parked", s.state)
		}
		s.state = held
	case event.Stolen:
		if s.state != held {
			return fmt.Errorf("%s: it cannot steal", s.runs())
		}
	}
	return nil
}
