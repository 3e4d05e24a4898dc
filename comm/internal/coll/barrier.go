// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import "weft/comm/internal/mem"

// barrierDissemination: in round k each rank sends a message to the rank 2^k above. After that
// round, each rank knows that the 2^(k+1) ranks up to itself have arrived.
func barrierDissemination(x *Schedule, _ *Call) step {
	n := x.size
	return func(i int) (bool, error) {
		dist := 1 << i
		if dist >= n {
			return false, nil
		}
		x.m.Recv((x.rank-dist+n)%n, mem.Buffer{})
		x.m.Send((x.rank+dist)%n, mem.Buffer{})
		return true, nil
	}
}
