// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The initiator distinguishes the end of a connection from other errors, and knows how far the
// other side had got; the acceptor does not.
func TestConnectionsThatAreCutOff(t *testing.T) {
	s := newSecret()
	for cause, cut := range map[error]bool{io.EOF: true, io.ErrUnexpectedEOF: true, syscall.ECONNRESET: true, syscall.EPIPE: true, syscall.ETIMEDOUT: false, context.Canceled: false} {
		wrapped := fmt.Errorf("wrapped: %w", cause)
		require.Equal(t, cut, cutOff(wrapped), cause)
		for step, heard := range []bool{false, false, true, true} {
			for _, side := range []Side{Initiator, Acceptor} {
				if side == Acceptor && step == 3 {
					continue // it has had the proof by then
				}
				_, err := Handshake(&stepwise{reads: bytes.NewReader(makeHello(side.other(), nil)), step: step, err: wrapped}, &s, "label", side, nil)
				var off *cutError
				require.ErrorIs(t, err, cause)
				require.Equal(t, cut && side == Initiator, errors.As(err, &off), "side %d, step %d: %v", side, step, cause)
				if off != nil {
					require.Equal(t, cutError{heard: heard, err: wrapped}, *off, "step %d", step)
				}
			}
		}
		_, err := readAnswer(&stepwise{err: wrapped})
		if cut {
			require.Equal(t, &cutError{heard: true, proved: true, err: wrapped}, err)
		} else {
			require.Equal(t, wrapped, err)
		}
	}
	f := frame{kind: jobOver, value: []byte{}}
	got, err := readAnswer(bytes.NewReader(f.encode()))
	require.NoError(t, err)
	require.Equal(t, f, got)
	for want, e := range map[string]cutError{
		"the other side has ended the connection: EOF":                                                                                                    {heard: true, proved: true},
		"the other side has ended the connection; the secret files may differ: EOF":                                                                       {heard: true},
		"the other side has ended the connection before it said anything; it may speak another version, or have more connections than it can handle: EOF": {},
	} {
		e.err = io.EOF
		require.EqualError(t, &e, want)
	}
	require.EqualError(t, versionError(9), "protocol error: version 9 on the other side, 2 here; build launcher and program from the same weft")
}

// A connection that was cut off is retried, at growing intervals, for the time of a handshake; but
// only a few times if the other side's hello had arrived.
func TestHowOftenAConnectionIsTried(t *testing.T) {
	tries := func(ctx context.Context, err error) (at []time.Duration) {
		start := time.Now()
		got := retryHandshake(ctx, func() error {
			at = append(at, time.Since(start))
			return err
		})
		require.Equal(t, err, got)
		require.Equal(t, at[len(at)-1], time.Since(start), "it does not wait when it gives up")
		return at
	}
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		want := []time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 150 * ms, 310 * ms, 630 * ms, 1270 * ms}
		require.Equal(t, want[:1+retriesAfterHello], tries(t.Context(), fmt.Errorf("wrapped: %w", &cutError{heard: true, err: io.EOF})))
		for at := want[len(want)-1] + time.Second; at < handshakeTime+time.Second; at += time.Second {
			want = append(want, at)
		}
		require.Equal(t, want, tries(t.Context(), &cutError{err: io.EOF}))
		require.Equal(t, want[:1], tries(t.Context(), io.EOF))
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, want[:1], tries(over, &cutError{err: io.EOF}))
		start, n := time.Now(), 0
		late, cancel := context.WithTimeout(t.Context(), 20*ms)
		defer cancel()
		require.ErrorIs(t, retryHandshake(late, func() error { n++; return &cutError{err: io.EOF} }), io.EOF)
		require.Equal(t, 2, n)
		require.Equal(t, 20*ms, time.Since(start))
		n = 0
		require.NoError(t, retryHandshake(t.Context(), func() error {
			if n++; n < 3 {
				return &cutError{heard: true, err: io.EOF}
			}
			return nil
		}))
		require.Equal(t, 3, n)
	})
}
