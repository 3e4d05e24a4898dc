// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/race"
)

// Rows RED of docs/conformance.md: reductions.

// RED-01, step by step.
func TestRED01_Steps(t *testing.T) {
	for name, script := range map[string]string{
		"before a reader": `
			spawn S1 sum(x)    | S1
			spawn S2 sum(x)    | S1 S2
			spawn R in(x)      | S1 S2
			add S1 x 3
			add S2 x 4
			end S1             | S2
			value x 0
			end S2             | R
			value x 7`,
		"before a writer": `
			spawn S1 sum(x)    | S1
			spawn W inout(x)   | S1
			spawn S2 sum(x)    | S1 S2
			add S1 x 3
			add S2 x 4
			end S1             | W S2
			value x 3
			end S2             | W
			value x 3
			end W              |
			end main
			value x 7`,
		"after a reader": `
			spawn R1 in(x)     | R1
			spawn S sum(x)     | R1 S
			spawn R2 in(x)     | R1 S
			add S x 5
			end S              | R1
			value x 0
			end R1             | R2
			value x 5`,
		"after a writer": `
			spawn W out(x)     | W
			spawn S1 sum(x)    | W S1
			spawn S2 sum(x)    | W S1 S2
			spawn R in(x)      | W S1 S2
			add S1 x 5
			add S2 x 6
			end S1 S2          | W
			value x 0
			end W              | R
			value x 11`,
		"all at once": `
			spawn S1 sum(x)    | S1
			spawn S2 sum(x)    | S1 S2
			spawn S3 sum(x)    | S1 S2 S3
			spawn S4 sum(x)    | S1 S2 S3 S4
			spawn S5 sum(x)    | S1 S2 S3 S4 S5
			spawn R in(x)      | S1 S2 S3 S4 S5
			add S1 x 1
			add S2 x 10
			add S3 x 100
			add S4 x 1000
			add S1 x 1
			end S1 S2 S3 S4    | S5
			end S5             | R
			value x 1112`,
		"one group": `
			spawn S1 sum(x)    | S1
			add S1 x 1
			end S1             |
			value x 0
			spawn S2 sum(x)    | S2
			add S2 x 1
			end S2             |
			value x 0
			spawn R in(x)      | R
			value x 2`,
		"two groups": `
			spawn S1 sum(x)    | S1
			add S1 x 1
			spawn R1 in(x)     | S1
			spawn S2 sum(x)    | S1 S2
			add S2 x 1
			spawn R2 in(x)     | S1 S2
			end S2             | S1
			value x 0
			end S1             | R1
			value x 1
			end R1             | R2
			value x 2`,
		"two operators": `
			spawn S1 sum(x)    | S1
			spawn M1 max(x)    | S1 M1
			spawn S2 sum(x)    | S1 M1 S2
			add S1 x 5
			most M1 x 9
			add S2 x 2
			end M1 S2          | S1
			value x 0
			end S1             |
			value x 9
			wait main
			value x 11`,
		"beside concurrent": `
			spawn C1 concurrent(x)  | C1
			spawn S1 sum(x)         | C1 S1
			spawn C2 concurrent(x)  | C1 S1
			spawn C3 concurrent(x)  | C1 S1
			add S1 x 5
			end S1                  | C1
			end C1                  | C2 C3
			value x 5`,
		"two objects": `
			spawn S1 sum(x,y)  | S1
			spawn S2 sum(y)    | S1 S2
			spawn RX in(x)     | S1 S2
			spawn RY in(y)     | S1 S2
			add S1 x 1
			add S1 y 2
			add S2 y 4
			end S1             | S2 RX
			value x 1
			end S2             | RX RY
			value y 6`,
		"the other accesses of a participant": `
			spawn W inout(y)         | W
			spawn S sum(x) in(y)     | W
			spawn R in(x)            | W
			end W                    | S
			add S x 1
			end S                    | R
			value x 1`,
		"nothing contributed": `
			spawn S sum(x)     | S
			spawn R in(x)      | S
			end S              | R
			value x 0`,
		"Wait combines": `
			spawn S1 sum(x)    | S1
			spawn S2 sum(y)    | S1 S2
			add S1 x 1
			add S2 y 2
			end S1             | S2
			wait main          | main? S2
			end S2             |
			value x 1
			value y 2
			spawn S3 sum(x)    | S3
			add S3 x 1
			end S3             |
			value x 1
			wait main          |
			value x 2`,
		"WaitOn combines": `
			spawn S1 sum(x)    | S1
			spawn S2 sum(y)    | S1 S2
			spawn T            | S1 S2 T
			add S1 x 1
			add S2 y 2
			waiton main in(x)  | main? S1 S2 T
			end S2             | main? S1 T
			value y 0
			end S1             | T
			value x 1
			value y 0`,
		"undeferred readers combine": `
			spawn S1 sum(x)     | S1
			add S1 x 1
			undeferred R in(x)  | main? S1
			end S1              | main? R
			value x 1
			end R               |`,
		"the end combines": `
			spawn P inout(x)   | P
			spawn P.1 sum(x)   | P P.1
			spawn R in(x)      | P P.1
			add P.1 x 1
			end P.1            | P
			value x 0
			end P              | R
			value x 1`,
		"the end combines later": `
			spawn P weakinout(x)   | P
			spawn P.1 sum(x)       | P P.1
			spawn P.2 sum(x)       | P P.1 P.2
			spawn R in(x)          | P P.1 P.2
			add P.1 x 1
			add P.2 x 1
			end P                  | P.1 P.2
			end P.1                | P.2
			value x 0
			end P.2                | R
			value x 2`,
		"Release combines": `
			spawn P inout(x)    | P
			spawn P.1 sum(x)    | P P.1
			spawn R in(x)       | P P.1
			add P.1 x 1
			release P inout(x)  | P P.1
			end P.1             | P R
			value x 1`,
		"events": `
			spawn S1 sum(x)    | S1
			hold S1            | S1
			add S1 x 1
			spawn R in(x)      | S1
			end S1             |
			value x 0
			event S1           | R
			value x 1`,
		"undeferred participants": `
			undeferred S1 sum(x)  | main? S1
			add S1 x 1
			end S1                |
			undeferred S2 sum(x)  | main? S2
			add S2 x 1
			end S2                |
			value x 0
			wait main             |
			value x 2`,
		"final creators": `
			spawn+final P inout(x)  | P
			spawn P.1 sum(x)        | P? P.1
			add P.1 x 1
			hold P.1
			end P.1                 | P
			spawn P.2 in(x)         | P?
			event P.1               | P? P.2
			value x 1
			end P.2                 | P
			spawn P.3 sum(x)        | P? P.3
			add P.3 x 1
			end P.3                 | P
			end P                   |
			value x 2`,
		"the attribute Wait": `
			spawn+wait P inout(x)   | P
			spawn P.1 sum(x)        | P P.1
			add P.1 x 1
			spawn R in(x)           | P P.1
			end P                   | P.1
			end P.1                 | R
			value x 1`,
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

// RED-01: the initial value is kept, of every operator.
func TestRED01_InitialValue(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	check := func(name string, want, got any) {
		t.Helper()
		require.Equal(t, want, got, name)
	}
	for _, n := range []int{0, 1, 5} { // participants, which contribute 1, 2, ...
		sum, prod, least, most := 100, 3, 2, 4
		and, or, xor := uint8(0b1110), uint8(0b1000), uint8(0b1001)
		all, some := true, false
		fl := -2.5
		rs := []deps.Access{}
		r1 := deps.NewReduction(&sum, deps.Sum[int]())
		r2 := deps.NewReduction(&prod, deps.Prod[int]())
		r3 := deps.NewReduction(&least, deps.Min[int]())
		r4 := deps.NewReduction(&most, deps.Max[int]())
		r5 := deps.NewReduction(&and, deps.And[uint8]())
		r6 := deps.NewReduction(&or, deps.Or[uint8]())
		r7 := deps.NewReduction(&xor, deps.Xor[uint8]())
		r8 := deps.NewReduction(&all, deps.LogicalAnd[bool]())
		r9 := deps.NewReduction(&some, deps.LogicalOr[bool]())
		r10 := deps.NewReduction(&fl, deps.Max[float64]())
		for _, r := range []interface{ Reduce() deps.Access }{r1, r2, r3, r4, r5, r6, r7, r8, r9, r10} {
			rs = append(rs, r.Reduce())
		}
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := 1; i <= n; i++ {
				t.Spawn(func(t *Task) error {
					*Local(t, r1) += i
					*Local(t, r2) *= i
					*Local(t, r3) = min(*Local(t, r3), i)
					*Local(t, r4) = max(*Local(t, r4), i)
					*Local(t, r5) &= uint8(15 - i)
					*Local(t, r6) |= uint8(i)
					*Local(t, r7) ^= uint8(i)
					*Local(t, r8) = *Local(t, r8) && i < 5
					*Local(t, r9) = *Local(t, r9) || i == 5
					*Local(t, r10) = max(*Local(t, r10), -float64(i))
					return nil
				}, rs...)
			}
			return nil
		}))
		what := fmt.Sprintf("%d participants: ", n)
		wantAnd, wantOr, wantXor, fact := uint8(0b1110), uint8(0b1000), uint8(0b1001), 1
		for i := 1; i <= n; i++ {
			wantAnd, wantOr, wantXor, fact = wantAnd&uint8(15-i), wantOr|uint8(i), wantXor^uint8(i), fact*i
		}
		check(what+"Sum", 100+n*(n+1)/2, sum)
		check(what+"Prod", 3*fact, prod)
		check(what+"Min", map[int]int{0: 2, 1: 1, 5: 1}[n], least)
		check(what+"Max", map[int]int{0: 4, 1: 4, 5: 5}[n], most)
		check(what+"And", wantAnd, and)
		check(what+"Or", wantOr, or)
		check(what+"Xor", wantXor, xor)
		check(what+"LogicalAnd", n < 5, all)
		check(what+"LogicalOr", n == 5, some)
		check(what+"Max of floats", map[int]float64{0: -2.5, 1: -1, 5: -1}[n], fl)
	}
}

