// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ranks of two machines make all calls at once, each from several goroutines, while the launchers
// make theirs; then the job ends meanwhile.
func TestAllRanksAtOnceHammer(t *testing.T) {
	const own, others, rounds = 3, 3, 3
	for range rounds {
		s, key, heard := recordingServer(t, own+others, others)
		r, said, err := recordingRelay(t, s.Addr(), key, others, -1)
		require.NoError(t, err)
		require.Contains(t, next(t, heard), "joined")
		cs := make([]*Client, own+others)
		var all sync.WaitGroup
		for rank := range cs {
			all.Go(func() {
				p := s.Identity(rank)
				if rank >= own {
					p = r.Identity(rank)
				}
				c, err := p.Join(t.Context())
				assert.NoError(t, err)
				cs[rank] = c
			})
		}
		all.Wait()
		require.False(t, t.Failed())
		for rank, c := range cs {
			t.Cleanup(func() { _ = c.Leave() })
			for i := range 4 {
				all.Go(func() { assert.NoError(t, c.Put(strconv.Itoa(i), []byte{byte(rank), byte(i)})) })
				all.Go(func() {
					of := (rank + i) % len(cs)
					v, err := c.Get(t.Context(), of, strconv.Itoa(i))
					assert.NoError(t, err)
					assert.Equal(t, []byte{byte(of), byte(i)}, v)
				})
				all.Go(func() { c.Watch(func(error) {}) })
				all.Go(func() { assert.NoError(t, c.Blame(Blame{Rank: (rank + 1) % len(cs)})) })
			}
			all.Go(func() {
				for i := range 4 {
					shares, err := c.Exchange(t.Context(), []byte{byte(rank + i)})
					assert.NoError(t, err)
					for of, share := range shares {
						assert.Equal(t, []byte{byte(of + i)}, share)
					}
				}
			})
		}
		all.Go(func() { s.SignalHosts(3); s.KillHosts() })
		all.Go(func() {
			for rank := range cs {
				_ = s.Blames(rank)
			}
		})
		all.Wait()
		require.Equal(t, []string{"signal 3", "kill"}, []string{next(t, said), next(t, said)})

		// Each rank waits, leaves, dies, or asks for the end; and the launcher ends the job
		// meanwhile.
		ends := make([]<-chan error, len(cs))
		for rank, c := range cs {
			ends[rank] = news(c)
			all.Go(func() { _, _ = c.Get(t.Context(), (rank+1)%len(cs), "never") })
			all.Go(func() { _ = c.Fence(t.Context()) })
		}
		all.Go(func() { _ = cs[0].Leave() })
		all.Go(func() { s.Ended(1, 3, "exit status 3") })
		all.Go(func() { _ = cs[own].Leave(); r.Settle(own); r.Ended(own, 0, "exit status 0") })
		all.Go(func() { s.Abort(&Abort{Rank: -1, Code: 1, Reason: "over"}) })
		all.Wait()
		for _, rank := range []int{2, own + 1, len(cs) - 1} {
			// frames that the other ranks send after their end violate the protocol
			for {
				if _, over := (<-ends[rank]).(*Abort); over {
					break
				}
			}
		}
		require.Equal(t, fmt.Sprintf("ended: %d with 0: exit status 0", own), next(t, heard))
		require.Equal(t, "abort {-1 1 over}", next(t, said))
		for _, c := range cs {
			all.Go(func() { _ = c.Leave() })
		}
		all.Go(func() { s.DismissHosts(0) })
		require.Equal(t, "over 0", next(t, said))
		all.Go(func() { assert.NoError(t, r.Close()) })
		all.Go(func() { assert.NoError(t, s.Close()) })
		all.Wait()
	}
}
