// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/tcp"
)

// Pairs whose ranks have one parity go in the process, others over TCP.
func open(t *testing.T, n int) []fabric.Endpoint {
	near, err := inproc.New(n)
	require.NoError(t, err)
	far := make([]*tcp.Endpoint, n)
	out := make([]fabric.Endpoint, n)
	for r := range n {
		far[r], err = tcp.New(tcp.Config{Rank: r, Size: n, Secret: make([]byte, 32),
			Lookup: func(_ context.Context, peer int) (string, error) { return far[peer].Addr(), nil }})
		require.NoError(t, err)
		peers := make([]fabric.Endpoint, n)
		for p := range peers {
			peers[p] = fabric.Endpoint(far[r])
			if p%2 == r%2 {
				peers[p] = near[r]
			}
		}
		out[r] = New(r, peers)
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, e := range out {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
	})
	return out
}

func TestConformance(t *testing.T) { fabrictest.Run(t, open) }

func TestKinds(t *testing.T) {
	e := open(t, 4)[1]
	for p, want := range []string{"tcp", "inproc", "tcp", "inproc"} {
		require.Equal(t, want, e.Caps(p).Kind)
	}
}

func TestOneFabricIsItself(t *testing.T) {
	eps, err := inproc.New(2)
	require.NoError(t, err)
	require.Same(t, eps[1], New(1, []fabric.Endpoint{eps[1], eps[1]}))
	require.Panics(t, func() { New(0, []fabric.Endpoint{eps[0], eps[1]}) })
}

func env(kvs ...string) func(string) string {
	m := map[string]string{}
	for _, kv := range kvs {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return func(name string) string { return m[name] }
}

func TestWishes(t *testing.T) {
	for _, row := range []struct {
		env  string
		want Wishes
	}{
		{"", Wishes{"shm": 1, "mpi": 1, "tcp": 1}},
		{"PSP_TCP=0", Wishes{"shm": 1, "mpi": 1, "tcp": 0}},
		{"PSP_TCP=7 PSP_SHM=0", Wishes{"shm": 0, "mpi": 1, "tcp": 7}},
		{"WEFT_FABRIC=tcp", Wishes{"shm": 0, "mpi": 0, "tcp": 1}},
		{"WEFT_FABRIC=tcp,shm", Wishes{"shm": 1, "mpi": 0, "tcp": 2}},
		{"WEFT_FABRIC=tcp,shm PSP_TCP=0", Wishes{"shm": 1, "mpi": 0, "tcp": 0}},
	} {
		w, err := WishesFromEnv(env(strings.Fields(row.env)...))
		require.NoError(t, err, row.env)
		require.Equal(t, row.want, w, row.env)
	}
	for _, row := range []struct{ env, want string }{
		{"PSP_TCP=-1", `PSP_TCP="-1"; it is a priority, 0 (not to be used) to 1048576`},
		{"PSP_SHM=yes", `PSP_SHM="yes"`},
		{"WEFT_FABRIC=ucp", `WEFT_FABRIC="ucp"; it lists one or more of shm, mpi, tcp, with commas between, the best first`},
		{"WEFT_FABRIC=tcp,tcp", `WEFT_FABRIC="tcp,tcp"`},
		{"WEFT_FABRIC=tcp,", `WEFT_FABRIC="tcp,"`},
	} {
		_, err := WishesFromEnv(env(row.env))
		require.ErrorIs(t, err, ErrSetting)
		require.ErrorContains(t, err, row.want)
		name, _, _ := strings.Cut(row.env, "=")
		require.Equal(t, err.Error(), Check(name, env(row.env)).Error())
	}
	_, err := WishesFromEnv(env("PSP_TCP=x", "PSP_SHM=x"))
	require.ErrorContains(t, err, "PSP_TCP")
	require.ErrorContains(t, err, "PSP_SHM")
}

func TestChoose(t *testing.T) {
	can := func(p int) Access { return Access{Priority: p, Addr: []byte("x")} }
	for _, row := range []struct {
		a, b  Offer
		nodes string
		want  string // or the reasons
	}{
		{Offer{"shm": can(1), "tcp": can(1)}, Offer{"shm": can(1), "tcp": can(1)}, "xx", "shm"},
		{Offer{"shm": can(1), "tcp": can(1)}, Offer{"shm": can(1), "tcp": can(1)}, "xy", "tcp"},
		{Offer{"shm": can(1), "mpi": can(1), "tcp": can(1)}, Offer{"shm": can(1), "mpi": can(1), "tcp": can(1)}, "xy", "mpi"},
		{Offer{"shm": can(1), "tcp": can(2)}, Offer{"shm": can(1), "tcp": can(2)}, "xx", "tcp"},
		{Offer{"shm": can(1), "tcp": can(2)}, Offer{"shm": can(1), "tcp": can(1)}, "xx", "shm"}, // they differ: the lower one counts
		{Offer{"shm": can(0), "tcp": can(1)}, Offer{"shm": can(1), "tcp": can(1)}, "xx", "tcp"},
		{Offer{"shm": {Priority: 1, Problem: "no memory"}, "tcp": can(1)}, Offer{"shm": can(1), "tcp": can(1)}, "xx", "tcp"},
		{Offer{"shm": can(1), "tcp": can(0)}, Offer{"shm": can(1), "tcp": can(1)}, "xy",
			"rank 3 and rank 5 are unreachable to each other: shm: they are on different nodes; mpi: not in the build of rank 3; tcp: switched off at rank 3 by PSP_TCP or WEFT_FABRIC"},
		{Offer{"tcp": can(1)}, Offer{"tcp": {Priority: 1, Problem: "no sockets"}}, "xx",
			"rank 3 and rank 5 are unreachable to each other: shm: not in the build of rank 3; mpi: not in the build of rank 3; tcp: rank 5: no sockets"},
	} {
		got, err := Choose(Side{3, row.a, row.nodes[:1]}, Side{5, row.b, row.nodes[1:]})
		if err != nil {
			require.ErrorIs(t, err, ErrUnreachable)
			got = err.Error()
		}
		require.Equal(t, row.want, got)
	}
}

// Both sides choose the same, whatever they offer.
func TestChooseIsSymmetric(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	offer := func() Offer {
		o := Offer{}
		for _, name := range Names {
			switch r.IntN(4) {
			case 0:
			case 1:
				o[name] = Access{Priority: 1, Problem: "it cannot"}
			default:
				o[name] = Access{Priority: r.IntN(4)}
			}
		}
		return o
	}
	for range 5000 {
		a, b := Side{0, offer(), string(rune('a' + r.IntN(2)))}, Side{1, offer(), "a"}
		x, errX := Choose(a, b)
		y, errY := Choose(b, a)
		require.Equal(t, x, y)
		require.Equal(t, errX == nil, errY == nil)
	}
}

func TestAccessEncoding(t *testing.T) {
	for _, a := range []Access{{Priority: 1, Addr: []byte("1.2.3.4:5")}, {Priority: maxPriority, Problem: "no"}, {Addr: []byte{}}} {
		got, err := Decode(a.Encode())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	for _, b := range []string{"", "abcd", "\x01\x00\x00\x00\x02", "\xff\xff\xff\xff\x00"} {
		_, err := Decode([]byte(b))
		require.ErrorIs(t, err, ErrOffer)
	}
	long := Access{Priority: 1, Problem: strings.Repeat("x", 2*maxOffered)}
	_, err := Decode(long.Encode())
	require.NoError(t, err)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Decode(b)
		if err == nil {
			again, err := Decode(a.Encode())
			require.NoError(t, err)
			require.Equal(t, a.Priority, again.Priority)
		}
	})
}
