// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// The rows DEP-01 to DEP-12 of docs/conformance.md: chains of siblings on one object. Tasks that
// may run together do run together, however few slots there are: a body at its gate keeps no slot.

// A writer, readers that all overlap, a writer; twice.
func TestDEP01_WriterReadersWriter(t *testing.T) {
	play(t, `
		spawn W0 inout(x)   | W0
		spawn R1 in(x)      | W0
		spawn R2 in(x)      | W0
		spawn R3 in(x)      | W0
		spawn W4 inout(x)   | W0
		spawn R5 in(x)      | W0
		spawn R6 in(x)      | W0
		spawn W7 inout(x)   | W0
		end W0              | R1 R2 R3
		end R2              | R1 R3
		end R3              | R1
		end R1              | W4
		end W4              | R5 R6
		end R5              | R6
		end R6              | W7
	`)
}

// Writers go one at a time, in the order of creation.
func TestDEP02_Writers(t *testing.T) {
	play(t, `
		spawn W0 inout(x)   | W0
		spawn W1 out(x)     | W0
		spawn W2 inout(x)   | W0
		spawn W3 out(x)     | W0
		end W0              | W1
		end W1              | W2
		end W2              | W3
		spawn W4 inout(x)   | W3
		end W3              | W4
	`)
}

// Readers never wait for readers: not the later for the earlier, and a late reader starts at once.
func TestDEP03_Readers(t *testing.T) {
	play(t, `
		spawn R0 in(x)      | R0
		spawn R1 in(x)      | R0 R1
		spawn R2 in(x)      | R0 R1 R2
		end R1              | R0 R2
		spawn R3 in(x)      | R0 R2 R3
		end R0 R2           | R3
		spawn R4 in(x)      | R3 R4
	`)
}

// One task that reads and writes an object is a writer, in whatever order it says so.
func TestDEP04_ReadThenWrite(t *testing.T)  { upgrade(t, "in(x) out(x)") }
func TestDEP05_WriteThenRead(t *testing.T)  { upgrade(t, "out(x) in(x)") }
func TestDEP06_ReadWriteTwice(t *testing.T) { upgrade(t, "in(x) out(x) in(x) inout(x)") }

func upgrade(t *testing.T, accs string) {
	play(t, `
		spawn R0 in(x)      | R0
		spawn U1 `+accs+`   | R0
		spawn R2 in(x)      | R0
		spawn U3 `+accs+`   | R0
		spawn U4 `+accs+`   | R0
		spawn R5 in(x)      | R0
		end R0              | U1
		end U1              | R2
		end R2              | U3
		end U3              | U4
		end U4              | R5
	`)
}

// The members of a group start together, after the readers before the group and before the readers
// after it.
func TestDEP07_GroupAmidReaders(t *testing.T) {
	play(t, `
		spawn R0 in(x)           | R0
		spawn R1 in(x)           | R0 R1
		spawn C2 concurrent(x)   | R0 R1
		spawn C3 concurrent(x)   | R0 R1
		spawn C4 concurrent(x)   | R0 R1
		spawn R5 in(x)           | R0 R1
		end R1                   | R0
		end R0                   | C2 C3 C4
		end C3                   | C2 C4
		end C4                   | C2
		end C2                   | R5
	`)
}

// The same amid writers; a member that comes late joins while the group is open.
func TestDEP08_GroupAmidWriters(t *testing.T) {
	play(t, `
		spawn W0 inout(x)        | W0
		spawn C1 concurrent(x)   | W0
		spawn C2 concurrent(x)   | W0
		end W0                   | C1 C2
		end C1                   | C2
		spawn C3 concurrent(x)   | C2 C3
		spawn W4 out(x)          | C2 C3
		end C2                   | C3
		end C3                   | W4
	`)
}

// A task between two groups separates them.
func TestDEP09_TwoGroups(t *testing.T) {
	play(t, `
		spawn C0 concurrent(x)   | C0
		spawn C1 concurrent(x)   | C0 C1
		spawn R2 in(x)           | C0 C1
		spawn C3 concurrent(x)   | C0 C1
		spawn C4 concurrent(x)   | C0 C1
		end C1                   | C0
		end C0                   | R2
		end R2                   | C3 C4
	`)
}

