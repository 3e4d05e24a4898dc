// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

var rangePattern = regexp.MustCompile(`^(weak)?(inout|in|out|concurrent)\((\w+)([\[{])(\d+):(\d+)[\]}]\)$`)

// rangeAccess is the access to a part of an array: x[2:5] is a range, x{0:4} an object.
func (s *harness) rangeAccess(w string) (a deps.Access, ok bool) {
	m := rangePattern.FindStringSubmatch(w)
	if m == nil {
		return a, false
	}
	arr := s.arrays[m[3]]
	if arr == nil {
		arr = make([]byte, 64)
		if s.arrays == nil {
			s.arrays = map[string][]byte{}
		}
		s.arrays[m[3]] = arr
	}
	lo, _ := strconv.Atoi(m[5])
	hi, _ := strconv.Atoi(m[6])
	part := arr[lo:hi]
	if m[4] == "{" {
		switch hi - lo {
		case 1:
			a = modeOn(m[2], &part[0])
		case 4:
			a = modeOn(m[2], (*[4]byte)(part))
		case 8:
			a = modeOn(m[2], (*[8]byte)(part))
		default:
			panic("objects in arrays have 1, 4 or 8 bytes")
		}
	} else {
		r := deps.Slice(part)
		switch m[2] {
		case "in":
			a = r.In()
		case "out":
			a = r.Out()
		case "inout":
			a = r.InOut()
		default:
			a = r.Concurrent()
		}
	}
	if m[1] != "" {
		a = a.Weak()
	}
	return a, true
}

func modeOn[T any](mode string, p *T) deps.Access {
	switch mode {
	case "in":
		return deps.In(p)
	case "out":
		return deps.Out(p)
	case "inout":
		return deps.InOut(p)
	}
	return deps.Concurrent(p)
}

// REG-01: chains of siblings on ranges that overlap in part.
func TestREG01_Ranges(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"partial overlap", `
			spawn W inout(x[0:6])      | W
			spawn R1 in(x[4:8])        | W
			spawn R2 in(x[6:8])        | W R2
			spawn W2 inout(x[7:9])     | W R2
			end R2                     | W
			end W                      | R1
			end R1                     | W2
		`},
		{"one reader of two writers", `
			spawn W1 out(x[0:4])       | W1
			spawn W2 out(x[4:8])       | W1 W2
			spawn R in(x[2:6])         | W1 W2
			end W2                     | W1
			end W1                     | R
		`},
		{"fragments", `
			spawn W inout(x[0:12])     | W
			spawn A in(x[0:4])         | W
			spawn B in(x[4:8])         | W
			spawn C in(x[8:12])        | W
			spawn M inout(x[2:10])     | W
			spawn L in(x[0:2])         | W
			spawn N in(x[9:12])        | W
			end W                      | A B C L
			end A                      | B C L
			end C                      | B L
			end B                      | M L
			end M                      | L N
		`},
		{"a hole", `
			spawn W inout(x[0:12])     | W
			spawn H inout(x[4:8])      | W
			spawn R in(x[0:12])        | W
			spawn S in(x[0:4])         | W
			end W                      | H S
			end H                      | R S
		`},
		{"neighbours", `
			spawn A inout(x[0:4])      | A
			spawn B inout(x[4:8])      | A B
			spawn C inout(x[3:5])      | A B
			spawn D inout(x[8:9])      | A B D
			end A                      | B D
			end B                      | C D
		`},
		{"groups", `
			spawn A concurrent(x[0:6]) | A
			spawn B concurrent(x[4:9]) | A B
			spawn W inout(x[5:6])      | A B
			spawn C concurrent(x[0:5]) | A B C
			spawn D concurrent(x[5:9]) | A B C
			end A                      | B C
			end B                      | W C
			end W                      | C D
		`},
		{"upgrade of a part", `
			spawn R in(x[0:12])                 | R
			spawn U in(x[0:8]) out(x[4:6])      | R
			spawn A in(x[0:4])                  | R A
			spawn B in(x[5:7])                  | R A
			spawn C in(x[6:8])                  | R A C
			end R                               | U A C
			end U                               | A B C
		`},
		{"upgrade of a part of a member", `
			spawn A concurrent(x[0:8])             | A
			spawn U concurrent(x[0:8]) in(x[4:6])  | A
			spawn B concurrent(x[0:4])             | A B
			spawn C concurrent(x[4:6])             | A B
			end A                                  | U B
			spawn D concurrent(x[6:8])             | U B D
			end U                                  | B C D
		`},
		{"weak and strong in parts", `
			spawn W inout(x[0:12])                    | W
			spawn V weakin(x[0:8])                    | W V
			spawn S weakinout(x[0:8]) in(x[6:7])      | W V
			end W                                     | V
			end V                                     | S
		`},
		{"empty", `
			spawn W inout(x[0:12])                    | W
			spawn E inout(x[3:3]) in(x[12:12])        | W E
			spawn F in(x[3:3]) in(x[0:1])             | W E
			end W                                     | E F
		`},
		{"objects first", `
			spawn A inout(x{0:4})                     | A
			spawn B inout(x{4:8})                     | A B
			spawn C in(x[3:5])                        | A B
			spawn D in(x{0:4})                        | A B
			spawn E inout(x[8:9])                     | A B E
			spawn F inout(x{8:9})                     | A B E
			end B                                     | A E
			end A                                     | C D E
			spawn G inout(x{4:8})                     | C D E
			end E                                     | C D F
			end C                                     | D F G
		`},
		{"an object within a range", `
			spawn A out(x[0:12])                      | A
			spawn B in(x{4:5})                        | A
			spawn C inout(x{8:12})                    | A
			spawn D inout(x[5:9])                     | A
			end A                                     | B C
			end C                                     | B D
		`},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.script) })
	}
}

