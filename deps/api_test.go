// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/chain"
)

// Every constructor refuses a nil pointer and a zero-size object, with a message that names the
// type.
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

	s := make([]int32, 10)
	for a, mode := range map[deps.Access]deps.Mode{
		deps.Commutative(&x):             deps.ModeCommutative,
		deps.Slice(s[2:5]).In():          deps.ModeIn,
		deps.Slice(s[2:5]).Out():         deps.ModeOut,
		deps.Slice(s[2:5]).InOut():       deps.ModeInOut,
		deps.Slice(s[2:5]).Concurrent():  deps.ModeConcurrent,
		deps.Slice(s[2:5]).Commutative(): deps.ModeCommutative,
	} {
		require.Equal(t, mode, a.Mode())
		if mode != deps.ModeCommutative {
			require.Equal(t, fmt.Sprintf("Slice(%p, 12 bytes).%v()", &s[2], mode), a.String())
		}
	}
}

// TestAccessIsOneField: package task casts lists of accesses.
func TestAccessIsOneField(t *testing.T) {
	typ := reflect.TypeFor[deps.Access]()
	require.Equal(t, 1, typ.NumField())
	require.Equal(t, reflect.TypeFor[chain.Access](), typ.Field(0).Type)
}
