// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The quick functions agree with effects, over all states.
func TestQuickAnswersEqualEffects(t *testing.T) {
	for s := range uint32(closed << 1) {
		for _, mode := range []uint32{0, isReader, inRun, inRun | isCommut, isCommut | isHeld} {
			for _, weak := range []uint32{0, isWeak} {
				s := s | mode | weak
				if s&(nextUp|nextInRun) != 0 && s&hasNext == 0 || s&childInRun != 0 && s&hasChild == 0 ||
					s&(nextInRun|childInRun|hasOpen) != 0 && s&inRun == 0 {
					continue // no such state
				}
				e := effects(s)
				require.Equal(t, isHolder(s) && s&(through|outW) != 0, e&unlock != 0, "unlock %b", s)
				require.Equal(t, e&^unlock, effects(s|isHeld|isSolo)&^unlock, "constants %b", s)
				require.Equal(t, e&ready != 0, startable(s), "startable %b", s)
				require.Equal(t, effects(s|closed)&rest != 0, finished(s), "finished %b", s)

				// When a successor is linked, only the effects count that the link makes true.
				if s&(hasNext|nextUp|nextInRun|closed) == 0 {
					member := s&inRun != 0
					for _, b := range []uint32{hasNext, hasNext | nextInRun} {
						if b&nextInRun != 0 && !member {
							continue
						}
						d := effects(s|b) &^ e
						want := uint32(0)
						if d&sendR != 0 {
							want |= hasR
						}
						if d&sendOpen != 0 {
							want |= hasOpen
						}
						if d&sendW != 0 {
							want = hasW
						}
						require.Equal(t, want, passes(s|b), "passes %b", s|b)
					}
				}

				// The messages that were sent before the write token comes.
				if s&hasW == 0 {
					for _, o := range [][2]uint32{{sendR, sendOpen}, {childR, childOpen}} {
						want := e&o[0] != 0 && s&(isReader|isWeak) != isReader || e&o[1] != 0 && s&isWeak != 0
						require.Equal(t, want, step{s: s | hasW, old: s}.mayBeLate(o[0], o[1]), "mayBeLate %b", s)
					}
				}

				// The write token comes to an access that does not have it.
				if s&hasW == 0 && onlyReady(s|hasW) {
					d := effects(s|hasW) &^ e
					require.Zero(t, d&^ready, "onlyReady %b", s)
				}
				if s&hasW == 0 && s&(isReader|through|isWeak) == isReader|through && readerOver(s|hasW) == hasW|hasNext {
					d := effects(s|hasW) &^ e
					require.Equal(t, sendW|rest, d&^(sendR|ready|childR), "readerOver %b", s)
				}
			}
		}
	}
}
