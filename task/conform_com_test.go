// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// The rows COM-01 and COM-02 of docs/conformance.md.

// matrix is nine tasks, by the objects that they take.
var matrix = []string{"a", "b", "c", "a,b", "b,c", "a,c", "a,b,c", "d", "a,d"}

func meet(x, y string) bool {
	for o := range strings.SplitSeq(x, ",") {
		if strings.Contains(y, o) {
			return true
		}
	}
	return false
}

// Each two of nine tasks: those that have an object in common exclude each other, the others run
// together.
func TestCOM01_Pairs(t *testing.T) {
	for i, x := range matrix {
		for j, y := range matrix {
			both := "X Y"
			if meet(x, y) {
				both = "X"
			}
			script := fmt.Sprintf(`
				spawn X commutative(%s)     | X
				spawn Y commutative(%s)     | %s
				end X                       | Y
				spawn R in(%s)              | Y
				end Y                       | R
			`, x, y, both, y)
			playOn(t, Config{Workers: 1 + (i+j)%3}, gateKind((i+2*j)%int(gateKinds)), script)
		}
	}
}

// All nine at once, many times: a task that runs has its objects alone, and all run.
func TestCOM01_Matrix(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4})
	var n notes
	var inside [4]atomic.Int32
	var plain [4]int
	want := [4]int{}
	const rounds = 200
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for round := range rounds {
			for k := range matrix {
				objs := matrix[(k+round)%len(matrix)]
				var accs []deps.Access
				for o := range strings.SplitSeq(objs, ",") {
					accs = append(accs, deps.Commutative(&plain[o[0]-'a']))
					want[o[0]-'a']++
				}
				t.Spawn(func(t *Task) error {
					for o := range strings.SplitSeq(objs, ",") {
						n.check(inside[o[0]-'a'].Add(1) == 1, "%s is not alone", objs)
						plain[o[0]-'a']++
					}
					if k%4 == 0 {
						t.Blocking(func() {})
					}
					for o := range strings.SplitSeq(objs, ",") {
						inside[o[0]-'a'].Add(-1)
					}
					return nil
				}, accs...)
			}
		}
		return nil
	}))
	n.require(t)
	require.Equal(t, want, plain)
}

// The group as a whole is a writer; its members go in any order.
func TestCOM01_Group(t *testing.T) {
	play(t, `
		spawn R in(x)                   | R
		spawn Z inout(z)                | R Z
		spawn C1 commutative(x) in(z)   | R Z
		spawn C2 commutative(x)         | R Z
		spawn C3 commutative(x)         | R Z
		spawn W inout(x)                | R Z
		spawn C4 commutative(x)         | R Z
		end R                           | Z C2
		end Z                           | C2
		end C2                          | C3
		end C3                          | C1
		end C1                          | W
		end W                           | C4
	`)
}

// Weak parents hold nothing; their children exclude each other, in whatever domains they are.
func TestCOM01_Weak(t *testing.T) {
	play(t, `
		spawn P weakcommutative(x,y)      | P
		spawn Q weakcommutative(x,y)      | P Q
		spawn P.1 commutative(x)          | P Q P.1
		spawn Q.1 commutative(x)          | P Q P.1
		spawn Q.2 commutative(y)          | P Q P.1 Q.2
		spawn P.2 commutative(y)          | P Q P.1 Q.2
		spawn W inout(x,y)                | P Q P.1 Q.2
		end P Q                           | P.1 Q.2
		end P.1                           | Q.1 Q.2
		end Q.2                           | Q.1 P.2
		end Q.1 P.2                       | W
	`)
}

// A task that holds the object holds it for its children: they are ordered among themselves, and
// the parent may wait for them.
func TestCOM01_Nested(t *testing.T) {
	play(t, `
		spawn P commutative(x)            | P
		spawn Q commutative(x)            | P
		spawn P.1 commutative(x)          | P P.1
		spawn P.2 commutative(x)          | P P.1
		spawn P.3 weakcommutative(x)      | P P.1 P.3
		spawn P.3.1 commutative(x)        | P P.1 P.3
		wait P                            | P? P.1 P.3
		end P.1                           | P? P.2 P.3
		end P.2                           | P? P.3 P.3.1
		end P.3.1 P.3                     | P
		spawn P.4 in(x)                   | P P.4
		end P                             | P.4
		end P.4                           | Q
	`)
}

