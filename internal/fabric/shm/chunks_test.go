//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A counter serves one transfer after another, each with its own generation, and hands out each
// chunk once.
func TestChunkCounterSteps(t *testing.T) {
	var d chunkCounter
	for g := uint32(1); g < 4; g++ {
		require.Equal(t, g, d.start())
		require.Equal(t, uint64(g)<<32, d.next.Load())
		require.Equal(t, uint64(g)<<32, d.over.Load())
		const chunks = 3
		for k := range uint64(chunks) {
			for _, other := range []uint32{g - 1, g + 1} {
				_, ok := d.take(other, chunks)
				require.False(t, ok, "another transfer")
			}
			c, ok := d.take(g, chunks)
			require.True(t, ok)
			require.Equal(t, k, c)
			require.Equal(t, uint64(g)<<32|(k+1), d.next.Load())
		}
		for range 2 {
			_, ok := d.take(g, chunks)
			require.False(t, ok, "none is left")
		}
		for k := range uint64(chunks) {
			require.Equal(t, k == chunks-1, d.end(chunks))
		}
		require.Equal(t, uint64(g)<<32|chunks, d.over.Load())
	}
	d.next.Store(1<<64 - 1) // the largest generation
	require.Zero(t, d.start())
	c, ok := d.take(0, 1)
	require.True(t, ok)
	require.Zero(t, c)
}

// Both sides together get each chunk once, and a late helper gets none of another transfer,
// whenever it comes.
func TestChunkCounter(t *testing.T) {
	var d chunkCounter
	const rounds, chunks = 100, 50
	var seen [rounds + 1][chunks]int
	generations := make(chan uint32, 2*rounds)
	var mu sync.Mutex
	var both sync.WaitGroup
	help := func(generation uint32) (lasts int) {
		for {
			c, ok := d.take(generation, chunks)
			if !ok {
				return lasts
			}
			mu.Lock()
			seen[generation][c]++
			mu.Unlock()
			if d.end(chunks) {
				lasts++
			}
		}
	}
	lasts := [2]int{}
	both.Go(func() {
		for g := range generations {
			lasts[0] += help(g)
		}
	})
	for range rounds {
		g := d.start()
		generations <- g
		lasts[1] += help(g)
		for d.over.Load()&(1<<32-1) != chunks { // until then, the receiver begins no other
			runtime.Gosched()
		}
	}
	close(generations)
	both.Wait()
	require.Equal(t, rounds, lasts[0]+lasts[1])
	for g := range rounds {
		for c, n := range seen[g+1] {
			require.Equal(t, 1, n, "chunk %d of transfer %d", c, g+1)
		}
	}
}

// crossed has a constant address.
var crossed [4]byte

// across continues a copy that the kernel cut short or interrupted, and returns any other error.
func TestAcross(t *testing.T) {
	broken := errors.New("broken")
	type move struct {
		n   int
		err error
	}
	for name, row := range map[string]struct {
		moves []move
		want  error
	}{
		"at once":           {[]move{{10, nil}}, nil},
		"in parts":          {[]move{{1, nil}, {7, nil}, {2, nil}}, nil},
		"interrupted":       {[]move{{-1, unix.EINTR}, {4, nil}, {0, unix.EINTR}, {6, nil}}, nil},
		"broken":            {[]move{{4, nil}, {-1, broken}}, broken},
		"no such process":   {[]move{{-1, unix.ESRCH}}, unix.ESRCH},
		"it does not go on": {[]move{{9, nil}, {0, nil}}, unix.EFAULT},
		"less than nothing": {[]move{{-1, nil}}, unix.EFAULT},
	} {
		t.Run(name, func(t *testing.T) {
			mem, at := make([]byte, 10), 0
			err := across(0, mem, 1000, func(_ int, local []unix.Iovec, remote []unix.RemoteIovec, _ uint) (int, error) {
				require.Len(t, local, 1)
				require.Len(t, remote, 1)
				require.Same(t, &mem[at], local[0].Base)
				require.EqualValues(t, 10-at, local[0].Len)
				require.Equal(t, unix.RemoteIovec{Base: uintptr(1000 + at), Len: 10 - at}, remote[0])
				m := row.moves[0]
				row.moves = row.moves[1:]
				if m.err == nil {
					at += m.n
				}
				return m.n, m.err
			})
			require.Equal(t, row.want, err)
			require.Empty(t, row.moves)
		})
	}
	require.NoError(t, across(0, nil, 0, nil))
	copy(crossed[:], "over")
	here, there := []byte("here"), crossed[:]
	require.NoError(t, readPeer(os.Getpid(), here, address(there)))
	require.Equal(t, "over", string(here))
	require.NoError(t, writePeer(os.Getpid(), []byte("back"), address(there)))
	require.Equal(t, "back", string(there))
	require.Equal(t, unix.EFAULT, readPeer(os.Getpid(), here, 8))
	require.Equal(t, unix.EFAULT, writePeer(os.Getpid(), here, 8))
	require.Equal(t, unix.ESRCH, readPeer(noProcess, here, address(there)))
}
