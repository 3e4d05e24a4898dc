// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package launch

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeLauncher has the files by which ranks find a launcher, and sends the frames of a test.
type fakeLauncher struct {
	dir, id string
	secret  Secret
	l       *net.UnixListener
}

func newFakeLauncher(t *testing.T) *fakeLauncher {
	t.Helper()
	f := &fakeLauncher{secret: newSecret()}
	var err error
	f.dir, f.id, err = makeDir([]string{shortDir(t)}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, Remove(f.dir)) })
	require.NoError(t, writeSecret(f.dir, &f.secret))
	f.l, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(f.dir, socketFile), Net: "unix"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.l.Close() })
	return f
}

// accept accepts a connection and shakes hands. said is the rank's greeting.
func (f *fakeLauncher) accept() (c net.Conn, said []byte, err error) {
	if c, err = f.l.Accept(); err != nil {
		return nil, nil, err
	}
	said, err = Handshake(c, &f.secret, jobLabel, Acceptor, nil)
	return c, said, err
}

// meet makes a rank join, and answers it with bytes.
func (f *fakeLauncher) meet(t *testing.T, p *Identity, answer []byte) (c *Client, far net.Conn, err error) {
	t.Helper()
	accepted := make(chan error, 1)
	go func() {
		var said []byte
		var err error
		if far, said, err = f.accept(); err == nil {
			if want := fmt.Sprint([]byte{byte(p.Rank >> 24), byte(p.Rank >> 16), byte(p.Rank >> 8), byte(p.Rank)}); fmt.Sprint(said) != want {
				err = fmt.Errorf("the rank says %v, not %v", said, want)
			}
			_, _ = far.Write(answer)
		}
		accepted <- err
	}()
	c, err = p.Join(t.Context())
	require.NoError(t, <-accepted)
	t.Cleanup(func() { _ = far.Close() })
	return c, far, err
}

// client returns a rank that has joined, and the launcher's end of its connection.
func (f *fakeLauncher) client(t *testing.T, rank, ranks int) (*Client, net.Conn) {
	t.Helper()
	c, far, err := f.meet(t, &Identity{rank, ranks, f.dir}, (&frame{kind: jobWelcomes, rank: int32(ranks), key: f.id}).encode())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Leave() })
	return c, far
}

// hears returns the next frame from the other end.
func hears(t *testing.T, far net.Conn) frame {
	t.Helper()
	require.NoError(t, far.SetReadDeadline(time.Now().Add(time.Minute)))
	f, err := readFrame(far)
	require.NoError(t, err)
	return f
}
