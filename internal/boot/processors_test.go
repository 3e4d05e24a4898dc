// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/launch"
)

// The processors of a node are those of all its ranks, which may be bound to parts of the machine.
func TestNodeProcessors(t *testing.T) {
	on := func(node, processors string) launch.Peer {
		return launch.Peer{Node: launch.NodeID(node), Addrs: map[string][]byte{processorsName: []byte(processors)}}
	}
	for _, row := range []struct {
		peers []launch.Peer
		want  int
	}{
		{[]launch.Peer{on("a", "0"), on("a", "1")}, 2},
		{[]launch.Peer{on("a", "0-3"), on("a", "2-5,9")}, 7},
		{[]launch.Peer{on("a", "0"), on("b", "1"), on("a", "0")}, 1},
		{[]launch.Peer{on("a", "0"), on("a", "")}, 0},
		{[]launch.Peer{on("a", "0"), {Node: "a"}}, 0},
	} {
		require.Equal(t, row.want, nodeProcessors(row.peers, 0))
	}
}
