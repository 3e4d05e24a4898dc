// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lobby

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func pipe(t *testing.T) (mine, theirs net.Conn) {
	mine, theirs = net.Pipe()
	t.Cleanup(func() { _, _ = mine.Close(), theirs.Close() })
	return mine, theirs
}

// The oldest connection is evicted, and not before its time.
func TestTheOldestIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(2)
		a, aEnd := pipe(t)
		b, bEnd := pipe(t)
		c, _ := pipe(t)
		start := time.Now()
		require.True(t, l.Enter(a, nil))
		time.Sleep(safe / 2)
		require.True(t, l.Enter(b, nil))
		require.Equal(t, safe/2, time.Since(start))
		require.True(t, l.Enter(c, nil))
		require.Equal(t, safe, time.Since(start))
		_, err := aEnd.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.False(t, l.Leave(a)) // as its goroutine does
		go func() { _, _ = b.Write([]byte{1}) }()
		_, err = bEnd.Read(make([]byte, 1))
		require.NoError(t, err)
	})
}

// A connection that leaves makes room at once.
func TestLeaveMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1)
		a, _ := pipe(t)
		b, _ := pipe(t)
		require.True(t, l.Enter(a, nil))
		start := time.Now()
		go func() {
			time.Sleep(safe / 4)
			l.Leave(a)
			l.Leave(a)
		}()
		require.True(t, l.Enter(b, nil))
		require.Equal(t, safe/4, time.Since(start))
		require.True(t, l.Leave(b))
		require.Empty(t, l.unproved)
	})
}

// Enter does not wait once its listener is closed.
func TestClosing(t *testing.T) {
	l := New(1)
	a, _ := pipe(t)
	b, bEnd := pipe(t)
	require.True(t, l.Enter(a, nil))
	closing := make(chan struct{})
	close(closing)
	require.False(t, l.Enter(b, closing))
	_, err := bEnd.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
