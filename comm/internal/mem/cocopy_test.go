// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// patterned returns n bytes whose values depend on their offsets.
func patterned(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8 ^ i)
	}
	return b
}

// Which copies are shared, and how much of them is copied.
func TestShareable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	room, wide := make([]byte, 2*cocopyMin), make([]byte, 4*cocopyMin)
	for what, x := range map[string]struct {
		dst, src Buffer
		n        int // bytes; 0: not shared
	}{
		"the least":           {Of(room), Of(room[:cocopyMin]), cocopyMin},
		"one less":            {Of(room), Of(room[:cocopyMin-1]), 0},
		"one more":            {Of(room), Of(room[:cocopyMin+1]), cocopyMin + 1},
		"not all fits":        {Of(room[:cocopyMin]), Of(room), cocopyMin},
		"hardly any fits":     {Of(room[:cocopyMin-1]), Of(room), 0},
		"into pieces":         {Vector(wide, cocopyMin, 1, 2), Of(room), 0},
		"of pieces":           {Of(room), Vector(wide, cocopyMin, 1, 2), 0},
		"into nothing":        {Buffer{}, Of(room), 0},
		"of larger elements":  {Of(room), Of(make([]int64, cocopyMin/8)), cocopyMin},
		"of fewer than least": {Of(room), Of(make([]int64, cocopyMin/8-1)), 0},
	} {
		d, s, ok := Shareable(&x.dst, &x.src)
		require.Equal(t, x.n > 0, ok, what)
		require.Len(t, d, x.n, what)
		require.Len(t, s, x.n, what)
	}
	runtime.GOMAXPROCS(1)
	dst, src := Of(room), Of(room)
	_, _, ok := Shareable(&dst, &src)
	require.False(t, ok, "there is only one processor")
}

// The helper is woken before anything is copied. Together both sides copy everything, and neither
// returns while the other may still copy.
func TestSharedCopy(t *testing.T) {
	for _, n := range []int{0, 1, cocopyPiece - 1, cocopyPiece, cocopyPiece + 1, 5*cocopyPiece + 7} {
		synctest.Test(t, func(t *testing.T) {
			src := patterned(n)
			for range 3 {
				dst, helper := make([]byte, n), make(chan struct{})
				j := &Cocopy{owner: make(chan struct{}, 1), dst: dst, src: src, helper: helper}
				// One use is the test's: so the pool does not get channels of this synctest bubble.
				j.users.Store(3)
				ran := false
				go func() { j.Run(); ran = true }()
				synctest.Wait()
				require.Zero(t, j.next.Load(), "nothing is copied before the helper is woken")
				j.next.Store(1 << 40) // the owner finds nothing to copy
				<-helper
				synctest.Wait()
				require.True(t, ran)
				require.EqualValues(t, closed, j.state.Load())
				require.Equal(t, make([]byte, n), dst)
				require.Nil(t, j.Help(), "it finds everything done")
				require.EqualValues(t, 1, j.users.Load(), "both have left")
			}
		})
	}
	require.Nil(t, (*Cocopy)(nil).Help())
}

// The side that leaves last drops the references to the memory.
func TestSharedCopyKeepsNothing(t *testing.T) {
	j := NewCocopy(make([]byte, 1), make([]byte, 1), make(chan struct{}))
	j.leave()
	require.NotNil(t, j.src)
	require.NotNil(t, j.helper)
	j.leave()
	require.Nil(t, j.dst)
	require.Nil(t, j.src)
	require.Nil(t, j.helper)
}

// A side that ends first waits for the other one.
func TestSharedCopyEndsTogether(t *testing.T) {
	for _, ownerFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := patterned(3*cocopyPiece + 5)
			dst, helper := make([]byte, len(src)), make(chan struct{}, 1)
			j := &Cocopy{owner: make(chan struct{}, 1), dst: dst, src: src, helper: helper}
			j.users.Store(3)
			over := 0
			end := func(side func()) { // one side runs alone
				go func() { side(); over++ }()
				synctest.Wait()
			}
			// The other side has joined, and has a piece.
			j.next.Store(cocopyPiece)
			j.state.Store(joined)
			if ownerFirst {
				end(j.Run)
				<-helper // the wake-up
			} else {
				j.state.Store(open)
				end(func() { j.Help() })
			}
			require.Zero(t, over)
			require.EqualValues(t, joined, j.state.Load())
			require.EqualValues(t, 1, j.ends.Load())
			require.True(t, bytes.Equal(src[cocopyPiece:], dst[cocopyPiece:]))
			require.Equal(t, make([]byte, cocopyPiece), dst[:cocopyPiece])
			copy(dst, src[:cocopyPiece])
			require.EqualValues(t, 2, j.ends.Add(1))
			if ownerFirst {
				j.owner <- struct{}{}
			} else {
				helper <- struct{}{}
			}
			synctest.Wait()
			require.Equal(t, 1, over)
			require.EqualValues(t, 2, j.users.Load(), "the other side has not left")
		})
	}
}

// Both sides at once, many times with the same Cocopy.
func TestHammerSharedCopy(t *testing.T) {
	helper := make(chan struct{}, 1)
	for i := range 200 {
		src := patterned(1 + i*cocopyPiece/50)
		dst := make([]byte, len(src))
		j := NewCocopy(dst, src, helper)
		require.EqualValues(t, open, j.state.Load())
		require.Zero(t, j.next.Load())
		require.Zero(t, j.ends.Load())
		require.EqualValues(t, 2, j.users.Load())
		over := make(chan struct{})
		go func() {
			<-helper
			j.Help()
			close(over)
		}()
		j.Run()
		require.True(t, bytes.Equal(src, dst), i)
		<-over
		require.Empty(t, helper)
	}
}