// stencil is a shape: which cells a task at (i, j) works on, itself first.
type stencil struct {
	name   string
	offset [][2]int
}

var stencils = []stencil{
	{"line", [][2]int{{0, 0}, {0, 1}}},
	{"three", [][2]int{{0, 0}, {0, -1}, {0, 1}}},
	{"cross", [][2]int{{0, 0}, {0, -1}, {0, 1}, {-1, 0}, {1, 0}}},
	{"diagonal", [][2]int{{0, 0}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}}},
	{"square", [][2]int{{0, 0}, {0, -1}, {0, 1}, {-1, -1}, {-1, 0}, {-1, 1}, {1, -1}, {1, 0}, {1, 1}}},
}

// Stencils that update their neighbourhoods in any order, under weak parents that each have a part
// of the rows: no cell is ever worked on by two tasks, and all tasks run.
func TestCOM02_Stencils(t *testing.T) {
	const side, rounds = 10, 3
	for _, st := range stencils {
		t.Run(st.name, func(t *testing.T) {
			rt := newTestRuntime(t, Config{Workers: 4})
			var n notes
			var inside [side][side]atomic.Int32
			var cell, want [side][side]int
			at := func(i, j int) (list [][2]int) {
				for _, o := range st.offset {
					if y, x := i+o[0], j+o[1]; y >= 0 && y < side && x >= 0 && x < side {
						list = append(list, [2]int{y, x})
					}
				}
				return list
			}
			access := func(list [][2]int) (accs []deps.Access) {
				for _, c := range list {
					accs = append(accs, deps.Commutative(&cell[c[0]][c[1]]))
				}
				return accs
			}
			body := func(list [][2]int) func(*Task) error {
				return func(t *Task) error {
					for _, c := range list {
						n.check(inside[c[0]][c[1]].Add(1) == 1, "two tasks at %v", c)
						cell[c[0]][c[1]]++
					}
					if len(list)%2 == 0 {
						t.Blocking(func() {})
					}
					for _, c := range list {
						inside[c[0]][c[1]].Add(-1)
					}
					return nil
				}
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for range rounds {
					for top := 0; top < side; top += 2 {
						var all []deps.Access
						for i := top; i < top+2; i++ {
							for j := range side {
								for _, a := range access(at(i, j)) {
									all = append(all, a.Weak())
								}
								for _, c := range at(i, j) {
									want[c[0]][c[1]]++
								}
							}
						}
						t.Spawn(func(t *Task) error {
							for i := top; i < top+2; i++ {
								for j := range side {
									list := at(i, j)
									t.Spawn(body(list), access(list)...)
								}
							}
							return nil
						}, all...)
					}
				}
				return nil
			}))
			n.require(t)
			require.Equal(t, want, cell)
		})
	}
}

// Tasks of a stencil that become ready in order are not run one after the other: those that are
// apart overlap.
func TestCOM02_Overlap(t *testing.T) {
	play(t, `
		spawn W inout(0,1,2,3,4,5,6,7,8,9,10)   | W
		spawn T0 commutative(0,1,2)     | W
		spawn T1 commutative(1,2,3)     | W
		spawn T2 commutative(2,3,4)     | W
		spawn T3 commutative(3,4,5)     | W
		spawn T4 commutative(4,5,6)     | W
		spawn T5 commutative(5,6,7)     | W
		spawn T6 commutative(6,7,8)     | W
		spawn T7 commutative(7,8,9)     | W
		spawn T8 commutative(8,9,10)    | W
		end W                           | T0 T3 T6
		end T3                          | T0 T6
		end T0                          | T1 T6
		end T6                          | T1 T4 T7
		end T1                          | T4 T7
		end T4                          | T2 T7
		end T7                          | T2 T5 T8
	`)
}
