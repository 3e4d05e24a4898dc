// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Receives for requests are allocated slabSize at a time, and each is given out once.
func TestReceivesAreAllocatedTogether(t *testing.T) {
	p, seen := new(proc), map[*recvOp]bool{}
	for range 10 * slabSize {
		seen[p.newRecvRequest()] = true
	}
	require.Len(t, seen, 10*slabSize)
	require.EqualValues(t, 8, testing.AllocsPerRun(100, func() {
		for range 8 * slabSize {
			p.newRecvRequest()
		}
	}))
}

func TestHammerSlab(t *testing.T) {
	p := new(proc)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[*recvOp]bool{}
	for range 4 {
		all.Go(func() {
			var mine []*recvOp
			for range 500 {
				mine = append(mine, p.newRecvRequest())
			}
			mu.Lock()
			defer mu.Unlock()
			for _, op := range mine {
				seen[op] = true
			}
		})
	}
	all.Wait()
	require.Len(t, seen, 2000)
}
