// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/mux"
	"weft/internal/fabric/tcp"
	"weft/internal/friend"
)

// Ranks are together if each pair of them shares memory; a rank reaches itself by the first of the
// fabrics by which it reaches others.
func TestFabricsOfRanks(t *testing.T) {
	side := func(rank int, node string, names ...string) mux.Side {
		s := mux.Side{Rank: rank, Node: node, Offer: mux.Offer{}}
		for i, n := range names {
			s.Offer[n] = mux.Access{Priority: 3 - i}
		}
		return s
	}
	sides := []mux.Side{side(0, "a", "shm", "tcp"), side(1, "a", "shm", "tcp"), side(2, "b", "shm", "tcp"), side(3, "a", "shm", "tcp"), side(4, "a", "tcp"), side(5, "z")}
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
		names, err := choose(self, sides[:5])
		require.NoError(t, err)
		require.Equal(t, want, names)
	}
	names, err := choose(0, []mux.Side{side(0, "a", "shm", "tcp"), side(1, "b", "shm", "tcp"), side(2, "a", "shm", "tcp")})
	require.NoError(t, err)
	require.Equal(t, []string{"shm", "tcp", "shm"}, names, "the fastest, whichever rank it is for")
	_, err = choose(0, sides)
	require.ErrorIs(t, err, ErrNoFabric)
}

// What fabrics say of themselves is told, and so is why one cannot be used, or not be closed.
func TestFabricsAreDescribed(t *testing.T) {
	f := describe("x", "y", func() (fabric.Endpoint, error) { return &nowhere{size: 1}, nil })
	require.Equal(t, Fabric{Name: "x", Connects: "y", EagerLimit: 64, Ordered: true}, f)
	f = describe("x", "y", func() (fabric.Endpoint, error) { return nil, errTest })
	require.Equal(t, Fabric{Name: "x", Connects: "y", Problem: "test"}, f)
	f = describe("x", "y", func() (fabric.Endpoint, error) { return &unclosed{}, nil })
	require.Equal(t, "it is stuck", f.Problem)
	all := Fabrics()
	require.Len(t, all, 1+len(providers))
	require.Equal(t, []any{"inproc", ""}, []any{all[0].Name, all[0].Problem})
	require.Positive(t, all[0].EagerLimit)
	t.Setenv(mux.EnvOrder, "nothing-of-the-kind")
	for _, f := range Fabrics()[1:] {
		require.Contains(t, f.Problem, mux.EnvOrder, f.Name)
	}
}

type unclosed struct{ nowhere }

func (*unclosed) Close() error { return errors.New("it is stuck") }

// Values of the environment are taken up to their last one, and refused beyond.
func TestValuesOfFabrics(t *testing.T) {
	for value, legal := range map[string]bool{"": true, "0": true, "1": true, "1000": true, "1001": false, "-1": false, "x": false, "1.5": false} {
		require.Equal(t, legal, friend.Checks[tcp.EnvRetry](value) == nil, value)
	}
	for value, want := range map[string]int{"": 0, "never": -1, "1": 1, "65536": 65536, "0": 0, "-1": 0, "x": 0} {
		n, err := singleCopy(value)
		require.Equal(t, want, n, value)
		wrong := value == "0" || value == "-1" || value == "x"
		require.Equal(t, wrong, err != nil, value)
		require.Equal(t, wrong, friend.Checks[EnvSingleCopy](value) != nil, value)
		if wrong {
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, fmt.Sprintf("%s=%q", EnvSingleCopy, value))
		}
	}
	for n, legal := range map[string]bool{"1": true, "1048576": true, "1048577": false, "0": false, "-1": false, "": false} {
		require.Equal(t, legal, friend.Checks[EnvRanks](n) == nil, n)
	}
}
