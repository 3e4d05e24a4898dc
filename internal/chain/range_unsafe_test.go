// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

func TestSliceAccess(t *testing.T) {
	s := make([]int32, 10)
	type named []int32
	for _, c := range []struct {
		a    chain.Access
		mode chain.Mode
		name string
	}{
		{chain.Slice(s[2:5]).In(), chain.ModeIn, "In"},
		{chain.Slice(s[2:5]).Out(), chain.ModeOut, "Out"},
		{chain.Slice(named(s)[2:5]).InOut(), chain.ModeInOut, "InOut"},
		{chain.Slice(s[2:5]).Concurrent(), chain.ModeConcurrent, "Concurrent"},
	} {
		require.Equal(t, c.mode, c.a.Mode())
		require.False(t, c.a.IsWeak())
		require.True(t, c.a.Weak().IsWeak())
		require.Equal(t, fmt.Sprintf("Slice(%p, 12 bytes).%s()", &s[2], c.name), c.a.String())
		require.Equal(t, fmt.Sprintf("Slice(%p, 12 bytes).%s().Weak()", &s[2], c.name), c.a.Weak().String())
		lo, hi, slice := c.a.Memory()
		require.Equal(t, []any{uintptr(unsafe.Pointer(&s[2])), uintptr(12), true}, []any{lo, hi - lo, slice})
	}
	_, _, slice := chain.In(&s[0]).Memory()
	require.False(t, slice)
	require.True(t, chain.In(&s[3]).Meets(chain.Slice(s[:4]).Out()))
	require.False(t, chain.In(&s[4]).Meets(chain.Slice(s[:4]).Out()))
	require.False(t, chain.Slice(s[2:2]).In().Meets(chain.Slice(s[:4]).Out()), "an empty slice meets nothing")
	require.Equal(t, uintptr(16), unsafe.Sizeof(chain.Access{}))
}

func TestSliceRefused(t *testing.T) {
	require.PanicsWithValue(t,
		"deps: access to a slice of zero-size elements ([]struct {}): it has no memory that a task could use",
		func() { chain.Slice(make([]struct{}, 3)) })
	require.NotPanics(t, func() { chain.Slice([]int(nil)) })
}

// An empty slice is no access, and does not turn a domain into one of ranges.
func TestSliceEmpty(t *testing.T) {
	var root, a, b, c chain.Node
	var f chain.Flow
	x := make([]int, 3)
	empty := []chain.Access{chain.Slice([]int(nil)).Out(), chain.Slice(x[1:1]).InOut().Weak()}
	require.True(t, root.Register(&a, append(empty, chain.InOut(&x[1])), &f))
	require.True(t, root.Register(&b, empty, &f))
	require.False(t, root.Register(&c, append([]chain.Access{chain.InOut(&x[1])}, empty...), &f))
	require.False(t, chain.HasRanges(&root))
	require.Equal(t, 1, a.Accesses())
	require.Equal(t, 0, b.Accesses())
	require.NoError(t, a.Release(empty[0], &f))
	b.Finish(&f)
	require.True(t, b.Retire())
	a.Finish(&f)
	require.True(t, f.NextReady() == &c)
}

// The unit of ordering is the byte, whatever the elements are.
func TestRangeBytes(t *testing.T) {
	var s struct {
		a [3]byte
		b uint16
		c [4]int64
	}
	var root chain.Node
	var m nodes
	w := m.spawn(&root, chain.Slice(s.a[:]).InOut())
	m.spawn(&root, chain.InOut(&s.b))
	m.spawn(&root, chain.Slice(s.c[:]).InOut())
	require.Len(t, m.run, 3, "neighbours")
	m.run = nil
	one := m.spawn(&root, chain.In(&s.a[2]))
	all := m.spawn(&root, chain.Slice(unsafe.Slice((*byte)(unsafe.Pointer(&s)), unsafe.Sizeof(s))).In())
	last := m.spawn(&root, chain.Slice(s.c[3:]).In())
	require.Empty(t, m.run)
	m.end(w)
	require.Equal(t, []*chain.Node{one}, m.run)
	_, _ = all, last
}

