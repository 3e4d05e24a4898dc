// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

var modes = map[string]Mode{
	"in": chain.ModeIn, "out": chain.ModeOut, "inout": chain.ModeInOut, "concurrent": chain.ModeConcurrent,
	"reduce": chain.ModeReduce, "commutative": chain.ModeCommutative,
}

// program makes the tasks of a text: a line for each, "name access ...", with the parent's name
// before a point. An access is to an object, in(4) or in(4-8), or to a range, in[4-8].
func program(t *testing.T, text string) map[string]*Task {
	t.Helper()
	tasks := map[string]*Task{"": {}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		var list []Access
		for _, w := range words[1:] {
			var a Access
			w, a.Weak = strings.CutPrefix(w, "weak")
			at := strings.IndexAny(w, "([")
			known := false
			a.Mode, known = modes[w[:at]]
			require.True(t, known, w)
			a.Object = w[at] == '('
			if n, _ := fmt.Sscanf(w[at+1:], "%d-%d", &a.Lo, &a.Hi); n == 1 {
				a.Hi = a.Lo + 1
			}
			list = append(list, a)
		}
		parent := ""
		if at := strings.LastIndex(words[0], "."); at >= 0 {
			parent = words[0][:at]
		}
		require.NotNil(t, tasks[parent], words[0])
		tasks[words[0]] = tasks[parent].Child(list)
	}
	return tasks
}

// Before visits each predecessor of the last task, and what precedes it and is not implied.
func TestBefore(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"no predecessor":                    {"a out(1)\nb out(2)", ""},
		"a writer":                          {"a out(1)\nb in(1)", "a"},
		"readers go together":               {"a out(1)\nb in(1)\nc in(1)", "a"},
		"a writer after readers":            {"a out(1)\nb in(1)\nc in(1)\nd inout(1)", "a b c"},
		"one writer implies the one before": {"a out(1)\nb out(1)\nc in(1)", "b"},
		"a run":                             {"a out(1)\nb concurrent(1)\nc concurrent(1)", "a"},
		"after a run":                       {"a out(1)\nb concurrent(1)\nc concurrent(1)\nd in(1)", "a b c"},
		"two runs":                          {"a concurrent(1)\nb commutative(1)\nc concurrent(1)", "a b"},
		"a reduction does not wait":         {"a out(1)\nb reduce(1)", ""},
		"a reader after a reduction":        {"a out(1)\nb reduce(1)\nc in(1)", "a b"},
		"a weak access passes tokens on":    {"a out(1)\nb weakinout(1)\nc in(1)", "a b"},
		"a weak access does not wait":       {"a out(1)\nb weakin(1)", ""},
		"a weak access beside a strong Commutative is strong":  {"a out(1)\nb weakin(1) commutative(2)", "a"},
		"but not beside one that is combined":                  {"a out(1)\nb weakin(1) commutative(2) in(2)", ""},
		"two of one task are one":                              {"a in(1)\nb in(1) out(1)", "a"},
		"children":                                             {"a inout(1)\na.b in(1)\na.c inout(1)", "a.b"},
		"the successor of a parent follows its children":       {"a inout(1)\na.b inout(1)\nc in(1)", "a a.b"},
		"a child of a weak parent follows the tasks before it": {"a out(1)\nb weakinout(1)\nb.c in(1)", "a"},
		"a child of a strong parent does not":                  {"a out(1)\nb inout(1)\nb.c in(1)", ""},
		"a child in the parent's run":                          {"a out(1)\nb weakconcurrent(1)\nc weakconcurrent(1)\nc.d concurrent(1)", "a"},
		"a child that reads below a run":                       {"a concurrent(1)\nb weakconcurrent(1)\nb.d in(1)", "a"},
		"under a holder Commutative is InOut":                  {"a commutative(1)\na.b commutative(1)\na.c commutative(1)", "a.b"},
		"a holder's children do not wait for the run":          {"a commutative(1)\nb commutative(1)\nb.c in(1)", ""},
		"an object that no parent declares orders nothing":     {"a\na.b out(1)\nc out(1)", ""},

		"objects are known by their addresses":         {"a out(0-8)\nb in(4)", ""},
		"ranges by their bytes":                        {"a out[0-8]\nb in[4-5]", "a"},
		"so are objects among ranges":                  {"a out[0-8]\nb in(4)", "a"},
		"parts":                                        {"a out[0-4]\nb out[4-8]\nc in[2-3]", "a"},
		"all of them":                                  {"a out[0-4]\nb out[4-8]\nc in[2-6]", "a b"},
		"a range of no bytes is none":                  {"a out[4-4]\nb in[4-4]\nc in(4)", ""},
		"an object before the first range is whole":    {"a in(0-8)\na.b in(0-8)\nc out[6-8]", "a a.b"},
		"children of a part":                           {"a out[0-8]\na.b out[0-4]\na.c out[4-8]\nd in[0-2]", "a a.b"},
		"the other bytes wait for the parent":          {"z out[0-8]\na weakinout[0-8]\na.b out[0-4]\nd in[6-8]", "a z"},
		"a child of two parts":                         {"z out[0-4]\ny out[4-8]\na weakinout[0-8]\na.b in[3-5]", "y z"},
		"objects that overlap, and a range":            {"a out(0-8)\nb out(4-8)\nc in[5-6]", "a b"},
		"a part of a declaration is held":              {"p commutative[0-4]\np.a commutative[2-6]\np.b commutative[3-5]", "p.a"},
		"and the other part is a run":                  {"p commutative[0-4]\np.a commutative[4-6]\np.b commutative[4-5]", ""},
		"combined where they overlap":                  {"a in[0-4]\nb in[0-4] out[2-6]\nc in[5-6]", "b"},
		"a task of ranges has children of such":        {"a inout[0-8]\na.b out(0-4)\na.c in(2)", "a.b"},
		"and so has one among such, if it uses memory": {"z in[9-10]\na inout(0-8)\na.b out(0-4)\na.c in(2)", "a.b"},
		"else not": {"z in[9-10]\na\na.b out(0-4)\na.c in(2)", ""},
	} {
		tasks := program(t, row.text)
		last := row.text[strings.LastIndex(row.text, "\n")+1:]
		last, _, _ = strings.Cut(last, " ")
		names := map[*Task]string{}
		for n, x := range tasks {
			names[x] = n
		}
		var got []string
		tasks[last].Before(func(u *Entry, lo, hi uintptr) bool {
			require.True(t, u.Lo <= lo && lo < hi && hi <= u.Hi, "%s: bytes %d to %d of %d to %d", name, lo, hi, u.Lo, u.Hi)
			got = append(got, names[u.Task])
			return true
		})
		slices.Sort(got)
		assert.Equal(t, row.want, strings.Join(slices.Compact(got), " "), name)
	}
}

