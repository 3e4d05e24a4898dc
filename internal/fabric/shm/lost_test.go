//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
	"weft/internal/leaktest"
	"weft/internal/progress"
)

// collector is a handler that counts frames.
type collector struct {
	frames atomic.Int64
	each   func(src int, f fabric.Frame)
	lost   chan error
}

func (c *collector) Deliver(f *fabric.Frame) bool {
	c.frames.Add(1)
	if c.each != nil {
		c.each(int(f.Origin), *f)
	}
	return false
}

func (c *collector) Lost(_ int, err error) { c.lost <- err }

// TestMain makes the test program a rank if it is started as one.
func TestMain(m *testing.M) {
	if addr := os.Getenv("SHM_TEST_PARENT"); addr != "" {
		child(addr)
		return
	}
	os.Exit(leaktest.Main(m))
}

// child is rank 1. It prints its address, and obeys the commands on its input.
func child(parent string) {
	ep, err := New(Config{Rank: 1, Size: 2, SingleCopy: 512 << 10, Lookup: func(int) (string, error) { return parent, nil }})
	if err != nil {
		panic(err)
	}
	bind(ep, &collector{lost: make(chan error, 1), each: func(_ int, f fabric.Frame) {
		if f.Head[0] == 7 { // the parent waits for these bytes
			ep.Push(0, f.Head[1], bytes.Repeat([]byte("p"), 1<<20), func(error) {})
		}
	}})
	fmt.Println(ep.Addr())
	one := make([]byte, 1)
	for {
		if _, err := os.Stdin.Read(one); err != nil {
			return
		}
		switch one[0] {
		case 's': // many frames, and then an end without goodbye
			for i := range 1000 {
				_ = ep.Send(0, fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(i)}, Data: make([]byte, 100)})
			}
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		case 'k':
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		case 'c':
			_ = ep.Close()
			return
		}
	}
}

// startChild starts rank 1 as a process. Its address is known when it returns.
func startChild(t *testing.T) (*Endpoint, *collector, *exec.Cmd, io.Writer) {
	t.Helper()
	addr := ""
	ep, err := New(Config{Size: 2, Lookup: func(int) (string, error) { return addr, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { _ = ep.Close() })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SHM_TEST_PARENT="+ep.Addr())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, 0, 200)
	one := make([]byte, 1)
	for {
		_, err := out.Read(one)
		require.NoError(t, err)
		if one[0] == '\n' {
			break
		}
		line = append(line, one[0])
	}
	addr = string(line)
	c := &collector{lost: make(chan error, 10)}
	bind(ep, c)
	return ep, c, cmd, in
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			require.Fail(t, "not within 20 s")
		}
		time.Sleep(time.Millisecond)
	}
}

// A process that is killed is lost once, after the last frame that it has sent. Transfers that wait
// for it end.
func TestKilled(t *testing.T) {
	ep, c, cmd, in := startChild(t)
	ended := make(chan error, 2)
	ep.Expect(1, 5, make([]byte, 1<<20), func(err error) { ended <- err })
	require.NoError(t, ep.Send(1, fabric.Frame{Data: []byte("hello")}))
	_, _ = in.Write([]byte("s"))
	_ = cmd.Wait()
	err := <-c.lost
	require.ErrorContains(t, err, "has ended")
	require.ErrorContains(t, err, "rank 1")
	require.EqualValues(t, 1000, c.frames.Load())
	require.ErrorContains(t, <-ended, "has ended")
	require.ErrorContains(t, ep.Send(1, fabric.Frame{}), "has ended")
	ep.Push(1, 6, make([]byte, 1<<20), func(err error) { ended <- err })
	require.ErrorContains(t, <-ended, "has ended")
	require.NoError(t, ep.Close())
	require.Empty(t, c.lost)
}

// awaitEnd also returns if the process has ended before the call.
func TestAwaitEnd(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	require.NoError(t, cmd.Start())
	fd, err := unix.PidfdOpen(cmd.Process.Pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ENOSYS) {
		_ = cmd.Wait()
		t.Skip("the kernel has no pidfd")
	}
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "process")
	defer f.Close()
	require.NoError(t, f.SetDeadline(time.Now().Add(20*time.Second)), "Go's poller has it")
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	time.Sleep(10 * time.Millisecond) // Go's poller gets the event
	require.NoError(t, awaitEnd(raw))
}

