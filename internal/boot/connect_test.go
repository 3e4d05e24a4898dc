// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
	"weft/internal/launch"
	"weft/internal/progress"
)

var errFault = errors.New("test")

// gathering replaces the launcher: ranks that are goroutines meet by it.
type gathering struct {
	mu    sync.Mutex
	peers []launch.Peer
	left  int
	all   chan struct{}
}

func (g *gathering) job(rank int, node string) *Job {
	return &Job{
		Rank: rank, Size: len(g.peers), node: launch.NodeID(node), secret: make([]byte, 32),
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
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { eps[r], errs[r] = g.job(r, nodes[r:r+1]).Connect(t.Context(), Own{}) })
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

// Frames between ranks of several nodes arrive, over the fabrics that connect the ranks.
func TestConnect(t *testing.T) {
	eps, errs := connectAll(t, "aabb")
	for r := range errs {
		require.NoError(t, errs[r])
	}
	got := make(chan [2]int, len(eps)*len(eps))
	for r, ep := range eps {
		for p := range eps {
			if p/2 != r/2 {
				require.Equal(t, "tcp", ep.Caps(p).Kind)
			}
		}
		ep.Bind(handler(func(src int, f fabric.Frame) { got <- [2]int{src, int(f.Head[0])} }), progress.New(ep.Sources(), progress.Config{Ranks: 1}))
	}
	for _, ep := range eps {
		for p := range eps {
			require.NoError(t, ep.Send(p, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(p)}}))
		}
	}
	seen := map[[2]int]bool{}
	for range len(eps) * len(eps) {
		seen[<-got] = true
	}
	require.Len(t, seen, len(eps)*len(eps))
}

type handler func(src int, f fabric.Frame)

func (h handler) Deliver(f *fabric.Frame) bool { h(int(f.Origin), *f); return false }
func (handler) Lost(int, error)                {}

func TestConnectRefuses(t *testing.T) {
	t.Setenv(env.TCP.Name, "0")
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
	t.Setenv(env.TCP.Name, "off")
	_, err := (&gathering{peers: make([]launch.Peer, 2)}).job(0, "a").Connect(t.Context(), Own{})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, `PSP_TCP="off"`)

	t.Setenv(env.TCP.Name, "")
	t.Setenv(env.Fabrics.Name, "tcp")
	t.Setenv(env.Networks.Name, "203.0.113.0/24")
	_, errs = connectAll(t, "ab")
	require.ErrorIs(t, errs[0], ErrNoFabric)
	require.ErrorContains(t, errs[0], `PSP_NETWORK="203.0.113.0/24": no interface or address here matches "203.0.113.0/24"; there are lo 127.0.0.1/8`[:60])
	t.Setenv(env.Networks.Name, "")
	t.Setenv(env.Retry.Name, "many")
	_, errs = connectAll(t, "ab")
	require.ErrorContains(t, errs[1], `PSP_RETRY="many"; legal: 0 to 1000 (`)
	t.Setenv(env.Retry.Name, "")
	t.Setenv(env.SingleCopy.Name, "often")
	_, errs = connectAll(t, "ab")
	require.ErrorIs(t, errs[1], ErrConfig)
	require.ErrorContains(t, errs[1], `WEFT_SINGLE_COPY="often"; legal: bytes, at least 1, or never`)
	t.Setenv(env.SingleCopy.Name, "")
	t.Setenv(env.DeadAfter.Name, "1s")
	_, errs = connectAll(t, "ab")
	require.ErrorContains(t, errs[1], `WEFT_DEAD_AFTER="1s"; legal: a time from 2s to 1h`)
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

// If opening, meeting or using fails, Connect returns that error, and drops or closes each opened
// fabric once. Another fabric replaces one that cannot be opened.
func TestConnectLosesNoErrorAndNoFabric(t *testing.T) {
	own := providers
	defer func() { providers = own }()
	for _, x := range []struct {
		fault, want string // the step that fails, and the error of Connect
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
		{"settings", "rank 2 has other settings: other", nil},
		{"offer", "tcp of rank 2: bad offer", nil},
	} {
		t.Run(x.fault, func(t *testing.T) {
			fault := func(what string) error {
				if slices.Contains(strings.Split(x.fault, ", "), what) {
					return fmt.Errorf("%s: %w", what, errFault)
				}
				return nil
			}
			live, used := map[string]int{}, map[string]*closing{}
			providers = nil
			for i, name := range env.FabricNames {
				providers = append(providers, provider{name: name, priority: own[i].priority, nodeOnly: own[i].nodeOnly, open: func(*Job) (opened, error) {
					if err := fault("open " + name); err != nil {
						return opened{}, err
					}
					live[name]++
					return opened{
						use: func([]launch.Peer, []int) (fabric.Endpoint, error) {
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
			j := &Job{Rank: 0, Size: 3, meet: func(_ context.Context, said map[string][]byte) ([]launch.Peer, error) {
				peers := []launch.Peer{{Node: "a", Addrs: said}, {Rank: 1, Node: "a", Addrs: said}, {Rank: 2, Node: "b", Addrs: maps.Clone(said)}}
				if fault("settings") != nil {
					peers[2].Addrs[settingsName] = []byte("other")
				}
				if fault("offer") != nil {
					peers[2].Addrs["tcp"] = []byte("bad")
				}
				return peers, fault("meet")
			}}
			ep, err := j.Connect(t.Context(), Own{Differ: func(rank int, theirs []byte) error {
				return fmt.Errorf("rank %d has other settings: %s", rank, theirs)
			}})
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

// A wrong setting of TCP is an error even where all ranks use a better fabric.
func TestConnectChecksTCP(t *testing.T) {
	for name, wrong := range map[string]string{env.Retry.Name: "5000", env.DeadAfter.Name: "1s", env.TLSCert.Name: "/there/is/none.pem"} {
		for _, nodes := range []string{"aa", "a"} {
			t.Run(name+" "+nodes, func(t *testing.T) {
				t.Setenv(name, wrong)
				_, errs := connectAll(t, nodes)
				for _, err := range errs {
					require.ErrorIs(t, err, ErrConfig)
					require.ErrorContains(t, err, fmt.Sprintf("%s=%q", name, wrong))
				}
				t.Setenv(env.TCP.Name, "0") // then no rank reads the setting
				_, errs = connectAll(t, nodes)
				for _, err := range errs {
					require.NoError(t, err)
				}
			})
		}
	}
}

// When MPI starts ranks, they share their nodes and the unknown names in their environments. Rank 0
// warns of these names, with the ranks that have them.
func TestWarnOthers(t *testing.T) {
	for _, rank := range []int{0, 1} {
		var out bytes.Buffer
		shares := [][]byte{[]byte("a\x00"), []byte("b\x00WEFT_THIS,WEFT_THAT"), []byte("c\x00WEFT_THIS")}
		warnOthers(slog.New(slog.NewTextHandler(&out, nil)), rank, shares)
		require.Equal(t, [][]byte{[]byte("a"), []byte("b"), []byte("c")}, shares)
		if rank != 0 {
			require.Empty(t, out.String())
			continue
		}
		require.Equal(t, 2, strings.Count(out.String(), "\n"))
		require.Regexp(t, `name=WEFT_THIS .*rank=1\n.*name=WEFT_THAT .*rank=1\n`, out.String())
	}
}
