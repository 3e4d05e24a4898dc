// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Origins have the numbers 1, 2, …: the same one the same number, and each number its origin.
func TestNames(t *testing.T) {
	var n Names
	require.Zero(t, n.Specs())
	list := []Origin{{}, {Label: "a"}, {Site: 1}, {Body: 1}, {Stack: 1}}
	for i, o := range list {
		require.Equal(t, uint32(i+1), n.Spec(o))
		require.Equal(t, i+1, n.Specs())
		require.Equal(t, Origin{}, n.Origin(uint32(i+2)), "a number that is not given")
	}
	for i, o := range list {
		require.Equal(t, uint32(i+1), n.Spec(o))
		require.Equal(t, o, n.Origin(uint32(i+1)))
	}
	require.Equal(t, Origin{}, n.Origin(0))
	require.Equal(t, len(list), n.Specs())
}

// A cache returns the numbers of Names, also for origins that share a slot of the cache.
func TestSpecCache(t *testing.T) {
	var n Names
	c := NewSpecCache(&n)
	list := []Origin{{}, {Label: "a"}, {Label: "b"}, {Body: 1 << 4}, {Body: 65 << 4}}
	for range 2 {
		for i, o := range list {
			require.Equal(t, uint32(i+1), c.Spec(o))
			require.Equal(t, uint32(i+1), c.Spec(o))
		}
	}
	require.Equal(t, len(list), n.Specs())
}

// As many origins as the cache has slots do not displace each other if they differ in the body
// alone, in the site alone, or in the stack alone.
func TestSpecCacheSlots(t *testing.T) {
	for name, of := range map[string]func(i uintptr) Origin{
		"body":  func(i uintptr) Origin { return Origin{Body: i << 4, Site: 63 << 2, Stack: 63} },
		"site":  func(i uintptr) Origin { return Origin{Body: 63 << 4, Site: i << 2, Stack: 63} },
		"stack": func(i uintptr) Origin { return Origin{Body: 63 << 4, Site: 63 << 2, Stack: uint32(i)} },
	} {
		c := NewSpecCache(new(Names))
		for i := range c.slots {
			c.Spec(of(uintptr(i)))
		}
		for i := range c.slots {
			require.NotZero(t, c.slots[i].id, "%s: slot %d", name, i)
		}
	}
}

// The same for the cells in which a sampler counts.
func TestSamplerCells(t *testing.T) {
	rec := newUnreadRecorder(64)
	rec.opt.Sample = 2
	for name, of := range map[string]func(i uintptr) Origin{
		"body": func(i uintptr) Origin { return Origin{Body: i << 4, Site: 63 << 2} },
		"site": func(i uintptr) Origin { return Origin{Body: 63 << 4, Site: i << 2} },
	} {
		s := rec.Sampler()
		for i := range uintptr(counted) {
			s.Skip(of(i))
		}
		for i := range s.cells {
			require.EqualValues(t, 1, s.cells[i].n.load(), "%s: cell %d", name, i)
		}
		require.Nil(t, s.old)
	}
}

func someBody() {}

type someMethod struct{}

func (someMethod) run() {}

// Where returns a line and its function; without a line, the function alone.
func TestWhere(t *testing.T) {
	pc := func(f any) uintptr { return reflect.ValueOf(f).Pointer() }
	line := `/names_test\.go:\d+ \(weft/internal/event\.someBody\)$`
	body := pc(someBody)
	require.Regexp(t, line, Where(body))
	require.Empty(t, Where(0))
	require.Equal(t, "an unknown location", Where(1))
	require.Equal(t, "weft/internal/event.someMethod.run", Where(pc(someMethod{}.run)))

	require.Regexp(t, line, Origin{Body: body}.Where())
	require.Regexp(t, line, Origin{Site: body, Body: 1}.Where(), "the spawn")
	require.Empty(t, Origin{}.Where())
}

func TestLocationKinds(t *testing.T) {
	for kind, want := range map[LocationKind]string{0: "unknown location", SlotLocation: "slot", OtherLocation: "other goroutines", RankLocation: "rank", RankLocation + 1: "unknown location"} {
		require.Equal(t, want, kind.String())
	}
}

// XML escapes any text.
func TestXML(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"a b\t\n\r":                    "a b\t\n\r",
		"\x00\x01\x08\x0b\x1f":         "�����",
		"<\">'&":                       "&lt;&#34;&gt;&#39;&amp;",
		"\ufffd\ufffe\uffff\U00010000": "\ufffd��\U00010000",
		"\xff\xc0é":                    "��é",
	} {
		require.Equal(t, want, XML(text), "%q", text)
	}
}
