// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:noinline
func framesAt(depth int, list *[4]uintptr, body codeRange) int {
	if depth > 0 {
		return framesAt(depth-1, list, body) + 0*depth
	}
	return frames(&list[0], len(list), body.lo, body.hi)
}

// The return addresses of a stack up to the body are the same ones that the runtime finds, as far as there is room; without a body on the stack there is no end
// to come to.
func TestFrames(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("frames are walked on amd64 only")
	}
	rt := newTestRuntime(t, Config{Workers: 1})
	body := callsBody()
	require.NoError(t, rt.Run(bg, func(*Task) error {
		var a, b, c [4]uintptr
		own := frames(&c[0], len(c), body.lo, body.hi)
		require.GreaterOrEqual(t, own, 0)
		for i := range 2 {
			require.Equal(t, own+1, framesAt(0, [2]*[4]uintptr{&a, &b}[i], body), "the call is one more")
		}
		require.Equal(t, a, b, "the same place")
		var pcs [1]uintptr
		require.Equal(t, 1, runtime.Callers(1, pcs[:]))
		f, _ := runtime.CallersFrames(a[own : own+1]).Next()
		g, _ := runtime.CallersFrames(pcs[:]).Next()
		require.Equal(t, g.Function, f.Function)
		require.Equal(t, 4, framesAt(9, &c, body), "there is room for four")
		return nil
	}))
	var list [64]uintptr
	require.Equal(t, -1, frames(&list[0], len(list), body.lo, body.hi))
	var few [4]uintptr
	require.LessOrEqual(t, frames(&few[0], 2, body.lo, body.hi), 2)
}