// A process that says goodbye is not lost, and a frame to it is refused.
func TestGoodbye(t *testing.T) {
	ep, c, cmd, in := startChild(t)
	require.NoError(t, ep.Send(1, fabric.Frame{}))
	_, _ = in.Write([]byte("c"))
	_ = cmd.Wait()
	eventually(t, func() bool { return errors.Is(ep.Send(1, fabric.Frame{}), fabric.ErrClosed) })
	require.Empty(t, c.lost)
}

// Transfers between two processes: one that ends, and some that the death of one process cuts off.
func TestTransfer(t *testing.T) {
	ep, c, cmd, in := startChild(t)
	dst := make([]byte, 1<<20)
	ended := make(chan error, 100)
	ep.Expect(1, 42, dst, func(err error) { ended <- err })
	require.NoError(t, ep.Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{7, 42}}))
	require.NoError(t, <-ended)
	require.Equal(t, bytes.Repeat([]byte("p"), 1<<20), dst)
	for k := range 20 {
		key := uint64(100 + k)
		ep.Expect(1, key, make([]byte, 1<<20), func(err error) { ended <- err })
		require.NoError(t, ep.Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{7, key}}))
	}
	_, _ = in.Write([]byte("k"))
	_ = cmd.Wait()
	for range 20 {
		<-ended // with or without error, but it ends
	}
	require.ErrorContains(t, <-c.lost, "has ended")
}

// The process has ended before the first frame to it.
func TestProcessHasEnded(t *testing.T) {
	ep, c, cmd, in := startChild(t)
	_, _ = in.Write([]byte("k"))
	_ = cmd.Wait()
	require.Error(t, ep.Send(1, fabric.Frame{}))
	require.ErrorContains(t, <-c.lost, "rank 1")
}

// Malformed addresses, and the address of another job's rank, are refused.
func TestBadAddress(t *testing.T) {
	other, err := New(Config{Size: 3})
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	for _, addr := range []string{"", "x", "1 2 3", "-1 0 0 00 0", fmt.Sprintf("%d 0 0 %032x 0", os.Getpid(), 0), other.Addr()} {
		ep, err := New(Config{Size: 2, Lookup: func(int) (string, error) { return addr, nil }})
		require.NoError(t, err)
		c := &collector{lost: make(chan error, 1)}
		bind(ep, c)
		require.Error(t, ep.Send(1, fabric.Frame{}), addr)
		require.ErrorContains(t, <-c.lost, "rank 1", addr)
		require.NoError(t, ep.Close())
	}
}

