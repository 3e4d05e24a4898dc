// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// TestRefused: every constructor refuses a nil pointer and a zero-size object, with a
// message that names the type.
func TestRefused(t *testing.T) {
	type empty struct{}
	for name, f := range map[string]func(){
		"In":         func() { deps.In[int](nil) },
		"Out":        func() { deps.Out[int](nil) },
		"InOut":      func() { deps.InOut[int](nil) },
		"Concurrent": func() { deps.Concurrent[int](nil) },
		"nil empty":  func() { deps.In[int]((*int)(nil)) },
	} {
		require.PanicsWithError(t, "deps: access through a nil *int; name an object that exists", f, name)
	}
	const zero = "deps: access to a zero-size object (%s): distinct zero-size objects can share one address in Go; use a field or variable of at least one byte"
	for _, c := range []struct {
		typ string
		f   func()
	}{
		{"*struct {}", func() { deps.In(&struct{}{}) }},
		{"*deps_test.empty", func() { deps.Out(&empty{}) }},
		{"*[0]int", func() { deps.InOut(&[0]int{}) }},
		{"*[3]deps_test.empty", func() { deps.Concurrent(&[3]empty{}) }},
	} {
		require.PanicsWithError(t, fmt.Sprintf(zero, c.typ), c.f)
	}
	require.NotPanics(t, func() { deps.In(&[1]bool{}) })
}

func TestAccess(t *testing.T) {
	var x int
	for _, c := range []struct {
		a    deps.Access
		mode deps.Mode
		name string
	}{
		{deps.In(&x), deps.ModeIn, "In"},
		{deps.Out(&x), deps.ModeOut, "Out"},
		{deps.InOut(&x), deps.ModeInOut, "InOut"},
		{deps.Concurrent(&x), deps.ModeConcurrent, "Concurrent"},
	} {
		require.Equal(t, c.mode, c.a.Mode())
		require.Equal(t, c.name, c.a.Mode().String())
		require.False(t, c.a.IsWeak())
		require.Equal(t, fmt.Sprintf("%s(%p)", c.name, &x), c.a.String())
		w := c.a.Weak()
		require.True(t, w.IsWeak())
		require.False(t, c.a.IsWeak(), "Weak returns a copy")
		require.Equal(t, c.mode, w.Mode())
		require.Equal(t, w, w.Weak())
		require.Equal(t, fmt.Sprintf("%s(%p).Weak()", c.name, &x), w.String())
	}
	require.Equal(t, "Mode(9)", deps.Mode(9).String())
}

// TestObjectsByAddress: the address is the name, whatever the type.
func TestObjectsByAddress(t *testing.T) {
	var s struct{ first, second int }
	var root, a, b, c deps.Node
	var f deps.Flow
	require.True(t, root.Register(&a, []deps.Access{deps.InOut(&s)}, &f))
	require.False(t, root.Register(&b, []deps.Access{deps.In(&s.first)}, &f))
	require.True(t, root.Register(&c, []deps.Access{deps.InOut(&s.second)}, &f))
	require.Equal(t, 1, b.Accesses())
}

// TestNextReadyOrder: nodes come out in the order in which they became ready.
func TestNextReadyOrder(t *testing.T) {
	var x int
	var root deps.Node
	var f deps.Flow
	nodes := make([]deps.Node, 100)
	root.Register(&nodes[0], []deps.Access{deps.InOut(&x)}, &f)
	for i := 1; i < len(nodes); i++ {
		require.False(t, root.Register(&nodes[i], []deps.Access{deps.In(&x)}, &f))
	}
	nodes[0].Finish(&f)
	for i := 1; i < len(nodes); i++ {
		require.True(t, f.NextReady() == &nodes[i])
	}
	require.Nil(t, f.NextReady())
	require.Nil(t, f.NextFree())
}
