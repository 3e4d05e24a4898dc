// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// reads is a second definition of the patterns, one pair of points at a time: whether the point
// `to` of a step depends on the point `from` of the step before. It shares only the random numbers
// of random_nearest with pattern.go.
func reads(c Config, step, from, to int) bool {
	w, r := c.Width, c.Radix
	near := to-r/2 <= from && from <= to+(r-1)/2
	switch c.Pattern {
	case NoComm:
		return from == to
	case Stencil1D:
		return math.Abs(float64(from-to)) <= 1
	case Stencil1DPeriodic:
		d := (from - to + w) % w
		return d == 0 || d == 1 || d == w-1
	case Tree:
		return from == to/2
	case FFT:
		levels := 0
		for 1<<levels < w {
			levels++
		}
		levels = max(levels, 1)
		distance := 1 << ((step + levels - 1) % levels)
		return from == to || from == to-distance || from == to+distance
	case AllToAll:
		return true
	case Nearest:
		return near
	case RandomNearest:
		return near && (from == to || uniform(uint64(step%c.Period), uint64(from), uint64(to)) < c.Fraction)
	case Spread:
		for i := range r {
			at := to + i*w/r
			if i > 0 {
				at += step % c.Period
			}
			if at%w == from {
				return true
			}
		}
	}
	return false
}

// exists is a second definition of the points of a step.
func exists(c Config, step, p int) bool {
	if step < 0 || step >= c.Steps || p < 0 || p >= c.Width {
		return false
	}
	if c.Pattern == Tree { // doubles in every step
		n := 1
		for range step {
			n = min(2*n, c.Width)
		}
		return p < n
	}
	return true
}

// configs returns small graphs of all patterns.
func configs(t *testing.T) []Config {
	t.Helper()
	var out []Config
	for _, p := range Patterns() {
		for width := 1; width <= 9; width++ {
			for _, steps := range []int{1, 2, width + 4} {
				for _, radix := range []int{0, 1, 4, width} {
					c := Config{Pattern: p, Width: width, Steps: steps, Radix: min(radix, width)}
					if radix > 0 && p != Nearest && p != Spread && p != RandomNearest {
						continue
					}
					c, err := c.normalize()
					require.NoError(t, err)
					out = append(out, c)
				}
			}
		}
	}
	wide, err := Config{Pattern: FFT, Width: 64, Steps: 20}.normalize()
	require.NoError(t, err)
	return append(out, wide)
}

func TestPatternsAreAsDefined(t *testing.T) {
	for _, c := range configs(t) {
		g, err := NewGraph(c)
		require.NoError(t, err)
		var tasks, edges int64
		for step := range c.Steps {
			for p := range c.Width {
				name := fmt.Sprintf("%+v step %d point %d", c, step, p)
				require.Equal(t, exists(c, step, p), g.has(step, p), name)
				if !exists(c, step, p) {
					continue
				}
				tasks++
				var want []int32
				for from := range c.Width {
					if exists(c, step-1, from) && reads(c, step, from, p) {
						want = append(want, int32(from))
						require.Contains(t, c.dependents(c.set(step), from), p, name)
					}
				}
				edges += int64(len(want))
				s := g.steps[step]
				require.Equal(t, want, s.points[p-s.first].inputs, name)
				require.Equal(t, want, s.points[p-s.first].needs, name)
			}
		}
		require.Equal(t, tasks, g.Tasks)
		require.Equal(t, edges, g.edges())
	}
}

// The edges for systems without accesses order every two tasks that touch the same output if one of
// them writes. Every edge is between such tasks.
func TestFollowsIsWhatAccessesWouldGive(t *testing.T) {
	type id struct{ step, point int }
	for _, c := range configs(t) {
		if c.Width > 9 {
			continue
		}
		g, err := NewGraph(c)
		require.NoError(t, err)
		var order []id
		number := map[id]int{}
		g.each(func(step, p int, _ *point) {
			number[id{step, p}] = len(order)
			order = append(order, id{step, p})
		})
		conflict := func(a, b id) bool { // a is older
			switch b.step - a.step {
			case 1:
				// b reads what a writes, or writes what a reads: the output of its own point two
				// steps before
				return reads(c, b.step, a.point, b.point) || a.step > 0 && exists(c, a.step-1, b.point) && reads(c, a.step, b.point, a.point)
			case 2:
				return a.point == b.point
			}
			return false
		}
		before := make([]map[int]bool, len(order)) // transitive
		g.each(func(step, p int, self *point) {
			me := id{step, p}
			all := map[int]bool{}
			add := func(o id) {
				n, ok := number[o]
				require.True(t, ok)
				require.True(t, conflict(o, me), "%+v: %v need not follow %v", c, me, o)
				all[n] = true
				for k := range before[n] {
					all[k] = true
				}
			}
			for _, f := range self.follows {
				add(id{step - 1, int(f)})
			}
			if self.older {
				add(id{step - 2, p})
			}
			for n, o := range order[:number[me]] {
				if conflict(o, me) {
					require.True(t, all[n], "%+v: %v must follow %v", c, me, o)
				}
			}
			before[number[me]] = all
		})
	}
}

func TestConfigSaysEverythingThatIsWrong(t *testing.T) {
	_, err := NewGraph(Config{Pattern: "ring", Width: 0, Steps: 0, Radix: -1, Period: -1, Fraction: 2})
	for _, says := range []string{`"ring"`, "stencil_1d", "width 0: 1 to", "steps 0", "radix -1", "period -1", "fraction 2"} {
		require.ErrorContains(t, err, says)
	}
	for _, c := range []struct {
		Config
		says string
	}{
		{Config{Pattern: Spread, Width: 8, Steps: 1, Radix: 4, Period: 3}, "at most 2"},
		{Config{Pattern: Nearest, Width: 8, Steps: 1, Radix: 9}, "1 to the width, 8"},
		{Config{Pattern: Trivial, Width: maxWidth + 1, Steps: 1}, "width"},
		{Config{Pattern: Trivial, Width: 1000, Steps: 1_000_000}, "at most 50000000"},
		{Config{Pattern: Trivial, Width: 1, Steps: 1, Fraction: math.NaN()}, "fraction"},
	} {
		_, err := NewGraph(c.Config)
		require.ErrorContains(t, err, c.says)
	}
	g, err := NewGraph(Config{Pattern: Spread, Width: 4, Steps: 1})
	require.NoError(t, err)
	require.Equal(t, []any{3, 2}, []any{g.Radix, g.Period}, "defaults are made legal")
}

func TestParsePatterns(t *testing.T) {
	all, err := ParsePatterns("all")
	require.NoError(t, err)
	require.Equal(t, Patterns(), all)
	two, err := ParsePatterns("fft, tree,fft")
	require.NoError(t, err)
	require.Equal(t, []Pattern{FFT, Tree}, two)
	for _, bad := range []string{"", "fft,", "Tree"} {
		_, err = ParsePatterns(bad)
		require.ErrorContains(t, err, "no_comm", bad)
	}
}