// reg makes ranges of the objects 1 and 2 of the tables: halves of an array, or with a step
// between.
func reg(list, one, two string) string {
	return strings.NewReplacer("(1)", "(x["+one+"])", "(2)", "(x["+two+"])").Replace(list)
}

// REG-10: early release and weak accesses by ranges: the tables DEP-20 and DEP-30 on parts of one
// array.
func TestREG10_EarlyRelease(t *testing.T) {
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
		for _, parts := range [][2]string{{"0:5", "5:10"}, {"5:10", "0:5"}, {"0:1", "9:10"}} {
			t.Run(fmt.Sprint("case ", i+1, " ", parts), func(t *testing.T) {
				with := func(list string) string { return reg(words(list, "inout", false), parts[0], parts[1]) }
				early := func(list string, when bool) string {
					if when {
						return list + " T2"
					}
					return list
				}
				setup := "spawn T1 " + with(c.t1) + "\n spawn T1.1 " + with(c.child) + "\n" +
					"spawn T2 " + with(c.t2) + "|" + early("T1 T1.1", !c.body && !c.kid) + "\n"
				play(t, setup+
					"end T1      |"+early("T1.1", !c.kid)+"\n"+
					"end T1.1    | T2\n")
				play(t, setup+
					"end T1.1    |"+early("T1", !c.body)+"\n"+
					"end T1      | T2\n")
			})
		}
	}
}