// RED-10, step by step: a tree takes part in one reduction, by weak accesses and strong ones, and
// other accesses come between.
func TestRED10_NestedSteps(t *testing.T) {
	for name, script := range map[string]string{
		"weak": `
			spawn P weaksum(x)        | P
			spawn P.1 sum(x)          | P P.1
			spawn P.2 weaksum(x)      | P P.1 P.2
			spawn P.2.1 sum(x)        | P P.1 P.2 P.2.1
			spawn Q sum(x)            | P P.1 P.2 P.2.1 Q
			spawn R in(x)             | P P.1 P.2 P.2.1 Q
			add P.1 x 1
			add P.2.1 x 10
			add Q x 100
			end P                     | P.1 P.2 P.2.1 Q
			end Q                     | P.1 P.2 P.2.1
			end P.2.1                 | P.1 P.2
			end P.1                   | P.2
			value x 0
			end P.2                   | R
			value x 111`,
		"strong": `
			spawn W inout(x)          | W
			spawn P sum(x)            | W P
			spawn P.1 sum(x)          | W P P.1
			spawn P.1.1 sum(x)        | W P P.1 P.1.1
			spawn R in(x)             | W P P.1 P.1.1
			add P x 1
			add P.1 x 10
			add P.1.1 x 100
			end P P.1                 | W P.1.1
			end W                     | P.1.1
			value x 0
			end P.1.1                 | R
			value x 111`,
		"a participant waits": `
			spawn P sum(x)            | P
			add P x 1
			spawn P.1 sum(x)          | P P.1
			add P.1 x 10
			wait P                    | P? P.1
			end P.1                   | P
			value x 0
			spawn R in(x)             | P
			add P x 100
			end P                     | R
			value x 111`,
		"other access between": `
			spawn P weaksum(x)        | P
			spawn P.1 sum(x)          | P P.1
			spawn R in(x)             | P P.1
			spawn Q weaksum(x)        | P P.1 Q
			spawn Q.1 sum(x)          | P P.1 Q Q.1
			spawn S in(x)             | P P.1 Q Q.1
			add P.1 x 1
			add Q.1 x 10
			end Q.1 Q                 | P P.1
			end P                     | P.1
			end P.1                   | R
			value x 1
			end R                     | S
			value x 11`,
		"other access between, below": `
			spawn P weakinout(x)      | P
			spawn P.1 sum(x)          | P P.1
			spawn P.2 in(x)           | P P.1
			spawn P.3 sum(x)          | P P.1 P.3
			spawn R in(x)             | P P.1 P.3
			add P.1 x 1
			add P.3 x 10
			end P.3                   | P P.1
			end P                     | P.1
			end P.1                   | P.2
			value x 1
			end P.2                   | R
			value x 11`,
		"under a concurrent parent": `
			spawn C concurrent(x)     | C
			spawn C.1 sum(x)          | C C.1
			spawn C.2 sum(x)          | C C.1 C.2
			spawn R in(x)             | C C.1 C.2
			add C.1 x 1
			add C.2 x 10
			end C.1 C.2 C             | R
			value x 11`,
		"Release of a part": `
			spawn S sum(x)            | S
			spawn S.1 sum(x)          | S S.1
			add S x 1
			add S.1 x 10
			spawn R in(x)             | S S.1
			release S sum(x)          | S S.1
			end S.1                   | S R
			value x 11`,
		"Release of a weak part": `
			spawn P weaksum(x)        | P
			spawn P.1 sum(x)          | P P.1
			add P.1 x 1
			spawn R in(x)             | P P.1
			release P weaksum(x)      | P P.1
			end P.1                   | P R
			value x 1`,
	} {
		t.Run(name, func(t *testing.T) { play(t, script) })
	}
}

