// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// A Pattern names which points of the previous step a task depends on. The names and the sets are
// Task Bench's.
type Pattern string

// The patterns.
const (
	Trivial           Pattern = "trivial"             // no dependences
	NoComm            Pattern = "no_comm"             // the same point
	Stencil1D         Pattern = "stencil_1d"          // the same point and its neighbours
	Stencil1DPeriodic Pattern = "stencil_1d_periodic" // the same on a ring
	// each point has two successors, until the width is reached
	Tree Pattern = "tree"
	// butterflies: the same point and those a power of two away
	FFT           Pattern = "fft"
	AllToAll      Pattern = "all_to_all"     // all points
	Nearest       Pattern = "nearest"        // radix points around the same point
	Spread        Pattern = "spread"         // radix points, far from each other
	RandomNearest Pattern = "random_nearest" // a random part of nearest
)

// Patterns returns all patterns.
func Patterns() []Pattern {
	return []Pattern{Trivial, NoComm, Stencil1D, Stencil1DPeriodic, Tree, FFT, AllToAll, Nearest, Spread, RandomNearest}
}

// ParsePatterns returns the patterns of a comma-separated list; all stands for all of them.
func ParsePatterns(list string) ([]Pattern, error) {
	if list == "all" {
		return Patterns(), nil
	}
	var out []Pattern
	for name := range strings.SplitSeq(list, ",") {
		p := Pattern(strings.TrimSpace(name))
		if !slices.Contains(Patterns(), p) {
			return nil, unknownPattern(p)
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

func unknownPattern(p Pattern) error {
	return fmt.Errorf("no pattern %q: there are %s", p, joined(Patterns()))
}

// A Config describes a graph. The zero value of all but Pattern, Width and Steps means the default.
type Config struct {
	Pattern  Pattern
	Width    int     // points of a step, at most
	Steps    int     // rows of tasks
	Radix    int     // nearest, spread, random_nearest: dependences of a task, at most; default 3
	Period   int     // spread, random_nearest: sets of dependences that take turns; default 3
	Fraction float64 // random_nearest: share of the nearest points; default 0.25
}

// Task Bench's defaults.
const (
	DefaultRadix    = 3
	DefaultPeriod   = 3
	DefaultFraction = 0.25
)

// Bounds that prevent a typing error from filling the memory.
const (
	maxWidth = 4096
	maxTasks = 50_000_000
)

// normalize fills in defaults and reports every problem.
func (c Config) normalize() (Config, error) {
	if c.Radix == 0 {
		c.Radix = min(DefaultRadix, max(1, c.Width))
	}
	if c.Period == 0 {
		c.Period = DefaultPeriod
		if c.Pattern == Spread && c.Width > 0 && c.Radix > 0 {
			c.Period = min(c.Period, c.spacing())
		}
	}
	if c.Fraction == 0 {
		c.Fraction = DefaultFraction
	}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if !slices.Contains(Patterns(), c.Pattern) {
		bad("%w", unknownPattern(c.Pattern))
	}
	if c.Width < 1 || c.Width > maxWidth {
		bad("width %d: 1 to %d", c.Width, maxWidth)
	}
	if c.Steps < 1 || c.Steps > maxTasks/max(1, c.Width) {
		bad("steps %d: at least 1, and steps × width at most %d", c.Steps, maxTasks)
	}
	if c.Radix < 1 || c.Radix > max(1, c.Width) {
		bad("radix %d: 1 to the width, %d", c.Radix, c.Width)
	}
	if c.Period < 1 {
		bad("period %d: at least 1", c.Period)
	} else if c.Pattern == Spread && c.Width > 0 && c.Radix > 0 && c.Period > c.spacing() {
		bad("period %d: at most %d for spread with this width and radix, since two dependences would be the same point", c.Period, c.spacing())
	}
	if !(c.Fraction >= 0 && c.Fraction <= 1) {
		bad("fraction %g: 0 to 1", c.Fraction)
	}
	return c, errors.Join(problems...)
}

// spacing returns the distance between the dependences of spread, which is also the greatest shift.
func (c *Config) spacing() int { return (c.Width + c.Radix - 1) / c.Radix }

func joined[T ~string](list []T) string {
	var names []string
	for _, p := range list {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// active returns the points of a step: the first, and their number.
func (c *Config) active(step int) (first, count int) {
	switch {
	case step < 0:
		return 0, 0
	case c.Pattern == Tree && step < bits.Len(uint(c.Width)):
		return 0, min(c.Width, 1<<step)
	default:
		return 0, c.Width
	}
}

// sets returns the number of sets of dependences that take turns.
func (c *Config) sets() int {
	switch c.Pattern {
	case FFT:
		return max(1, bits.Len(uint(c.Width-1))) // log₂ of the width, rounded up
	case Spread, RandomNearest:
		return c.Period
	default:
		return 1
	}
}

// set returns the number of the set of dependences that a step has.
func (c *Config) set(step int) int {
	n := c.sets()
	if c.Pattern == FFT {
		// step 1 is the first with dependences, and has neighbours at distance 1
		return (step + n - 1) % n
	}
	return step % n
}

// dependencies returns the points of the previous step that a point depends on in a set, in rising
// order, whether the previous step has them or not.
func (c *Config) dependencies(set, point int) []int {
	switch c.Pattern {
	case Trivial:
		return nil
	case NoComm:
		return []int{point}
	case Tree:
		return []int{point / 2}
	case Nearest:
		return c.span(point-c.Radix/2, point+(c.Radix-1)/2)
	case RandomNearest:
		return slices.DeleteFunc(c.span(point-c.Radix/2, point+(c.Radix-1)/2), func(from int) bool { return !c.connected(set, from, point) })
	case Spread:
		return c.spread(set, point, +1)
	default:
		return c.symmetric(set, point)
	}
}

// dependents returns the points of the next step that depend on a point in a set: the reverse of
// dependencies.
func (c *Config) dependents(set, point int) []int {
	switch c.Pattern {
	case Trivial:
		return nil
	case NoComm:
		return []int{point}
	case Tree:
		return c.span(2*point, 2*point+1)
	case Nearest:
		return c.span(point-(c.Radix-1)/2, point+c.Radix/2)
	case RandomNearest:
		return slices.DeleteFunc(c.span(point-(c.Radix-1)/2, point+c.Radix/2), func(to int) bool { return !c.connected(set, point, to) })
	case Spread:
		return c.spread(set, point, -1)
	default:
		return c.symmetric(set, point)
	}
}

// symmetric returns the dependences, and so the dependents, in the patterns where both are the
// same.
func (c *Config) symmetric(set, point int) []int {
	switch c.Pattern {
	case AllToAll:
		return c.span(0, c.Width-1)
	case FFT:
		return c.inside(point-1<<set, point, point+1<<set)
	case Stencil1DPeriodic:
		return c.inside((point+c.Width-1)%c.Width, point, (point+1)%c.Width)
	default: // Stencil1D
		return c.span(point-1, point+1)
	}
}

// spread returns the points at equal distances around the ring, all but the first shifted by the
// number of the set.
func (c *Config) spread(set, point, direction int) []int {
	var list []int
	for i := range c.Radix {
		shift := i * c.Width / c.Radix
		if i > 0 {
			shift += set
		}
		list = append(list, ((point+direction*shift)%c.Width+c.Width)%c.Width)
	}
	return c.inside(list...)
}

// span returns the points from first to last that exist.
func (c *Config) span(first, last int) []int {
	var list []int
	for p := max(0, first); p <= min(last, c.Width-1); p++ {
		list = append(list, p)
	}
	return list
}

// inside returns the given points that exist, in order and each once.
func (c *Config) inside(points ...int) []int {
	points = slices.DeleteFunc(points, func(p int) bool { return p < 0 || p >= c.Width })
	slices.Sort(points)
	return slices.Compact(points)
}

// connected draws whether a point depends on a near one. It always depends on itself.
func (c *Config) connected(set, from, to int) bool {
	return from == to || uniform(uint64(set), uint64(from), uint64(to)) < c.Fraction
}

// uniform returns a number from 0 up to 1 that depends only on its arguments.
// bench/peers/taskbench.h has the same function.
func uniform(values ...uint64) float64 {
	var h uint64
	for _, v := range values { // the output function of splitmix64, once for each value
		h += v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return float64(h>>11) / (1 << 53)
}
