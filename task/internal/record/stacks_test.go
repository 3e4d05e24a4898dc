// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// body calls f. The stacks of this test end with it.
//
//go:noinline
func body(f func()) {
	defer func() { _ = recover() }() // so that the compiler does not inline it
	f()
}

// codeOfBody returns the bounds of body's code.
func codeOfBody() (lo, hi uintptr) {
	lo = runtime.FuncForPC(reflect.ValueOf(body).Pointer()).Entry()
	for hi = lo + 1; ; hi++ {
		if f := runtime.FuncForPC(hi); f == nil || f.Entry() != lo {
			return lo, hi
		}
	}
}

//go:noinline
func framesAt(depth int, list *[4]uintptr, lo, hi uintptr) int {
	if depth > 0 {
		return framesAt(depth-1, list, lo, hi) + 0*depth
	}
	return frames(&list[0], len(list), lo, hi)
}

// frames finds the same return addresses up to the body as runtime.Callers, as far as there is
// room. Without a body on the stack it returns -1.
func TestFrames(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("frames are walked on amd64 only")
	}
	lo, hi := codeOfBody()
	ran := false
	body(func() {
		var a, b, c [4]uintptr
		own := frames(&c[0], len(c), lo, hi)
		require.GreaterOrEqual(t, own, 0)
		for i := range 2 {
			require.Equal(t, own+1, framesAt(0, [2]*[4]uintptr{&a, &b}[i], lo, hi), "the call is one more")
		}
		require.Equal(t, a, b, "the same code")
		var pcs [1]uintptr
		require.Equal(t, 1, runtime.Callers(1, pcs[:]))
		f, _ := runtime.CallersFrames(a[own : own+1]).Next()
		g, _ := runtime.CallersFrames(pcs[:]).Next()
		require.Equal(t, g.Function, f.Function)
		require.Equal(t, 4, framesAt(9, &c, lo, hi), "there is room for four")
		ran = true
	})
	require.True(t, ran)
	var list [64]uintptr
	require.Equal(t, -1, frames(&list[0], len(list), lo, hi))
	var few [4]uintptr
	require.LessOrEqual(t, frames(&few[0], 2, lo, hi), 2)
}
