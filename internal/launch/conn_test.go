// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// backlog returns how many frames are queued, and whether the connection has ended.
func (k *conn) backlog() (int, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.frames), k.stopped
}

// maxBacklog frames, besides those of exchanges, are queued for a rank that does not read. With one
// more its connection ends, and accepts no more frames.
func TestBacklogOfAConnection(t *testing.T) {
	for _, ranks := range []int{0, 1, 3} {
		near, far := net.Pipe()
		k := newConn(near)
		for i := range maxBacklog + 2*ranks + 1 {
			n, stopped := k.backlog()
			require.Equal(t, i, n)
			require.False(t, stopped)
			k.queue([]byte{1}, ranks)
		}
		for range 2 {
			k.queue([]byte{1}, ranks)
			n, stopped := k.backlog()
			require.Equal(t, maxBacklog+2*ranks+1, n)
			require.True(t, stopped)
		}
		_, err := far.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
	}
	near, _ := net.Pipe()
	k := newConn(near)
	k.stop()
	k.stop()
	k.send(&frame{kind: jobOver})
	n, _ := k.backlog()
	require.Zero(t, n)
}

// Queued frames arrive whole and in their order. flushed waits for frames in the queue and for
// those that are being written.
func TestFlushedWaits(t *testing.T) {
	const limit = time.Second
	flush := func(k *conn) time.Duration {
		start := time.Now()
		k.flushed(limit)
		return time.Since(start)
	}
	pipe := func(begin func(k *conn, far net.Conn)) {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			k := newConn(near)
			var wg sync.WaitGroup
			wg.Go(k.write)
			synctest.Wait() // it sleeps
			begin(k, far)
			k.stop()
			wg.Wait()
		})
	}
	pipe(func(k *conn, far net.Conn) {
		require.Zero(t, flush(k), "the queue is empty")
		for i := range 3 {
			k.send(&frame{kind: jobOver, code: int32(i)})
		}
		synctest.Wait()
		n, _ := k.backlog()
		require.Less(t, n, 3, "some are being written")
		got := make(chan int32, 3)
		go func() {
			time.Sleep(limit / 2)
			for range 3 {
				f, _ := readFrame(far)
				got <- f.code
			}
		}()
		require.Equal(t, limit/2, flush(k))
		require.Equal(t, []int32{0, 1, 2}, []int32{<-got, <-got, <-got})
		require.Zero(t, flush(k))
	})
	pipe(func(k *conn, far net.Conn) { // one frame, which is being written
		k.send(&frame{kind: jobOver})
		synctest.Wait()
		n, _ := k.backlog()
		require.Zero(t, n)
		time.AfterFunc(limit/4, func() { _, _ = readFrame(far) })
		require.Equal(t, limit/4, flush(k))
	})
	pipe(func(k *conn, far net.Conn) { // the other end does not read
		k.send(&frame{kind: jobOver})
		require.Equal(t, limit, flush(k))
		require.Zero(t, flush(k), "it has ended")
		// Frames that the other end has sent before must still be read.
		go func() { _, _ = far.Write([]byte("last")) }()
		b := make([]byte, 4)
		_, err := io.ReadFull(k.c, b)
		require.NoError(t, err)
		require.Equal(t, "last", string(b))
	})
	pipe(func(k *conn, far net.Conn) { // the connection is stopped meanwhile
		k.send(&frame{kind: jobOver})
		time.AfterFunc(limit/8, k.stop)
		require.Equal(t, limit/8, flush(k))
	})
	pipe(func(k *conn, far net.Conn) { // or by the other end
		k.send(&frame{kind: jobOver})
		time.AfterFunc(limit/8, func() { _ = far.Close() })
		require.Equal(t, limit/8, flush(k))
	})
}

// The writer finds that the other end does not read, or has closed, while others go on queueing
// frames.
func TestQueueWhileTheWriterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		require.NoError(t, near.SetWriteDeadline(time.Now().Add(time.Second)))
		k := newConn(near)
		var wg sync.WaitGroup
		wg.Go(k.write)
		k.send(&frame{kind: jobOver})
		synctest.Wait() // it is being written
		k.send(&frame{kind: jobOver, code: 1})
		time.Sleep(2 * time.Second)
		wg.Wait()
		k.send(&frame{kind: jobOver, code: 2})
		n, stopped := k.backlog()
		require.True(t, stopped)
		require.Equal(t, 1, n, "the frame that was queued then, and no more")
		_, err := near.Write([]byte{1})
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the reader closes it")
		_ = far.Close()
	})
}

// A writer with frames to write ends when its connection is stopped, and writes none of them.
func TestStoppedWriterWritesNothing(t *testing.T) {
	near, far := net.Pipe()
	k := newConn(near)
	k.send(&frame{kind: jobOver})
	k.stop()
	k.write()
	_, err := far.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// Frames are the same if all their fields are; values are compared by their addresses.
func TestSameFrames(t *testing.T) {
	v := []byte("abc")
	f := frame{kind: 1, rank: 2, code: 3, id: 4, key: "k", value: v}
	none := frame{kind: 1}
	for what, change := range map[string]func(f *frame){
		"kind": func(f *frame) { f.kind++ }, "rank": func(f *frame) { f.rank++ }, "code": func(f *frame) { f.code++ }, "id": func(f *frame) { f.id++ },
		"key": func(f *frame) { f.key = "l" }, "length": func(f *frame) { f.value = v[:2] }, "address": func(f *frame) { f.value = []byte("abc") }, "no value": func(f *frame) { f.value = nil },
	} {
		g := f
		require.True(t, sameFrame(&f, &g))
		change(&g)
		require.False(t, sameFrame(&f, &g), what)
		require.False(t, sameFrame(&g, &f), what)
	}
	require.True(t, sameFrame(&none, &frame{kind: 1, value: []byte{}}))
}

// A frame for several ranks is encoded once, and ranks that are not connected are skipped.
func TestFramesAreEncodedOnce(t *testing.T) {
	s := bareServer(ServerConfig{Ranks: 4})
	var conns []*conn
	for r := range 4 {
		near, _ := net.Pipe()
		conns = append(conns, newConn(near))
		if r != 2 {
			s.conns[r] = conns[r]
		}
	}
	one, two := frame{kind: jobNotifies, value: []byte("one")}, frame{kind: jobNotifies, value: []byte("two")}
	s.mu.Lock()
	s.postLocked([]post{{0, one}, {1, one}, {2, one}, {3, one}, {3, two}, {0, two}, {0, one}})
	s.mu.Unlock()
	f := func(rank, i int) []byte { return conns[rank].frames[i] }
	require.Equal(t, []int{3, 1, 0, 2}, []int{len(conns[0].frames), len(conns[1].frames), len(conns[2].frames), len(conns[3].frames)})
	require.Same(t, &f(0, 0)[0], &f(1, 0)[0])
	require.Same(t, &f(0, 0)[0], &f(3, 0)[0])
	require.Same(t, &f(0, 1)[0], &f(3, 1)[0])
	for rank, want := range map[int][]frame{0: {one, two, one}, 1: {one}, 3: {one, two}} {
		for i, w := range want {
			require.Equal(t, w.encode(), f(rank, i))
		}
	}
}