// Refused calls and their messages.
func TestRangeMessages(t *testing.T) {
	var root, parent chain.Node
	var f chain.Flow
	x := make([]byte, 12)
	at := func(i int) string { return fmt.Sprintf("%p", &x[i]) }
	require.True(t, root.Register(&parent, []chain.Access{chain.Slice(x[0:8]).InOut(), chain.In((*[2]byte)(x[8:10]))}, &f))
	require.Equal(t, 2, parent.Accesses())
	for _, c := range []struct {
		a    chain.Access
		want string
	}{
		{chain.Slice(x[6:10]).InOut(), "deps: Release of Slice(" + at(6) + ", 4 bytes).InOut(): the task has declared In() for bytes 2 to 4 of it"},
		{chain.Slice(x[6:8]).In(), "deps: Release of Slice(" + at(6) + ", 2 bytes).In(): the task has declared InOut() for bytes 0 to 2 of it"},
		{chain.Slice(x[8:10]).In().Weak(), "deps: Release of Slice(" + at(8) + ", 2 bytes).In().Weak(): the task has declared In() for bytes 0 to 2 of it"},
		{chain.Slice(x[8:12]).In(), "deps: Release of Slice(" + at(8) + ", 4 bytes).In(): the task has not declared bytes 2 to 4 of it"},
		{chain.InOut(&x[11]), "deps: Release of InOut(" + at(11) + "): the task has not declared bytes 0 to 1 of it"},
		{chain.Access{}, "deps: Release of In(0x0): the task has not declared an access to this object"},
	} {
		require.EqualError(t, parent.Release(c.a, &f), c.want)
	}
	require.NoError(t, parent.Release(chain.Slice(x[2:4]).Out(), &f))
	require.EqualError(t, parent.Release(chain.Slice(x[3:5]).InOut(), &f),
		"deps: Release of Slice("+at(3)+", 2 bytes).InOut(): the task has given it up before, or a part of it")
	var child chain.Node
	require.PanicsWithValue(t, "deps: a child accesses Slice("+at(0)+", 3 bytes).In(), which its parent has given up by Release, or a part of it",
		func() { parent.Register(&child, []chain.Access{chain.In(&x[9]), chain.Slice(x[0:3]).In()}, &f) })
	require.PanicsWithValue(t, "deps: the zero Access names no object; use In, Out, InOut, Concurrent or Commutative",
		func() { parent.Register(&child, []chain.Access{chain.Slice(x[0:1]).In(), {}}, &f) })

	// In a domain of objects only objects can be given up.
	var other, task chain.Node
	require.True(t, other.Register(&task, []chain.Access{chain.InOut(&x)}, &f))
	require.ErrorContains(t, task.Release(chain.Slice(x).InOut(), &f), "the task has declared no range")
}

// A program of objects allocates nothing of ranges, however large its objects are.
func TestObjectsOnly(t *testing.T) {
	var root chain.Node
	var f chain.Flow
	var small [16]int
	nodes := make([]chain.Node, 16)
	for i := range nodes {
		root.Register(&nodes[i], []chain.Access{chain.InOut(&small[i%4]), chain.In(&small[5]), chain.InOut(&small).Weak()}, &f)
		var kid chain.Node
		nodes[i].Register(&kid, []chain.Access{chain.In(&small[5])}, &f)
		require.False(t, chain.HasRanges(&nodes[i]))
	}
	require.False(t, chain.HasRanges(&root))
	for i := range nodes {
		nodes[i].Finish(&f)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		root.Register(&nodes[0], []chain.Access{chain.In(&small[7])}, &f)
		nodes[0].Finish(&f)
	}))
	require.False(t, chain.HasRanges(&root))
	require.True(t, chain.NoMessages(&f), "not even room for messages")
}