func TestREG10_Parts(t *testing.T) {
	skipInLintMode(t, "the program uses what its tasks have not declared, on purpose, and debug mode, which lint mode includes, ends the run")
	for _, c := range []struct{ name, script string }{
		{"what no child uses goes at once", `
			spawn T1 inout(x[0:12])      | T1
			spawn T1.1 inout(x[4:8])     | T1 T1.1
			spawn A in(x[0:4])           | T1 T1.1
			spawn B in(x[4:6])           | T1 T1.1
			spawn C in(x[8:12])          | T1 T1.1
			spawn D in(x[3:5])           | T1 T1.1
			end T1                       | T1.1 A C
			end T1.1                     | A B C D
		`},
		{"children overlap", `
			spawn T1 weakinout(x[0:12])  | T1
			spawn T1.1 inout(x[0:6])     | T1 T1.1
			spawn T1.2 in(x[4:10])       | T1 T1.1
			spawn T1.3 in(x[8:12])       | T1 T1.1 T1.3
			spawn A in(x[4:12])          | T1 T1.1 T1.3
			spawn B inout(x[10:12])      | T1 T1.1 T1.3
			end T1                       | T1.1 T1.3
			end T1.1                     | T1.2 T1.3 A
			end T1.3                     | T1.2 A
			end A                        | T1.2 B
		`},
		{"weak: case 1", `
			spawn T1 weakin(x[0:8])      | T1
			spawn T1.1 in(x[0:4])        | T1 T1.1
			spawn T2 weakout(x[0:8])     | T1 T1.1 T2
			spawn T2.1 out(x[2:6])       | T1 T1.1 T2
			spawn T2.2 out(x[6:8])       | T1 T1.1 T2
			end T1                       | T1.1 T2 T2.2
			end T1.1                     | T2 T2.1 T2.2
		`},
		{"weak: case 2", `
			spawn T1 weakinout(x[0:8])   | T1
			spawn T1.1 inout(x[0:8])     | T1 T1.1
			spawn T1.2 in(x[2:4])        | T1 T1.1
			spawn T2 weakin(x[0:8])      | T1 T1.1 T2
			spawn T2.1 in(x[3:6])        | T1 T1.1 T2
			end T1                       | T1.1 T2
			end T1.1                     | T1.2 T2 T2.1
		`},
		{"weak: case 3", `
			spawn T1 weakin(x[0:8])      | T1
			spawn T1.1 in(x[0:8])        | T1 T1.1
			spawn T2 weakinout(x[0:8])   | T1 T1.1 T2
			spawn T2.1 weakin(x[0:6])    | T1 T1.1 T2 T2.1
			spawn T2.1.1 in(x[0:4])      | T1 T1.1 T2 T2.1 T2.1.1
			spawn T2.2 out(x[2:8])       | T1 T1.1 T2 T2.1 T2.1.1
			spawn T2.3 in(x[0:8])        | T1 T1.1 T2 T2.1 T2.1.1
			spawn T3 in(x[2:8])          | T1 T1.1 T2 T2.1 T2.1.1
			end T1 T1.1                  | T2 T2.1 T2.1.1
			end T2.1.1 T2.1              | T2 T2.2
			end T2                       | T2.2
			end T2.2                     | T2.3 T3
		`},
		{"an object's parent", `
			spawn T1 inout(x{0:8})       | T1
			spawn T1.1 inout(x[2:4])     | T1 T1.1
			spawn T1.2 inout(x[3:6])     | T1 T1.1
			spawn A in(x{0:8})           | T1 T1.1
			end T1                       | T1.1
			end T1.1                     | T1.2
			end T1.2                     | A
		`},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.script) })
	}
	t.Run("a child uses more than its parent", func(t *testing.T) {
		playUndeclared(t, `
			spawn T1 inout(x[0:4])       | T1
			spawn T1.1 inout(x[2:8])     | T1 T1.1
			spawn A inout(x[4:8])        | T1 T1.1 A
			spawn B inout(x[0:2])        | T1 T1.1 A
			end T1                       | T1.1 A B
		`)
	})
}

// Release of parts of what was declared.
func TestREG10_Release(t *testing.T) {
	play(t, `
		spawn T inout(x[0:12])          | T
		spawn A in(x[0:3])              | T
		spawn B in(x[2:6])              | T
		spawn C inout(x[8:12])          | T
		release T inout(x[0:4])         | T A
		release T out(x[6:12])          | T A C
		release T inout(x[4:5])         | T A C
		end A C                         | T
		end T                           | B
	`)
	// In a domain of ranges, also by objects; in several declarations at once.
	play(t, `
		spawn T in(x[0:4]) in(x[4:8]) weakin(x[8:12])   | T
		spawn W inout(x[2:6])                           | T
		spawn V inout(x{8:12})                          | T
		release T in(x[2:6])                            | T W
		release T weakin(x{8:12})                       | T W V
	`)
	// A child's bytes are waited for.
	play(t, `
		spawn T inout(x[0:12])          | T
		spawn T.1 inout(x[2:4])         | T T.1
		spawn A in(x[0:2])              | T T.1
		spawn B in(x[0:4])              | T T.1
		release T inout(x[0:6])         | T T.1 A
		end T.1                         | T A B
	`)
}

