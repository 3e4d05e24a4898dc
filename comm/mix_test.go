// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/tcp"
	"weft/internal/launch"
	"weft/internal/vigil"
)

// gathering is a meeting of ranks that are goroutines here.
type gathering struct {
	mu    sync.Mutex
	peers []launch.Peer
	left  int
	all   chan struct{}
}

func (g *gathering) meeting(rank int, node string, segments string) *meeting {
	return &meeting{
		rank: rank, size: len(g.peers), node: launch.NodeID(node), secret: make([]byte, 32), segments: segments,
		meet: func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
			g.mu.Lock()
			g.peers[rank] = launch.Peer{Rank: rank, Node: launch.NodeID(node), Addrs: maps.Clone(said)}
			if g.left--; g.left == 0 {
				close(g.all)
			}
			g.mu.Unlock()
			<-g.all
			return g.peers, nil
		},
	}
}

// connectAll connects ranks of the given nodes, as if each were a process.
func connectAll(t *testing.T, nodes string) ([]fabric.Endpoint, []error) {
	t.Helper()
	n := len(nodes)
	g := &gathering{peers: make([]launch.Peer, n), left: n, all: make(chan struct{})}
	eps, errs := make([]fabric.Endpoint, n), make([]error, n)
	segments := t.TempDir()
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { eps[r], errs[r] = connect(t.Context(), g.meeting(r, nodes[r:r+1], segments), nil) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, ep := range eps {
			if ep != nil {
				wg.Go(func() { _ = ep.Close() })
			}
		}
		wg.Wait()
	})
	return eps, errs
}

// Messages between ranks of several nodes arrive, over what connects them.
func TestConnect(t *testing.T) {
	eps, errs := connectAll(t, "aabb")
	for r := range errs {
		require.NoError(t, errs[r])
	}
	for r, ep := range eps {
		for p := range eps {
			if p/2 != r/2 {
				require.Equal(t, "tcp", ep.Caps(p).Kind)
			}
		}
	}
	errs = make([]error, len(eps))
	var wg sync.WaitGroup
	for r, ep := range eps {
		wg.Go(func() {
			cfg := Config{}
			if _, errs[r] = cfg.validate(); errs[r] != nil {
				return
			}
			errs[r] = newWorld(t.Context(), cfg, []fabric.Endpoint{ep}).run(t.Context(), func(c *Comm) error {
				sum := make([]int, 200000)
				mine := make([]int, len(sum))
				mine[c.Rank()*1000] = c.Rank() + 1
				if err := c.Allreduce(Of(mine), Of(sum), Sum); err != nil {
					return err
				}
				for i := range c.Size() {
					if err := expect("sum", i+1, sum[i*1000]); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestConnectRefuses(t *testing.T) {
	t.Setenv(mux.Env("tcp"), "0")
	_, errs := connectAll(t, "ab")
	for _, err := range errs {
		require.ErrorIs(t, err, ErrNoFabric)
		require.ErrorContains(t, err, "rank 0 and rank 1 are unreachable to each other: shm: ")
		require.ErrorContains(t, err, "tcp: switched off at rank")
	}
	for _, f := range Fabrics() {
		if f.Name == "tcp" {
			require.Contains(t, f.Problem, "switched off by PSP_TCP")
		}
	}
	t.Setenv(mux.Env("tcp"), "off")
	m := (&gathering{peers: make([]launch.Peer, 2)}).meeting(0, "a", "")
	_, err := connect(t.Context(), m, nil)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, `PSP_TCP="off"`)

	t.Setenv(mux.Env("tcp"), "")
	t.Setenv(mux.EnvOrder, "tcp")
	t.Setenv(tcp.EnvNetwork, "203.0.113.0/24")
	_, errs = connectAll(t, "ab")
	require.ErrorIs(t, errs[0], ErrNoFabric)
	require.ErrorContains(t, errs[0], `PSP_NETWORK="203.0.113.0/24": nothing here is "203.0.113.0/24"; there are lo 127.0.0.1/8`[:60])
	t.Setenv(tcp.EnvNetwork, "")
	t.Setenv(tcp.EnvRetry, "many")
	_, errs = connectAll(t, "ab")
	require.ErrorContains(t, errs[1], `PSP_RETRY="many"; it is how often a connection is tried again, 0 to 1000`)
	t.Setenv(tcp.EnvRetry, "")
	t.Setenv(vigil.Env, "1s")
	_, errs = connectAll(t, "ab")
	require.ErrorContains(t, errs[1], `WEFT_DEAD_AFTER="1s"; it is how long a vanished machine goes unnoticed, a time from 2s to 1h0m0s`)
}

// What is said of TCP is wrong even where all ranks have something better.
func TestConnectChecksTCP(t *testing.T) {
	for name, wrong := range map[string]string{tcp.EnvRetry: "5000", vigil.Env: "1s", tcp.EnvCert: "/there/is/none.pem"} {
		for _, nodes := range []string{"aa", "a"} {
			t.Run(name+" "+nodes, func(t *testing.T) {
				t.Setenv(name, wrong)
				_, errs := connectAll(t, nodes)
				for _, err := range errs {
					require.ErrorIs(t, err, ErrConfig)
					require.ErrorContains(t, err, fmt.Sprintf("%s=%q", name, wrong))
				}
				t.Setenv(mux.Env(tcpName), "0") // nobody reads it then
				_, errs = connectAll(t, nodes)
				for _, err := range errs {
					require.NoError(t, err)
				}
			})
		}
	}
}