// A chain knows its size to the byte, also near the limit from which sizes are stored elsewhere.
func TestSizes(t *testing.T) {
	const sizeB = 1<<24 - 64 // the largest in units
	buf := make([]byte, 1<<24+1)
	p := unsafe.Pointer(unsafe.SliceData(buf))
	for size, x := range map[int]chain.Access{
		1:         chain.InOut((*[1]byte)(p)),
		1<<16 - 1: chain.InOut((*[1<<16 - 1]byte)(p)),
		1 << 16:   chain.InOut((*[1 << 16]byte)(p)),
		1<<20 - 2: chain.InOut((*[1<<20 - 2]byte)(p)),
		1<<20 - 1: chain.InOut((*[1<<20 - 1]byte)(p)),
		1 << 20:   chain.InOut((*[1 << 20]byte)(p)),
		1<<20 + 1: chain.InOut((*[1<<20 + 1]byte)(p)),
		1<<19 - 1: chain.InOut((*[1<<19 - 1]byte)(p)),
		1 << 19:   chain.InOut((*[1 << 19]byte)(p)),
		1<<19 + 1: chain.InOut((*[1<<19 + 1]byte)(p)),
		1 << 21:   chain.InOut((*[1 << 21]byte)(p)),
		sizeB - 1: chain.InOut((*[sizeB - 1]byte)(p)),
		sizeB:     chain.InOut((*[sizeB]byte)(p)),
		sizeB + 1: chain.InOut((*[sizeB + 1]byte)(p)),
		1<<24 - 1: chain.InOut((*[1<<24 - 1]byte)(p)),
		1 << 24:   chain.InOut((*[1 << 24]byte)(p)),
	} {
		for _, c := range []struct {
			lo, hi int
			waits  bool
		}{{0, 1, true}, {size - 1, size, true}, {size - 1, len(buf), true}, {size, size + 1, false}} {
			var root chain.Node
			var m nodes
			m.spawn(&root, x)
			m.run = nil
			m.spawn(&root, chain.Slice(buf[c.lo:c.hi]).In())
			require.Equal(t, c.waits, len(m.run) == 0, "%d bytes, %v", size, c)
		}
	}
}

// The sizes of objects of 16 MiB and more are stored in the domain, exactly.
func TestLargeObjects(t *testing.T) {
	type large [20 << 20]byte
	buf := make([]byte, 40<<20+5)
	a, b := (*large)(buf), (*large)(buf[20<<20:])
	for _, c := range []struct {
		lo, hi int
		want   string
	}{
		{0, 1, "a"},
		{20<<20 - 1, 20 << 20, "a"},
		{20 << 20, 20<<20 + 1, "b"},
		{20<<20 - 1, 20<<20 + 1, "ab"},
		{40<<20 - 1, 40<<20 + 5, "b"},
		{40 << 20, 40<<20 + 5, ""},
	} {
		var root chain.Node
		var m nodes
		m.spawn(&root, chain.InOut((*[4]byte)(buf))) // a chain with variables of two sizes
		m.run = nil
		na := m.spawn(&root, chain.InOut(a), chain.InOut(a))
		require.Empty(t, m.run)
		nb := m.spawn(&root, chain.InOut(b))
		m.run = nil
		n := m.spawn(&root, chain.Slice(buf[c.lo:c.hi]).In())
		require.Equal(t, c.want == "", len(m.run) == 1, "%v", c)
		_, _, _ = na, nb, n
	}
	// The notes of sizes do not grow with the number of objects.
	var root chain.Node
	var m nodes
	for i := range 2000 {
		m.end(m.spawn(&root, chain.In((*large)(buf[i:]))))
	}
	require.LessOrEqual(t, chain.LargeObjects(&root), 200)
}

// playRanges runs a script of steps and of the tasks that run afterwards, without the model:
//
//	spawn NAME ACCESS... | RUNNING...
//	end NAME... | RUNNING...
//	release NAME ACCESS | RUNNING...
//
// An access is in[2:5] for a range of bytes, in(0..4) for a variable, and so on.
func playRanges(t *testing.T, script string) {
	t.Helper()
	buf := make([]byte, 64)
	var flow chain.Flow
	nodes := map[string]*chain.Node{"": new(chain.Node)}
	run := map[*chain.Node]bool{}
	var order []string
	collect := func() {
		for n := flow.NextReady(); n != nil; n = flow.NextReady() {
			require.False(t, run[n])
			run[n] = true
		}
	}
	for line := range strings.Lines(script) {
		step, want, ok := strings.Cut(line, "|")
		f := strings.Fields(step)
		if !ok {
			require.Empty(t, f, line)
			continue
		}
		switch f[0] {
		case "spawn":
			parent, _ := cutLast(f[1])
			var list []chain.Access
			for _, w := range f[2:] {
				list = append(list, rangeOf(t, buf, w))
			}
			n := new(chain.Node)
			nodes[f[1]] = n
			order = append(order, f[1])
			if nodes[parent].Register(n, list, &flow) {
				run[n] = true
			}
		case "release":
			require.NoError(t, nodes[f[1]].Release(rangeOf(t, buf, f[2]), &flow))
		case "refused":
			require.Error(t, nodes[f[1]].Release(rangeOf(t, buf, f[2]), &flow))
		case "panics":
			require.Panics(t, func() {
				nodes[f[1]].Register(new(chain.Node), []chain.Access{rangeOf(t, buf, f[2])}, &flow)
			}, line)
		case "end":
			for _, name := range f[1:] {
				require.True(t, run[nodes[name]], "%s does not run: %s", name, line)
				nodes[name].Finish(&flow)
				delete(run, nodes[name])
				collect()
			}
		}
		collect()
		var got []string
		for _, name := range order {
			if run[nodes[name]] {
				got = append(got, name)
			}
		}
		require.ElementsMatch(t, strings.Fields(want), got, "%s\nof%s", line, script)
	}
}