// Frames and transfers of all sizes from several goroutines at each end, with a handler that
// answers and goroutines that poll now and then: nothing is lost, doubled or out of order.
func TestHammer(t *testing.T) {
	for _, single := range []int{1, -1, 100 << 10} {
		const ranks, senders, per = 3, 2, 200
		eps := openAll(t, ranks, func(c *Config) { c.SingleCopy = single })
		var bad atomic.Int64
		var answers, arrived sync.WaitGroup
		arrived.Add(ranks * (ranks - 1) * senders * per)
		answers.Add(ranks * (ranks - 1) * senders * per)
		engines := make([]*progress.Engine, ranks)
		for r, e := range eps {
			next := make([][senders]uint64, ranks)
			engines[r] = bind(e, &collector{lost: make(chan error, 10), each: func(src int, f fabric.Frame) {
				if f.Head[5] == 1 { // an answer
					answers.Done()
					return
				}
				s := f.Head[0]
				if f.Head[1] != next[src][s] {
					bad.Add(1)
				}
				next[src][s]++
				for _, b := range f.Data {
					if b != byte(f.Head[1]) {
						bad.Add(1)
					}
				}
				f.Head[5] = 1
				if e.Send(src, f) != nil {
					bad.Add(1)
				}
				arrived.Done()
			}})
		}
		var wg sync.WaitGroup
		for r, e := range eps {
			for s := range senders {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(r), uint64(s)))
					for i := range per {
						for p := range ranks {
							if p == r {
								continue
							}
							size := rng.IntN(100)
							if rng.IntN(10) == 0 {
								size = rng.IntN(MaxFrame + 1)
							}
							f := fabric.Frame{Head: [fabric.HeadWords]uint64{uint64(s), uint64(i)}, Data: bytes.Repeat([]byte{byte(i)}, size)}
							if e.Send(p, f) != nil {
								bad.Add(1)
							}
							if rng.IntN(5) == 0 {
								key := uint64(r)<<40 | uint64(s)<<32 | uint64(i)<<8 | uint64(p)
								data := bytes.Repeat([]byte{byte(i + 1)}, 1+rng.IntN(300<<10))
								dst := make([]byte, len(data))
								wg.Add(2)
								eps[p].Expect(r, key, dst, func(err error) {
									if err != nil || !bytes.Equal(data, dst) {
										bad.Add(1)
									}
									wg.Done()
								})
								e.Push(p, key, data, func(err error) {
									if err != nil {
										bad.Add(1)
									}
									wg.Done()
								})
							}
							if rng.IntN(20) == 0 {
								woken := make(chan struct{}, 1)
								time.AfterFunc(10*time.Microsecond, func() { woken <- struct{}{} })
								engines[r].PollChannel(woken, engines[r].Enter())
							}
						}
					}
				})
			}
		}
		arrived.Wait()
		answers.Wait()
		wg.Wait()
		require.Zero(t, bad.Load())
	}
}

// Several goroutines of one rank deliver offers and make the copies of others, while the peer makes
// more.
func TestOffersBesideCopiesHammer(t *testing.T) {
	const transfers, pollers, size = 8000, 3, 2 << 10
	eps := openAll(t, 2, func(c *Config) { c.SingleCopy = 1 })
	bind(eps[0], &collector{lost: make(chan error, 10)})
	engine := bind(eps[1], &collector{lost: make(chan error, 10)})
	var wg, over sync.WaitGroup
	var ended atomic.Bool
	for range pollers {
		over.Go(func() {
			for !ended.Load() {
				engine.Poll()
			}
		})
	}
	var bad atomic.Int64
	for i := range transfers {
		data, dst := bytes.Repeat([]byte{byte(i + 1)}, size), make([]byte, size)
		wg.Add(2)
		eps[1].Expect(0, uint64(i), dst, func(err error) {
			if err != nil || !bytes.Equal(data, dst) {
				bad.Add(1)
			}
			wg.Done()
		})
		eps[0].Push(1, uint64(i), data, func(err error) {
			if err != nil {
				bad.Add(1)
			}
			wg.Done()
		})
	}
	wg.Wait()
	ended.Store(true)
	over.Wait()
	require.Zero(t, bad.Load())
}

// A rank that has sent, and cannot be reached, is lost after its frames are delivered. Frames and
// transfers to it fail then.
func TestUnreachableAfterItsFrames(t *testing.T) {
	s := newTestRanks(t, 2, func(c *Config) { c.SingleCopy = -1 })
	a, b := s[0], s[1]
	require.NoError(t, b.Send(0, word(1)))
	a.cfg.Lookup = func(int) (string, error) { return "", errors.New("no such address") }
	var sent ends
	a.each = func(int, fabric.Frame) { sent.is(t, map[uint64]string{}) }
	require.NoError(t, a.Send(1, word(1)))
	a.Push(1, 7, make([]byte, 5), sent.done(7))
	require.NoError(t, a.Send(1, word(2)))
	require.False(t, a.peers.At(1).flush(), "there is no ring")
	a.each(1, fabric.Frame{})
	require.True(t, a.drain(t))
	want := "shm: rank 1: no such address"
	require.Equal(t, append(sends(1, 1, 1), "1 is lost: "+want), a.takeLog())
	sent.is(t, map[uint64]string{7: want})
	require.EqualError(t, a.Send(1, word(3)), want)
	require.Zero(t, a.pending.Load())
}
