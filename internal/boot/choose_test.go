// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
)

// set sets these variables, separated by blanks, and clears all others that choose fabrics.
func set(t *testing.T, vars string) {
	for _, name := range []string{env.Fabrics.Name, env.SHM.Name, env.MPI.Name, env.TCP.Name} {
		t.Setenv(name, "")
	}
	for _, v := range strings.Fields(vars) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
}

func TestWishes(t *testing.T) {
	for _, row := range []struct {
		env  string
		want []int
	}{
		{"", []int{1, 1, 1}},
		{"PSP_TCP=0", []int{1, 1, 0}},
		{"PSP_TCP=7 PSP_SHM=0", []int{0, 1, 7}},
		{"WEFT_FABRIC=tcp", []int{0, 0, 1}},
		{"WEFT_FABRIC=tcp,shm", []int{1, 0, 2}},
		{"WEFT_FABRIC=tcp,shm PSP_TCP=0", []int{1, 0, 0}},
	} {
		set(t, row.env)
		w, err := priorities(providers)
		require.NoError(t, err, row.env)
		require.Equal(t, row.want, w, row.env)
	}
	for _, row := range []struct{ env, want string }{
		{"PSP_TCP=-1", `PSP_TCP="-1"; legal: 0 to 1048576 (priority of TCP; 0: not to be used)`},
		{"PSP_SHM=yes", `PSP_SHM="yes"`},
		{"WEFT_FABRIC=ucp", `WEFT_FABRIC="ucp"; legal: shm, mpi, tcp, or several, separated by commas`},
		{"WEFT_FABRIC=tcp,tcp", `WEFT_FABRIC="tcp,tcp"`},
		{"WEFT_FABRIC=tcp,", `WEFT_FABRIC="tcp,"`},
	} {
		set(t, row.env)
		_, err := priorities(providers)
		require.ErrorContains(t, err, row.want)
	}
	set(t, "PSP_TCP=x PSP_SHM=x")
	_, err := priorities(providers)
	require.ErrorContains(t, err, "PSP_TCP")
	require.ErrorContains(t, err, "PSP_SHM")
}

func TestChoose(t *testing.T) {
	can := func(p int) access { return access{priority: p, addr: []byte("x")} }
	for _, row := range []struct {
		a, b  map[string]access
		nodes string
		want  string // or the reasons
	}{
		{map[string]access{"shm": can(1), "tcp": can(1)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xx", "shm"},
		{map[string]access{"shm": can(1), "tcp": can(1)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xy", "tcp"},
		{map[string]access{"shm": can(1), "mpi": can(1), "tcp": can(1)}, map[string]access{"shm": can(1), "mpi": can(1), "tcp": can(1)}, "xy", "mpi"},
		{map[string]access{"shm": can(1), "tcp": can(2)}, map[string]access{"shm": can(1), "tcp": can(2)}, "xx", "tcp"},
		// they differ: the lower one counts
		{map[string]access{"shm": can(1), "tcp": can(2)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xx", "shm"},
		{map[string]access{"shm": can(0), "tcp": can(1)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xx", "tcp"},
		{map[string]access{"shm": {priority: 1, problem: "no memory"}, "tcp": can(1)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xx", "tcp"},
		{map[string]access{"shm": can(1), "tcp": can(0)}, map[string]access{"shm": can(1), "tcp": can(1)}, "xy",
			"rank 3 and rank 5 are unreachable to each other: shm: they are on different nodes; mpi: not in the build of rank 3; tcp: switched off at rank 3 by PSP_TCP or WEFT_FABRIC"},
		{map[string]access{"tcp": can(1)}, map[string]access{"tcp": {priority: 1, problem: "no sockets"}}, "xx",
			"rank 3 and rank 5 are unreachable to each other: shm: not in the build of rank 3; mpi: not in the build of rank 3; tcp: rank 5: no sockets"},
	} {
		got, err := choose(providers, side{3, row.a, row.nodes[:1]}, side{5, row.b, row.nodes[1:]})
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
	offer := func() map[string]access {
		o := map[string]access{}
		for _, name := range env.FabricNames {
			switch r.IntN(4) {
			case 0:
			case 1:
				o[name] = access{priority: 1, problem: "it cannot"}
			default:
				o[name] = access{priority: r.IntN(4)}
			}
		}
		return o
	}
	for range 5000 {
		a, b := side{0, offer(), string(rune('a' + r.IntN(2)))}, side{1, offer(), "a"}
		x, errX := choose(providers, a, b)
		y, errY := choose(providers, b, a)
		require.Equal(t, x, y)
		require.Equal(t, errX == nil, errY == nil)
	}
}

func TestAccessEncoding(t *testing.T) {
	for _, a := range []access{{priority: 1, addr: []byte("1.2.3.4:5")}, {priority: env.MaxPriority, problem: "no"}, {addr: []byte{}}} {
		got, err := decode(a.encode())
		require.NoError(t, err)
		require.Equal(t, a, got)
	}
	for _, b := range []string{"", "abcd", "\x01\x00\x00\x00\x02", "\xff\xff\xff\xff\x00"} {
		_, err := decode([]byte(b))
		require.ErrorIs(t, err, ErrOffer)
	}
	long := access{priority: 1, problem: strings.Repeat("x", 2*maxOffered)}
	_, err := decode(long.encode())
	require.NoError(t, err)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decode(b)
		if err == nil {
			again, err := decode(a.encode())
			require.NoError(t, err)
			require.Equal(t, a.priority, again.priority)
		}
	})
}