func cutLast(name string) (parent, last string) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(i, 0)], name[i+1:]
}

var rangeWord = regexp.MustCompile(`^(weak)?(inout|in|out|concurrent)[(\[](\d+)(\.\.|:)(\d+)[)\]]$`)

func parseRange(word string) (d rdecl, ok bool) {
	m := rangeWord.FindStringSubmatch(word)
	if m == nil {
		return d, false
	}
	d.lo, _ = strconv.Atoi(m[3])
	d.hi, _ = strconv.Atoi(m[5])
	d.object, d.mode, d.weak = m[4] == "..", modes[m[2]], m[1] != ""
	return d, true
}

// rangeOf returns the access of a word of a script, to a part of buf.
func rangeOf(t *testing.T, buf []byte, word string) chain.Access {
	d, ok := parseRange(word)
	require.True(t, ok, "not an access: %q", word)
	return rangeTo(buf, d)
}

// Objects that overlap are independent as long as no range is named. A range waits for all of them.
func TestREG01_OverlappingObjects(t *testing.T) {
	// Two chains that share bytes; a range in the common part waits for both.
	playRanges(t, `
		spawn A inout(0..4)     | A
		spawn B inout(2..4)     | A B
		spawn C in[3:6]         | A B
		spawn D in[0:2]         | A B
		end A                   | B D
		end B                   | C D
	`)
	playRanges(t, `
		spawn A inout(0..4)     | A
		spawn B in(2..4)        | A B
		spawn C in[3:6]         | A B
		spawn D concurrent[2:3] | A B
		end A                   | B C
		end B                   | C D
	`)
	// A run is joined only if all chains are in open runs.
	playRanges(t, `
		spawn A concurrent(0..4)     | A
		spawn B concurrent(2..4)     | A B
		spawn C concurrent[1:4]      | A B C
		spawn D in(4..5)             | A B C D
		spawn E concurrent[3:5]      | A B C D
		end D                        | A B C E
	`)
	playRanges(t, `
		spawn A concurrent(0..4)     | A
		spawn B in(2..4)             | A B
		spawn C concurrent[1:4]      | A B
		end B                        | A C
	`)
	// A chain covers the largest variable that it names and that is not over.
	playRanges(t, `
		spawn A inout(0..4)     | A
		spawn B in(0..1)        | A
		spawn C in[2:3]         | A
		spawn D inout[4:5]      | A D
		end A                   | B C D
	`)
	playRanges(t, `
		spawn A inout(0..4)     | A
		end A                   |
		spawn B inout(0..1)     | B
		spawn C in[1:3]         | B C
	`)
	// From then on objects that overlap conflict as well.
	playRanges(t, `
		spawn A inout(0..4)     | A
		spawn B inout(1..2)     | A B
		spawn C in[8:9]         | A B C
		spawn D inout(3..4)     | A B C
		end A                   | B C D
	`)
}

