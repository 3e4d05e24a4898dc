// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// said describes posts, a word each: receiver, kind, id, rank, code, key and value.
func said(out []post) string {
	names := map[kind]string{jobAnswers: "answers", jobDenies: "denies", jobShares: "shares", jobShared: "shared", jobFails: "fails", jobNotifies: "notifies"}
	var words []string
	for _, p := range out {
		f := p.f
		words = append(words, fmt.Sprintf("%d<%s/%d/%d/%d/%s/%s", p.to, names[f.kind], f.id, f.rank, f.code, f.key, f.value))
	}
	return strings.Join(words, " ")
}

// The steps of three ranks, and all frames that the launcher sends because of each, in their order.
func TestScriptsOfSpace(t *testing.T) {
	// RANK VERB ARGUMENTS; RECEIVER<VERB/ID/RANK/CODE/KEY/VALUE
	type step struct{ does, said string }
	for name, script := range map[string][]step{
		"get": {
			{"0 joins", ""}, {"1 joins", ""}, {"1 puts a", ""}, {"0 gets 1 a 5", "0<answers/5/0/0//a"}, {"1 gets 1 a 6", "1<answers/6/0/0//a"},
			{"0 gets 1 b 7", ""}, {"1 gets 1 b 8", ""}, {"0 gets 1 b 9", ""}, {"0 gets 1 c 10", ""},
			{"1 puts b", "0<answers/7/0/0//b 1<answers/8/0/0//b 0<answers/9/0/0//b"}, {"1 puts a", `the key has a value already: "a"`}, {"0 gets 2 x 11", ""}, {"2 joins", ""}, {"2 puts x", "0<answers/11/0/0//x"},
			{"1 leaves", "0<denies/10/1/0//"}, {"0 gets 1 a 12", "0<answers/12/0/0//a"}, {"0 gets 1 z 13", "0<denies/13/1/0//"},
			{"1 puts z", "a frame of kind 1 from a rank that has left or ended"}, {"1 leaves", "a frame of kind 5 from a rank that has left or ended"},
		},
		"waits for ranks that are gone": {
			{"0 joins", ""}, {"1 joins", ""}, {"2 joins", ""}, {"0 gets 2 k 1", ""}, {"1 gets 2 k 2", ""}, {"0 exchanges 1", ""}, {"1 exchanges 1", ""},
			{"0 leaves", "1<fails/1/0/0//"}, {"2 ends 3", "1<notifies/0/2/3//how 1<denies/2/2/0// 1<fails/1/2/0//"}, {"2 ends 4", ""}, {"0 ends 0", "1<notifies/1/0/0//how"}, {"1 gets 2 k 3", "1<denies/3/2/0//"},
			{"1 exchanges 1", "exchange 1 while 1 is being made"}, {"1 ends 1", ""},
		},
		"exchange": {
			{"0 joins", ""}, {"1 joins", ""}, {"0 exchanges 1", ""}, {"0 exchanges 1", "exchange 1 while 1 is being made"}, {"1 exchanges 2", "exchange 2 while 1 is being made"}, {"1 exchanges 1", ""}, {"2 joins", ""},
			{"2 exchanges 1", "0<shares/1/0/0//v0 0<shares/1/2/0//v2 0<shared/1/0/0// 1<shares/1/0/0//v0 1<shares/1/2/0//v2 1<shared/1/0/0// 2<shares/1/0/0//v0 2<shares/1/2/0//v2 2<shared/1/0/0//"},
			{"0 exchanges 1", "exchange 1 while 2 is being made"}, {"2 exchanges 2", ""}, {"2 leaves", ""}, {"0 exchanges 2", "0<fails/2/2/0//"}, {"1 exchanges 2", "1<fails/2/2/0//"},
		},
		"joins": {
			{"3 joins", "there is no rank 3 of 3"}, {"-1 joins", "there is no rank -1 of 3"}, {"1 puts k", "from a rank that has left or ended"},
			{"0 ends 0", ""}, {"2 ends 9", ""}, {"1 joins", "1<notifies/1/0/0//how 1<notifies/0/2/9//how"}, {"0 joins", "the process that was started as rank 0 has ended"},
			{"1 joins", "rank 1 is another process already; a rank is one process"}, {"1 exchanges 1", "1<fails/1/0/0//"}, {"1 leaves", ""},
			{"1 joins", "rank 1 has left the job; a process of the job is a rank once"}, {"1 ends 0", ""},
		},
		"causes": {
			{"0 joins", ""}, {"1 joins", ""}, {"2 joins", ""}, {"0 blames 1 3", ""}, {"0 ends 1", "1<notifies/0/0/1/1!/how\x00why 2<notifies/0/0/1/1!/how\x00why"},
			{"1 blames 1 1", ""}, {"1 ends 1", "2<notifies/0/1/1/1/how\x00why"}, {"2 blames 0 1", ""}, {"2 leaves", ""}, {"2 ends 0", ""}, {"1 blames 0 0", "from a rank that has left or ended"},
		},
		"a clean end has no cause": {{"0 joins", ""}, {"1 joins", ""}, {"0 blames 1 3", ""}, {"0 leaves", ""}, {"0 ends 0", "1<notifies/1/0/0//how"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(3)
			for _, step := range script {
				var rank, a, b int
				var what, key string
				_, err := fmt.Sscan(step.does, &rank, &what)
				require.NoError(t, err)
				rest := strings.TrimPrefix(step.does, fmt.Sprintf("%d %s ", rank, what))
				var out []post
				err = nil
				switch what {
				case "joins":
					out, err = s.join(rank)
				case "puts":
					out, err = s.handle(rank, &frame{kind: rankPuts, key: rest, value: []byte(rest)})
				case "gets":
					_, _ = fmt.Sscan(rest, &a, &key, &b)
					out, err = s.handle(rank, &frame{kind: rankGets, rank: int32(a), key: key, id: uint64(b)})
				case "exchanges":
					_, _ = fmt.Sscan(rest, &a)
					f := frame{kind: rankExchanges, id: uint64(a)}
					if rank != 1 {
						f.value = fmt.Appendf(nil, "v%d", rank)
					}
					out, err = s.handle(rank, &f)
				case "leaves":
					out, err = s.handle(rank, &frame{kind: rankLeaves})
				case "blames":
					_, _ = fmt.Sscan(rest, &a, &b)
					out, err = s.handle(rank, &frame{kind: rankBlames, rank: int32(a), code: int32(b), value: []byte("why")})
				case "ends":
					_, _ = fmt.Sscan(rest, &a)
					out = s.end(&Death{Rank: rank, Code: a, How: "how", Clean: a == 0})
				}
				if err != nil {
					require.ErrorContains(t, err, step.said, step.does)
					require.NotEmpty(t, step.said, step.does)
					require.Empty(t, out)
					continue
				}
				require.Equal(t, step.said, said(out), step.does)
			}
			for r := range s.members {
				waits := 0
				for k := range s.members {
					for _, ws := range s.members[k].waiting {
						for _, w := range ws {
							if w.rank == r {
								waits++
							}
						}
					}
				}
				require.Equal(t, waits, s.members[r].waits, "gets of rank %d that wait", r)
				if s.members[r].left || s.members[r].death != nil {
					require.Empty(t, s.members[r].waiting)
				}
			}
		})
	}
}

