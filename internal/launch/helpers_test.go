// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

const newTestID = "0123456789abcdef" // as long as the name of a job

// say sends frames to the other end of a connection.
func say(t *testing.T, far net.Conn, frames ...frame) {
	t.Helper()
	for _, f := range frames {
		_, err := far.Write(f.encode())
		require.NoError(t, err)
	}
}

// joinedSpace returns a space whose ranks have all joined.
func joinedSpace(t *testing.T, ranks int) *space {
	t.Helper()
	s := newSpace(ranks)
	for r := range ranks {
		_, err := s.join(r)
		require.NoError(t, err)
	}
	return s
}