// A parent's objects that overlap, with children that name ranges.
func TestREG10_OverlappingObjects(t *testing.T) {
	setup := `
		spawn P inout(0..4) inout(2..4)   | P
		spawn A in(0..4)                  | P
		spawn B in(2..4)                  | P
	`
	playRanges(t, setup+`
		spawn P.1 inout[1:3]              | P P.1
		end P                             | P.1
		end P.1                           | A B
	`)
	playRanges(t, setup+`
		spawn P.1 inout[0:2]              | P P.1
		end P                             | P.1 B
		end P.1                           | A B
	`)
	// One is given up, the other is not: the common bytes do not count as given up for the other.
	playRanges(t, setup+`
		spawn P.1 inout[8:9]              | P P.1
		release P inout(0..4)             | P P.1 A
		refused P inout(0..4)             | P P.1 A
		panics P in[3:4]                  | P P.1 A
		end P                             | P.1 A B
	`)
	playRanges(t, setup+`
		spawn P.1 inout[3:4]              | P P.1
		release P inout(2..4)             | P P.1
		spawn P.2 inout[0:2]              | P P.1 P.2
		end P.1                           | P P.2 B
		end P                             | P.2 B
		end P.2                           | A B
	`)
	// Given up before the first range.
	playRanges(t, setup+`
		spawn P.0 inout(0..4)             | P P.0
		release P inout(0..4)             | P P.0
		spawn P.1 in[8:9]                 | P P.0 P.1
		panics P in[1:2]                  | P P.0 P.1
		refused P inout(0..4)             | P P.0 P.1
		release P inout(2..4)             | P P.0 P.1 B
		end P.0                           | P P.1 A B
		end P                             | P.1 A B
	`)
	// The tokens come to the parent in the middle.
	playRanges(t, `
		spawn W inout(0..4)                       | W
		spawn R in(0..4)                          | W
		spawn V inout(2..4)                       | W V
		spawn P weakinout(0..4) weakinout(2..4)   | W V P
		spawn P.1 in[3:5]                         | W V P
		spawn P.2 in[0:2]                         | W V P
		spawn P.3 inout[0:1]                      | W V P
		end W                                     | R V P P.2
		end V                                     | R P P.1 P.2
		end R                                     | P P.1 P.2
		end P.2                                   | P P.1 P.3
	`)
}

// Tables and records are as fragmented as the memory in use, not as all that was ever named.
func TestFragmentsBounded(t *testing.T) {
	const size = 4096
	var root chain.Node
	var m nodes
	buf := make([]byte, size)
	p := m.spawn(&root, chain.Slice(buf).InOut().Weak())
	m.run = m.run[:0]
	x := uint32(1)
	most := 0
	for range 20000 {
		x = x*1664525 + 1013904223
		lo := int(x>>8) % (size - 64)
		hi := lo + 1 + int(x>>24)%63
		m.end(m.spawn(p, chain.Slice(buf[lo:hi]).InOut()))
		m.run = m.run[:0]
		most = max(most, chain.RangeEntries(p), chain.Fragments(p))
	}
	require.LessOrEqual(t, most, 20)
	// The parent has no write token: it has the fragments of its first children until it gets the
	// token.
	w := m.spawn(&root, chain.Slice(buf).InOut())
	q := m.spawn(&root, chain.Slice(buf).InOut().Weak())
	for i := range size / 8 {
		m.spawn(q, chain.Slice(buf[i*8:i*8+4]).In())
	}
	m.run = m.run[:0]
	require.Greater(t, chain.Fragments(q), size/8)
	p.Finish(&m.flow)
	m.collect()
	require.Equal(t, []*chain.Node{w}, m.run)
	m.run = m.run[:0]
	m.end(w)
	require.Len(t, m.run, size/8)
	for i := range size {
		m.end(m.spawn(q, chain.Slice(buf[i:i+1]).In()))
	}
	require.LessOrEqual(t, chain.Fragments(q), size/4)
	require.LessOrEqual(t, chain.RangeEntries(q), size, "readers after running readers are not over")
}

// Memory that a parent has given up stays given up when the table is swept.
func TestSweepKeepsGone(t *testing.T) {
	buf := make([]byte, 256)
	var root chain.Node
	var m nodes
	p := m.spawn(&root, chain.Slice(buf).InOut())
	kid := m.spawn(p, chain.Slice(buf[:2]).InOut())
	after := m.spawn(&root, chain.Slice(buf[:2]).In())
	require.NoError(t, p.Release(chain.Slice(buf[:2]).InOut(), &m.flow))
	for range 3 {
		for i := 4; i+2 <= len(buf); i += 4 { // with holes, so that they stay apart
			m.end(m.spawn(p, chain.Slice(buf[i:i+2]).InOut()))
		}
	}
	require.Less(t, chain.RangeEntries(p), 20, "the table was swept")
	require.Panics(t, func() { p.Register(new(chain.Node), []chain.Access{chain.In(&buf[1])}, &m.flow) })
	m.run = m.run[:0]
	p.Finish(&m.flow)
	m.collect()
	require.Empty(t, m.run)
	m.end(kid)
	require.Equal(t, []*chain.Node{after}, m.run)
}
