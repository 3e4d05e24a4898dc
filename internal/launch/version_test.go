// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// An acceptor of another version sends its version, so that the initiator reports it and does not
// try again.
func TestHandshakeOfAnotherVersion(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	var secret Secret
	accepted := make(chan error, 1)
	go func() {
		defer far.Close()
		_, err := Handshake(far, &secret, "label", Acceptor, nil)
		accepted <- err
	}()
	hello := makeHello(Initiator, []byte("greeting"))
	hello[4]++
	_, err := near.Write(hello)
	require.NoError(t, err)
	answer, err := readHello(near, Acceptor)
	require.NoError(t, err)
	require.EqualValues(t, Version, answer[4])
	err = <-accepted
	require.ErrorIs(t, err, ErrProtocol)
	require.ErrorContains(t, err, fmt.Sprintf("version %d on the other side, %d here", Version+1, Version))

	// The same from the initiator's side.
	near, far = net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		if _, err := readHello(far, Initiator); err == nil {
			hello := makeHello(Acceptor, nil)
			hello[4]--
			_, _ = far.Write(hello)
		}
	}()
	tries := 0
	err = retryHandshake(t.Context(), func() error {
		tries++
		_, err := Handshake(near, &secret, "label", Initiator, nil)
		return err
	})
	require.ErrorContains(t, err, fmt.Sprintf("version %d on the other side, %d here", Version-1, Version))
	require.Equal(t, 1, tries)
}