// ADD-06: Release and reductions, in any mix: what each reader sees.
func TestADD06_ReleaseAndReductions(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 20 {
			var x, y int
			sx, sy := deps.NewReduction(&x, deps.Sum[int]()), deps.NewReduction(&y, deps.Sum[int]())
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for step := range 20 {
					for i := range 10 {
						t.Spawn(func(t *Task) error {
							*Local(t, sx)++
							*Local(t, sy) += 2
							if i%2 == 0 {
								if err := t.Release(sx.Reduce()); err != nil {
									return err
								}
							}
							t.Spawn(func(t *Task) error { *Local(t, sy)++; return nil }, sy.Reduce())
							return nil
						}, sx.Reduce(), sy.Reduce())
					}
					t.Spawn(func(t *Task) error {
						n.check(x == 10*(step+1) && y == 30*(step+1), "step %d: %d, %d", step, x, y)
						if err := t.Release(deps.In(&x)); err != nil {
							return err
						}
						n.check(y == 30*(step+1), "step %d: %d", step, y)
						return nil
					}, deps.In(&x), deps.In(&y))
				}
				return nil
			}))
			n.require(t)
			require.Equal(t, []int{200, 600}, []int{x, y})
		}
	}
}

// queens counts the ways to place queens in the rows from row on; the bits are attacked fields.
func queens(n, row int, cols, d1, d2 uint) (ways int) {
	if row == n {
		return 1
	}
	for free := ^(cols | d1 | d2) & (1<<n - 1); free != 0; free &= free - 1 {
		bit := free & -free
		ways += queens(n, row+1, cols|bit, (d1|bit)<<1, (d2|bit)>>1)
	}
	return ways
}