// A walk does not pass an access that is not given up: what precedes it is not visited.
func TestBeforeStops(t *testing.T) {
	tasks := program(t, "a out(1)\nb weakin(1)\nc weakin(1)\nd inout(1)")
	for _, row := range []struct {
		released string
		asked    []string
	}{{"", []string{"c"}}, {"c", []string{"c", "b"}}, {"cb", []string{"c", "b", "a"}}} {
		var asked []string
		tasks["d"].Before(func(u *Entry, _, _ uintptr) bool {
			for n, x := range tasks {
				if x == u.Task {
					asked = append(asked, n)
					return strings.Contains(row.released, n)
				}
			}
			return false
		})
		require.Equal(t, row.asked, asked, "given up by %q", row.released)
	}
}

// Below visits the entries that overlap the bytes, and no others.
func TestBelow(t *testing.T) {
	tasks := program(t, "a inout[0-8]\na.b weakinout[0-4]\na.b.c inout[0-1]\na.d out[4-8]\ne in[0-8]")
	for _, row := range []struct {
		lo, hi uintptr
		want   string
	}{{0, 8, "a.b a.b.c a.d"}, {0, 1, "a.b a.b.c"}, {1, 4, "a.b"}, {5, 6, "a.d"}} {
		var got []string
		tasks["a"].Entries[0].Below(row.lo, row.hi, func(u *Entry, _, _ uintptr) bool {
			for n, x := range tasks {
				if x == u.Task {
					got = append(got, n)
				}
			}
			return true
		})
		slices.Sort(got)
		require.Equal(t, row.want, strings.Join(slices.Compact(got), " "), "%d to %d", row.lo, row.hi)
	}
}

// Of keeps the meaning of an access of package deps.
func TestOf(t *testing.T) {
	var x [4]int64
	at, _, _ := chain.Object(&x, chain.ModeIn).Memory()
	whole, part := chain.Object(&x, chain.ModeOut), chain.Slice(x[1:3]).Access(chain.ModeCommutative).Weak()
	require.Equal(t, Access{at, at + 32, true, chain.ModeOut, false, whole}, Of(whole))
	require.Equal(t, Access{at + 8, at + 24, false, chain.ModeCommutative, true, part}, Of(part))
}

// The cost of a child does not depend on the number of pieces of its siblings.
func TestCostOfAChild(t *testing.T) {
	costs := func(pieces int) float64 {
		parent := new(Task)
		child := func(i int) *Task {
			at := uintptr(8 * i)
			return parent.Child([]Access{{Lo: at, Hi: at + 8, Mode: chain.ModeInOut}})
		}
		for i := range pieces {
			child(i)
		}
		return testing.AllocsPerRun(10, func() {
			child(pieces / 2).Before(func(*Entry, uintptr, uintptr) bool { return true })
		})
	}
	require.Equal(t, costs(3), costs(3000))
}