// parseNotice parses the frames that notice makes, and refuses others.
func TestParseNotice(t *testing.T) {
	for _, d := range []Death{
		{Rank: 1, Code: 2, How: "how"}, {Rank: 0, Code: -1, How: "", Clean: true}, {Rank: 3, Code: 255, How: "how", Cause: &Blame{Rank: 0, Certain: true, Reason: "why"}},
		{Rank: 3, How: "how", Cause: &Blame{Rank: 12, Certain: true, Reason: "", Lost: true}},
	} {
		p := notice(7, &d)
		require.Equal(t, 7, p.to)
		got, err := parseNotice(&p.f)
		require.NoError(t, err)
		require.Equal(t, d, *got)
	}
	long := strings.Repeat("x", 5000)
	p := notice(0, &Death{How: long, Cause: &Blame{Reason: long}})
	require.Len(t, p.f.value, 2*4096+1)
	for key, rank := range map[string]int{"0": 0, "7!": 7, "x": -1, "-1": -1, "!": -1, "1!!": -1, " 1": -1} {
		d, err := parseNotice(&frame{kind: jobNotifies, rank: 2, key: key})
		if rank < 0 {
			require.EqualError(t, err, fmt.Sprintf("%v: the end of rank 2 because of %q", ErrProtocol, key))
			continue
		}
		require.NoError(t, err, key)
		require.Equal(t, Blame{Rank: rank, Certain: true, Lost: key == "7!"}, *d.Cause)
	}
	for id, clean := range map[uint64]bool{0: false, 1: true, 2: false} {
		d, err := parseNotice(&frame{id: id})
		require.NoError(t, err)
		require.Equal(t, clean, d.Clean)
	}
}

// The other ranks hear of the cause that counts: the first certain blame of another rank, if it has
// a reason, or else the rank's blame of itself.
func TestCauses(t *testing.T) {
	own := &Blame{Rank: 0}
	for _, row := range []struct {
		b    *Blame
		want bool
	}{
		{nil, false}, {&Blame{Rank: 1, Certain: true, Reason: "r"}, true}, {&Blame{Rank: 0, Certain: true, Reason: "r"}, true}, {&Blame{Rank: -1, Certain: true, Reason: "r"}, false},
		{&Blame{Rank: 1, Reason: "r"}, false}, {&Blame{Rank: 1, Certain: true}, false},
	} {
		want := own
		if row.want {
			want = row.b
		}
		require.Same(t, want, (&member{blames: row.b, own: own}).cause(), "%+v", row.b)
	}
	s := joinedSpace(t, 2)
	for _, row := range []struct {
		rank, code int32
		good       bool
	}{{-2, 1, false}, {-1, 0, true}, {1, 0, true}, {2, 0, false}, {1, -1, false}, {1, 3, true}, {1, 4, false}, {0, 0, false}, {0, 2, false}, {0, 1, true}, {0, 3, true}} {
		_, err := s.handle(0, &frame{kind: rankBlames, rank: row.rank, code: row.code})
		require.Equal(t, row.good, err == nil, row)
		if !row.good {
			require.EqualError(t, err, fmt.Sprintf("%v: rank 0 blames rank %d (%d)", ErrProtocol, row.rank, row.code))
		}
	}
}