// RED-20: nine queens, recursively, without a Wait, final below some depth.
func TestRED20_NineQueens(t *testing.T) {
	const n = 9
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, final := range []int{0, 3, 5, n} {
			ways := 1000
			count := deps.NewReduction(&ways, deps.Sum[int]())
			var place func(t *Task, row int, cols, d1, d2 uint) error
			place = func(t *Task, row int, cols, d1, d2 uint) error {
				if t.InFinal() && row > final {
					*Local(t, count) += queens(n, row, cols, d1, d2)
					return nil
				}
				if row == n {
					*Local(t, count)++
					return nil
				}
				for free := ^(cols | d1 | d2) & (1<<n - 1); free != 0; free &= free - 1 {
					bit := free & -free
					a := Attrs{Final: row >= final}
					t.SpawnWith(a, func(t *Task) error {
						return place(t, row+1, cols|bit, (d1|bit)<<1, (d2|bit)>>1)
					}, count.Reduce())
				}
				return nil
			}
			seen := 0
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error { return place(t, 0, 0, 0, 0) }, count.Reduce().Weak())
				t.Spawn(func(*Task) error { seen = ways; return nil }, deps.In(&ways))
				return nil
			}))
			require.Equal(t, 1352, seen, "workers %d, final from %d", workers, final)
		}
	}
}

// RED-30: 500 groups of 500 participants, one after the other.
func TestRED30_Stress(t *testing.T) {
	groups, members := 500, 500
	if race.Lint { // where each body has a goroutine of its own
		groups, members = 50, 50
	}
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		x := 1
		sum := deps.NewReduction(&x, deps.Sum[int]())
		var n notes
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for g := range groups {
				for range members {
					t.Spawn(func(t *Task) error { *Local(t, sum)++; return nil }, sum.Reduce())
				}
				t.Spawn(func(*Task) error {
					n.check(x == 1+(g+1)*members, "group %d: %d", g, x)
					return nil
				}, deps.In(&x))
			}
			return nil
		}))
		n.require(t)
		require.Equal(t, 1+groups*members, x)
	}
}

// RED-40: what participants capture is their own, of scalars, arrays and slices.
func TestRED40_Captures(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		total := 0
		hist := make([]int, 7)
		sum := deps.NewReduction(&total, deps.Sum[int]())
		bins := deps.NewSliceReduction(hist, deps.Sum[int]())
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			scalar, array := 10, [3]int{1, 2, 3}
			for i := range 100 {
				own, ownArray := scalar, array
				t.Spawn(func(t *Task) error {
					own += i
					ownArray[i%3] += own
					*Local(t, sum) += ownArray[0] + ownArray[1] + ownArray[2]
					h := Local(t, bins)
					for k := range h {
						h[k] += own * k
					}
					return nil
				}, sum.Reduce(), bins.Reduce())
			}
			scalar, array[0] = 0, 0
			return nil
		}))
		require.Equal(t, 100*(6+10)+4950, total)
		for k := range hist {
			require.Equal(t, k*(100*10+4950), hist[k])
		}
	}
}
