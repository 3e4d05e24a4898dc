// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
	"weft/internal/fabric"
	"weft/internal/fabric/inproc"
)

// Ranks are together if each pair of them shares memory. A rank reaches itself by the best of the
// fabrics by which it reaches others.
func TestFabricsOfRanks(t *testing.T) {
	one := func(rank int, node string, names ...string) side {
		s := side{rank: rank, node: node, offer: map[string]access{}}
		for i, n := range names {
			s.offer[n] = access{priority: 3 - i}
		}
		return s
	}
	sides := []side{one(0, "a", "shm", "tcp"), one(1, "a", "shm", "tcp"), one(2, "b", "shm", "tcp"), one(3, "a", "shm", "tcp"), one(4, "a", "tcp"), one(5, "z")}
	for _, row := range []struct {
		group []int32
		n     int
		want  bool
	}{
		{nil, 1, true}, {nil, 2, true}, {nil, 3, false}, {[]int32{0, 1, 3}, 3, true}, {[]int32{3, 1, 0}, 3, true}, {[]int32{0, 3, 2}, 3, false}, {[]int32{2, 0}, 2, false},
		{[]int32{2}, 1, true}, {[]int32{0, 4}, 2, false}, {[]int32{0, 5}, 2, false}, {[]int32{0, 3, 5}, 2, true},
	} {
		require.Equal(t, row.want, together(sides, row.group, row.n), "%v", row)
	}
	for self, want := range [][]string{{"shm", "shm", "tcp", "shm", "tcp"}, {"shm", "shm", "tcp", "shm", "tcp"}, {"tcp", "tcp", "tcp", "tcp", "tcp"}} {
		list, err := names(self, sides[:5])
		require.NoError(t, err)
		require.Equal(t, want, list)
	}
	list, err := names(0, []side{one(0, "a", "shm", "tcp"), one(1, "b", "shm", "tcp"), one(2, "a", "shm", "tcp")})
	require.NoError(t, err)
	require.Equal(t, []string{"shm", "tcp", "shm"}, list, "the fastest, whichever rank it is for")
	_, err = names(0, sides)
	require.ErrorIs(t, err, ErrNoFabric)
}

// The description of a fabric has its Caps, or the error why it cannot be used or closed.
func TestFabricsAreDescribed(t *testing.T) {
	f := describe("x", "y", alone)
	require.Equal(t, Fabric{Name: "x", Connects: "y", Caps: fabric.Caps{Kind: "inproc", EagerLimit: inproc.EagerLimit, SharedMemory: true}}, f)
	f = describe("x", "y", func() (fabric.Endpoint, error) { return nil, errFault })
	require.Equal(t, Fabric{Name: "x", Connects: "y", Problem: "test"}, f)
	f = describe("x", "y", func() (fabric.Endpoint, error) {
		ep, err := alone()
		return unclosed{ep}, err
	})
	require.Equal(t, "it is stuck", f.Problem)
	all := Fabrics()
	require.Len(t, all, 1+len(providers))
	require.Equal(t, []any{"inproc", ""}, []any{all[0].Name, all[0].Problem})
	require.Positive(t, all[0].Caps.EagerLimit)
	t.Setenv(env.Fabrics.Name, "nothing-of-the-kind")
	for _, f := range Fabrics()[1:] {
		require.Contains(t, f.Problem, env.Fabrics.Name, f.Name)
	}
}

type unclosed struct{ fabric.Endpoint }

func (unclosed) Close() error { return errors.New("it is stuck") }
