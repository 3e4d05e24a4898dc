// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A conversation of ranks that stall and move, and the questions and verdicts of the launcher. A word is an event:
// "0:3/4" is rank 0 that stalls with 3 frames sent and 4 taken; "0:3/4?1" the same as the answer to question 1; "0:moves"; "0:leaves"; "0:dies";
// "?1" is question 1 to all that are here; "!" the verdict.
func TestStalls(t *testing.T) {
	for name, talk := range map[string]string{
		"all wait":                     "0:2/1 1:3/3 2:1/2 ?1 0:2/1?1 1:3/3?1 2:1/2?1 !",
		"one moves":                    "0:2/1 1:3/3",
		"a frame is under way":         "0:2/1 1:3/3 2:1/1",
		"it arrives":                   "0:2/1 1:3/3 2:1/1 2:moves 2:1/2 ?1 2:1/2?1 1:3/3?1 0:2/1?1 !",
		"one has moved in between":     "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 1:2/2?1 2:1/1?1",
		"and stalls again":             "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 1:moves 2:1/1?1 1:2/2 ?2 0:1/1?2 1:2/2?2 2:1/1?2 !",
		"an answer that is late":       "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 1:moves 2:1/1?1 1:1/1 ?2 0:1/1?1 1:1/1?2 2:1/1?2",
		"one has left":                 "2:leaves 0:1/1 1:1/1 ?1 0:1/1?1 1:1/1?1 !",
		"one has left with its frames": "2:leaves 0:1/1 1:1/0",
		"one has died":                 "2:dies 0:1/1 1:1/1",
		"one is in doubt":              "0:2/1 1:3/3~ 2:1/2 ?1 0:2/1?1 1:3/3~?1 2:1/2?1 ~",
		"and moves":                    "0:2/1 1:3/3~ 2:1/2 ?1 0:2/1?1 1:moves 2:1/2?1",
		"the first one in doubt":       "0:2/1~ 1:3/3 2:1/2 ?1 0:2/1~?1 1:3/3?1 2:1/2?1 ~",
		"it has sent":                  "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:1/1?1 1:2/1?1",
		"it has taken":                 "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:1/1?1 1:1/2?1",
		"it moves and answers":         "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:1/1?1 1:moves 1:1/1?1",
		"it moves after its answer":    "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 1:1/1?1 0:moves 2:1/1?1",
		"one leaves before its answer": "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:leaves 1:1/1?1 !",
		"it answers what nobody asked": "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:1/1?2 1:1/1?1",
		"one has ended well":           "2:ends 0:1/1 1:1/1 ?1 0:1/1?1 1:1/1?1 !",
		"one dies before its answer":   "0:1/1 1:1/1 2:1/1 ?1 0:1/1?1 2:dies 1:1/1?1 !",
		"one is still to come":         "2:absent 0:1/1 1:1/1",
		"they wait with none alive":    "1:leaves 2:leaves 0:0/0 ?1 0:0/0?1 !",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(3)
			for r := range 3 {
				_, err := s.join(r)
				require.NoError(t, err)
			}
			words := strings.Fields(talk)
			for i := 0; i < len(words); i++ {
				var rank, sent, here, question int
				f := frame{kind: rankStalls}
				what := words[i][2:]
				_, err := fmt.Sscan(words[i][:1], &rank)
				require.NoError(t, err)
				var out []post
				switch what {
				case "dies", "ends":
					s.end(&Death{Rank: rank, Code: 1, Clean: what == "ends"})
					continue
				case "absent":
					s.members[rank].joined = false
					continue
				case "leaves":
					f.kind = rankLeaves
				case "moves":
					f.kind = rankMoves
				default:
					plain := strings.Replace(what, "~", "", 1)
					_, _ = fmt.Sscanf(plain, "%d/%d?%d", &sent, &here, &question)
					if plain != what {
						here |= -1 << 63
					}
					f.id = uint64(question)
					f.value = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(sent)), uint64(here))
					f.value = append(f.value, words[i][:1]...)
				}
				out, err = s.handle(rank, &f)
				require.NoError(t, err)
				var got string
				var present []string
				var all []post
				for r := range s.members {
					if s.members[r].present() {
						present = append(present, fmt.Sprint(r))
						all = append(all, post{r, frame{kind: jobAsks, id: s.question}})
					}
				}
				if len(out) > 0 {
					got = fmt.Sprintf("?%d", s.question)
					require.Equal(t, all, out)
				}
				for verdict, waits := range map[string]*[]string{"!": &s.deadlock, "~": &s.suspected} {
					if *waits != nil {
						require.Equal(t, present, *waits)
						got += verdict
						*waits = nil
					}
				}
				want := ""
				if i+1 < len(words) && strings.ContainsAny(words[i+1][:1], "?!~") {
					want = words[i+1]
					i++
				}
				require.Equal(t, want, got, "after %s", words[i])
			}
		})
	}
	s := newSpace(1)
	_, err := s.join(0)
	require.NoError(t, err)
	_, err = s.handle(0, &frame{kind: rankStalls, value: make([]byte, 15)})
	require.ErrorIs(t, err, ErrProtocol)
}