// WaitOn, the attribute Wait, events and undeferred tasks by ranges.
func TestREG10_Tasks(t *testing.T) {
	play(t, `
		spawn A inout(x[0:4])             | A
		spawn B inout(x[4:8])             | A B
		waiton main in(x[2:4])            | main? A B
		end A                             | B
		spawn+wait C inout(x[0:4])        | B C
		spawn C.1 in(x[0:1])              | B C C.1
		spawn D in(x[2:4])                | B C C.1
		end C                             | B C.1
		hold C.1                          | B C.1
		end C.1                           | B
		event C.1                         | B D
		undeferred U inout(x[3:5])        | main? B D
		end D                             | main? B
		end B                             | main? U
		end U                             |
	`)
}

// REG-01: a stencil in place with blocks whose bounds change from sweep to sweep, half of them
// split over nested tasks: the result is that of the sequential program, for every number of
// workers.
func TestREG01_Stencil(t *testing.T) {
	const n, sweeps = 400, 12
	smooth := func(v []int, lo, hi int) {
		for i := max(lo, 1); i < min(hi, n-1); i++ {
			v[i] = (3*v[i-1] + 5*v[i] + 7*v[i+1]) % 1009
		}
	}
	// around returns the accesses of smooth.
	around := func(v []int, lo, hi int, weak bool) []deps.Access {
		list := []deps.Access{deps.Slice(v[lo:hi]).InOut(), deps.Slice(v[max(lo-1, 0):lo]).In(), deps.Slice(v[hi:min(hi+1, n)]).In()}
		for i := range list {
			if weak {
				list[i] = list[i].Weak()
			}
		}
		return list
	}
	start := func() []int {
		v := make([]int, n)
		for i := range v {
			v[i] = i * i % 97
		}
		return v
	}
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		type block struct{ lo, mid, hi int }
		var plan []block
		for range sweeps {
			for lo := 0; lo < n; {
				hi := min(lo+1+r.IntN(60), n)
				b := block{lo: lo, hi: hi}
				if r.IntN(2) == 0 {
					b.mid = lo + r.IntN(hi-lo)
				}
				plan = append(plan, b)
				lo = hi
			}
		}
		want := start()
		for _, b := range plan {
			smooth(want, b.lo, b.hi)
		}
		for _, workers := range []int{1, 2, 4} {
			rt := newTestRuntime(t, Config{Workers: workers})
			v := start()
			require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
				for _, b := range plan {
					if b.mid <= b.lo {
						t.Spawn(func(*Task) error { smooth(v, b.lo, b.hi); return nil }, around(v, b.lo, b.hi, false)...)
						continue
					}
					t.Spawn(func(t *Task) error {
						t.Spawn(func(*Task) error { smooth(v, b.lo, b.mid); return nil }, around(v, b.lo, b.mid, false)...)
						t.Spawn(func(*Task) error { smooth(v, b.mid, b.hi); return nil }, around(v, b.mid, b.hi, false)...)
						return nil
					}, around(v, b.lo, b.hi, true)...)
				}
				return nil
			}))
			require.Equal(t, want, v, "seed %d, %d workers", seed, workers)
		}
	}
}

// Ranges and reductions of the same memory are ordered: a reader of a part of an array that is
// reduced sees all contributions.
func TestReduceBetweenRanges(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 20 {
			v := make([]int, 8)
			var seen [2]int
			r := deps.NewSliceReduction(v[2:6], deps.Sum[int]())
			require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
				t.Spawn(func(*Task) error { v[3] = 100; return nil }, deps.Slice(v[1:4]).InOut())
				for i := range 10 {
					t.Spawn(func(t *Task) error {
						p := Local(t, r)
						p[1] += i
						p[3]++
						return nil
					}, r.Reduce())
				}
				t.Spawn(func(*Task) error { seen[0] = v[3]; return nil }, deps.Slice(v[3:4]).In())
				t.Spawn(func(t *Task) error { // weak: the children do it
					t.Spawn(func(*Task) error { v[5] *= 2; return nil }, deps.InOut(&v[5]))
					return nil
				}, deps.Slice(v[4:8]).InOut().Weak())
				t.Spawn(func(*Task) error { seen[1] = v[5]; return nil }, deps.In(&v[5]))
				return nil
			}))
			require.Equal(t, [2]int{145, 20}, seen)
		}
	}
}
