// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
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
	t.Setenv(EnvSingleCopy, "often")
	_, errs = connectAll(t, "ab")
	require.ErrorIs(t, errs[1], ErrConfig)
	require.ErrorContains(t, errs[1], `WEFT_SINGLE_COPY="often"; it is a number of bytes, at least 1, or never`)
	t.Setenv(EnvSingleCopy, "")
	t.Setenv(vigil.Env, "1s")
	_, errs = connectAll(t, "ab")
	require.ErrorContains(t, errs[1], `WEFT_DEAD_AFTER="1s"; it is how long a vanished machine goes unnoticed, a time from 2s to 1h0m0s`)
}

// closing counts how often an endpoint is closed.
type closing struct {
	fabric.Endpoint
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// Whatever fails when fabrics are opened, met for and used, connect returns that error, and each fabric that was opened is
// dropped or closed once. A fabric that cannot be opened is replaced by another one.
func TestConnectLosesNoErrorAndNoFabric(t *testing.T) {
	own := providers
	defer func() { providers = own }()
	for _, x := range []struct {
		fault, want string // what fails, and what connect then says
		used        []string
	}{
		{"", "", []string{"shm", "mpi"}},
		{"open shm", "", []string{"mpi"}},
		{"open mpi", "", []string{"shm", "tcp"}},
		{"open tcp", "", []string{"shm", "mpi"}},
		{"open shm, open mpi", "", []string{"tcp"}},
		{"open shm, open mpi, open tcp", "unreachable", nil},
		{"drop tcp", "drop tcp: test", []string{"shm", "mpi"}},
		{"use shm", "shm: use shm: test", nil},
		{"use mpi", "mpi: use mpi: test", []string{"shm"}},
		{"use mpi, drop tcp", "mpi: use mpi: test\ndrop tcp: test", []string{"shm"}},
		{"meet", "meet: test", nil},
		{"meet, drop shm", "meet: test\ndrop shm: test", nil},
		{"statistics", "rank 0 and rank 2 have different settings", nil},
		{"offer", "tcp of rank 2: bad offer", nil},
	} {
		t.Run(x.fault, func(t *testing.T) {
			fault := func(what string) error {
				if slices.Contains(strings.Split(x.fault, ", "), what) {
					return fmt.Errorf("%s: %w", what, errTest)
				}
				return nil
			}
			live, used := map[string]int{}, map[string]*closing{}
			providers = nil
			for _, name := range mux.Names {
				providers = append(providers, provider{name: name, open: func(*meeting) (opened, error) {
					if err := fault("open " + name); err != nil {
						return opened{}, err
					}
					live[name]++
					return opened{
						use: func(context.Context, []launch.Peer, []int) (fabric.Endpoint, error) {
							live[name]--
							if err := fault("use " + name); err != nil {
								return nil, err
							}
							eps, err := inproc.New(3)
							require.NoError(t, err)
							used[name] = &closing{Endpoint: eps[0]}
							return used[name], nil
						},
						drop: func() error {
							live[name]--
							return fault("drop " + name)
						},
					}, nil
				}})
			}
			m := &meeting{rank: 0, size: 3, meet: func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
				peers := []launch.Peer{{Node: "a", Addrs: said}, {Rank: 1, Node: "a", Addrs: said}, {Rank: 2, Node: "b", Addrs: maps.Clone(said)}}
				if fault("statistics") != nil {
					peers[2].Addrs[statsName] = []byte("other")
				}
				if fault("offer") != nil {
					peers[2].Addrs[tcpName] = []byte("bad")
				}
				return peers, fault("meet")
			}}
			ep, err := connect(t.Context(), m, nil)
			if x.want == "" {
				require.NoError(t, err)
				require.NotNil(t, ep)
				require.NoError(t, ep.Close())
			} else {
				require.ErrorContains(t, err, x.want)
			}
			require.Len(t, used, len(x.used))
			for _, name := range x.used {
				require.Equal(t, 1, used[name].closed, name)
			}
			for name, n := range live {
				require.Zero(t, n, "%s is dropped or used once", name)
			}
		})
	}
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