// A member of a group that also reads or writes the object is a writer, and belongs to no group.
func TestDEP10_UpgradeInGroup(t *testing.T) {
	for _, accs := range []string{"concurrent(x) in(x)", "in(x) concurrent(x)", "concurrent(x) inout(x)", "concurrent(x) in(x) concurrent(x)"} {
		play(t, `
			spawn C0 concurrent(x)   | C0
			spawn U1 `+accs+`        | C0
			spawn C2 concurrent(x)   | C0
			end C0                   | U1
			end U1                   | C2
		`)
	}
}

// All chains of up to five tasks, of readers, writers, members of groups and upgrades, and after
// each step exactly those tasks run that the rules let run: a reader when the writers before it are
// over, a member when all before its group are, a writer when all before it are.
func TestDEP11_AllChains(t *testing.T) {
	kinds := []struct {
		kind byte
		accs []string // the ways to say it, of which one is drawn
	}{{'R', []string{"in(x)"}}, {'C', []string{"concurrent(x)"}}, {'W', []string{"inout(x)", "in(x) out(x)", "concurrent(x) in(x)"}}}
	length, rounds := 5, 2
	if underRace || testing.Short() {
		length, rounds = 4, 1
	}
	rng := rand.New(rand.NewPCG(5, 11))
	rt, err := open(Config{Workers: 2}, tuning{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	chains := 1
	for range length {
		chains *= len(kinds)
	}
	for code := range rounds * chains {
		s := newHarness(t, rt, gateKind(code%int(gateKinds)))
		s.run(func() {
			var chain []byte
			over := make([]bool, length)
			expect := func() (run []string) {
				run = []string{}
				for i, k := range chain {
					if !over[i] && mayRun(chain, over, i) {
						run = append(run, fmt.Sprintf("%c%d", k, i))
					}
				}
				return run
			}
			for i, rest := 0, code; i < length; i, rest = i+1, rest/len(kinds) {
				k := kinds[rest%len(kinds)]
				chain = append(chain, k.kind)
				s.step(strings.Fields(fmt.Sprintf("spawn %c%d %s", k.kind, i, k.accs[rng.IntN(len(k.accs))])))
				require.Equal(t, expect(), s.states(), "%s", chain)
			}
			for {
				run := expect()
				if len(run) == 0 {
					return
				}
				name := run[rng.IntN(len(run))]
				over[name[1]-'0'] = true
				s.step([]string{"end", name})
				require.Equal(t, expect(), s.states(), "%s, ended %v", chain, over)
			}
		})
	}
}

// mayRun says whether task i of a chain may run.
func mayRun(chain []byte, over []bool, i int) bool {
	first := i // of the group
	if chain[i] == 'C' {
		for first > 0 && chain[first-1] == 'C' {
			first--
		}
	}
	for j := range first {
		if !over[j] && !(chain[i] == 'R' && chain[j] == 'R') {
			return false
		}
	}
	return true
}

// Weak accesses do not delay their task, but keep their place in the chain for its children.
func TestDEP12_WeakInChain(t *testing.T) {
	play(t, `
		spawn W0 inout(x)          | W0
		spawn K1 weakinout(x)      | W0 K1
		spawn K1.1 in(x)           | W0 K1
		spawn K2 weakconcurrent(x) | W0 K1 K2
		spawn K2.1 concurrent(x)   | W0 K1 K2
		spawn R3 in(x)             | W0 K1 K2
		end W0                     | K1 K1.1 K2
		end K1.1                   | K1 K2
		end K1                     | K2 K2.1
		end K2                     | K2.1
		end K2.1                   | R3
	`)
	// An empty weak task is transparent once it is over.
	play(t, `
		spawn R0 in(x)             | R0
		spawn K1 weakin(x)         | R0 K1
		spawn R2 in(x)             | R0 K1 R2
		spawn K3 weakinout(x)      | R0 K1 R2 K3
		spawn R4 in(x)             | R0 K1 R2 K3
		end K3                     | R0 K1 R2 R4
	`)
}

// DEP-20: T2 comes after T1. The table says whether T2 waits for T1's body and for T1's child.
// Digits are objects.
func TestDEP20_EarlyRelease(t *testing.T) {
	for i, c := range []struct {
		t1, child, t2 string
		body, kid     bool // T2 waits for T1's body; for the child
	}{
		{"R1 W2", "W2", "W1", true, false},
		{"W1", "R1", "R1", true, false},
		{"W1 W2", "W2", "R1", true, false},
		{"W1 R2", "R2", "R1 R2", true, false},
		{"W1", "W1", "W1", true, true},
		{"R1 R2", "R2", "R1", false, false},
		{"R1 R2", "R2", "R2", false, false},
		{"W1 W2", "W2", "R2", true, true},
	} {
		t.Run(fmt.Sprint("case ", i+1), func(t *testing.T) {
			for _, w := range []string{"inout", "out"} {
				for _, grand := range []bool{false, true} {
					// the child's accesses are weak, and its own child has them
					early := func(list string, when bool) string {
						if when {
							return list + " T2"
						}
						return list
					}
					child, down := words(c.child, w, false), ""
					running := "T1 T1.1"
					last := "T1.1"
					if grand {
						child = words(c.child, w, true)
						down = "spawn T1.1.1 " + words(c.child, w, false) + "\n end T1.1\n"
						running, last = "T1 T1.1.1", "T1.1.1"
					}
					setup := "spawn T1 " + words(c.t1, w, false) + "\n spawn T1.1 " + child + "\n" + down +
						"spawn T2 " + words(c.t2, w, false) + "|" + early(running, !c.body && !c.kid) + "\n"
					play(t, setup+
						"end T1         |"+order2(early(last, !c.kid))+"\n"+
						"end "+last+"   | T2\n")
					play(t, setup+
						"end "+last+"   |"+early("T1", !c.body)+"\n"+
						"end T1         | T2\n")
				}
			}
		})
	}
}

// order2 puts T2 where it is created, after the descendants of T1.
func order2(list string) string {
	f := strings.Fields(list)
	slices.SortStableFunc(f, func(a, b string) int { return strings.Compare(a, b) })
	return strings.Join(f, " ")
}

// words makes accesses of "R1 W2".
func words(list, writer string, weak bool) string {
	var out []string
	for _, f := range strings.Fields(list) {
		mode := "in"
		if f[0] == 'W' {
			mode = writer
		}
		if weak {
			mode = "weak" + mode
		}
		out = append(out, mode+"("+f[1:]+")")
	}
	return strings.Join(out, " ")
}

// DEP-30: early release and weak accesses, two levels.
func TestDEP30_WeakEarlyRelease(t *testing.T) {
	t.Run("case 1", func(t *testing.T) {
		play(t, `
			spawn T1 weakin(x)      | T1
			spawn T1.1 in(x)        | T1 T1.1
			spawn T2 weakout(x)     | T1 T1.1 T2
			spawn T2.1 out(x)       | T1 T1.1 T2
			end T1                  | T1.1 T2
			end T1.1                | T2 T2.1
		`)
	})
	t.Run("case 2", func(t *testing.T) {
		setup := `
			spawn T1 weakinout(x)   | T1
			spawn T1.1 inout(x)     | T1 T1.1
			spawn T1.2 in(x)        | T1 T1.1
			spawn T2 weakin(x)      | T1 T1.1 T2
			spawn T2.1 in(x)        | T1 T1.1 T2
		`
		play(t, setup+`
			end T1                  | T1.1 T2
			end T1.1                | T1.2 T2 T2.1
		`)
		play(t, setup+`
			end T1.1                | T1 T1.2 T2
			end T1                  | T1.2 T2 T2.1
		`)
	})
	t.Run("case 3", func(t *testing.T) {
		setup := `
			spawn T1 weakin(x)      | T1
			spawn T1.1 in(x)        | T1 T1.1
			spawn T2 weakinout(x)   | T1 T1.1 T2
			spawn T2.1 weakin(x)    | T1 T1.1 T2 T2.1
			spawn T2.1.1 in(x)      | T1 T1.1 T2 T2.1 T2.1.1
			spawn T2.2 out(x)       | T1 T1.1 T2 T2.1 T2.1.1
			spawn T2.3 in(x)        | T1 T1.1 T2 T2.1 T2.1.1
			spawn T3 in(x)          | T1 T1.1 T2 T2.1 T2.1.1
			end T1 T1.1             | T2 T2.1 T2.1.1
			end T2.1.1 T2.1         | T2 T2.2
		`
		play(t, setup+`
			end T2                  | T2.2
			end T2.2                | T2.3 T3
		`)
		play(t, setup+`
			end T2.2                | T2 T2.3
			end T2                  | T2.3 T3
		`)
	})
}

// DEP-40, step by step: with the attribute, all accesses are held until all descendants are over;
// each level ends after the level inside it.
func TestDEP40_Wait(t *testing.T) {
	play(t, `
		spawn+wait A inout(x,y)      | A
		spawn+wait A.1 inout(x)      | A A.1
		spawn+wait A.1.1 inout(x)    | A A.1 A.1.1
		spawn B in(y)                | A A.1 A.1.1
		spawn C in(x)                | A A.1 A.1.1
		spawn A.2 in(x)              | A A.1 A.1.1
		end A                        | A.1 A.1.1
		end A.1                      | A.1.1
		hold A.1.1                   | A.1.1
		end A.1.1                    |
		event A.1.1                  | A.2
		end A.2                      | B C
	`)
	// Without it only what is in use is held.
	play(t, `
		spawn A inout(x,y)           | A
		spawn A.1 inout(x)           | A A.1
		spawn B in(y)                | A A.1
		spawn C in(x)                | A A.1
		end A                        | A.1 B
	`)
}

// DEP-50: objects are matched by their start address and nothing else; and the chains of the rows
// above once more with objects of every kind.
func TestDEP50_StartAddress(t *testing.T) {
	type pair struct{ a, b int64 }
	var p pair
	var arr [10]int64
	s := arr[:]
	for _, c := range []struct {
		name        string
		first, then deps.Access
		conflict    bool
	}{
		{"a variable", deps.InOut(&p), deps.In(&p), true},
		{"a struct and its first field", deps.InOut(&p), deps.In(&p.a), true},
		{"a struct and its second field", deps.InOut(&p), deps.In(&p.b), false},
		{"an array and its first element", deps.InOut(&arr), deps.In(&arr[0]), true},
		{"an array and its second element", deps.InOut(&arr), deps.In(&arr[1]), false},
		{"a slice and its array: two variables", deps.InOut(&s), deps.In(&arr), false},
		{"an element of a slice and of its array", deps.InOut(&s[3]), deps.In(&arr[3]), true},
		{"neighbours", deps.InOut(&arr[3]), deps.InOut(&arr[4]), false},
	} {
		early := startEarly(t, new(int), []deps.Access{c.first}, []deps.Access{c.then})
		require.Equal(t, c.conflict, len(early) == 0, c.name)
	}
	play(t, `
		spawn A inout(x)      | A
		spawn B inout(x)      | A
		end A                 | B
		spawn C in(x,y)       | B
		spawn D in(x,y)       | B
		spawn E out(x)        | B
		spawn F out(y)        | B
		end B                 | C D
		end C                 | D
		end D                 | E F
	`)
}

// REL-01: eight segments released in random order. Each successor starts at its own release and at
// no other, and may end while the releaser runs. Also: weak accesses, all modes, and a releaser
// without successors.
func TestREL01_Release(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for round := range 12 {
		declared := []string{"inout", "out", "concurrent", "weakinout", "weakconcurrent"}[round%5]
		var b strings.Builder
		b.WriteString("spawn T " + declared + "(0,1,2,3,4,5,6,7) | T\n")
		for i := range 8 {
			fmt.Fprintf(&b, "spawn S%d inout(%d) | T\n", i, i)
		}
		var open []string
		for _, i := range rng.Perm(8) {
			open = append(open, fmt.Sprint("S", i))
			slices.Sort(open)
			fmt.Fprintf(&b, "release T %s(%d) | T %s\n", declared, i, strings.Join(open, " "))
			if rng.IntN(3) == 0 {
				fmt.Fprintf(&b, "end %s\n", open[0])
				open = open[1:]
			}
		}
		playOn(t, Config{Workers: 1 + round%3, Debug: round%2 == 1}, gateKind(round%int(gateKinds)), b.String())
	}
	// A reader's release lets writers in; with a child in between they wait for that.
	play(t, `
		spawn T in(a,b)        | T
		spawn T.1 in(b)        | T T.1
		spawn U inout(a)       | T T.1
		spawn V inout(b)       | T T.1
		release T in(b)        | T T.1
		release T in(a)        | T T.1 U
		end T.1                | T U V
	`)
	play(t, `
		spawn T inout(a) weakin(b) | T
		release T inout(a) weakin(b) | T
	`)
}
