// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkPingPong is two hand-offs per iteration: there and back. Its twin is
// BenchmarkChannelHandoff.
func BenchmarkPingPong(b *testing.B) {
	for _, n := range []int{8, 4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { pingPong(b, n, Run) })
	}
}

func pingPong(b *testing.B, n int, run func(context.Context, Config, func(*Comm) error) error) {
	b.ReportAllocs()
	b.SetBytes(2 * int64(n))
	err := run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		buf := make([]byte, n)
		if c.Rank() == 0 {
			fillPattern(buf)
			if err := c.Barrier(); err != nil {
				return err
			}
			b.ResetTimer()
		} else if err := c.Barrier(); err != nil {
			return err
		}
		for range b.N {
			if c.Rank() == 0 {
				if err := c.Send(Of(buf), 1, 0); err != nil {
					return err
				}
			}
			if _, err := c.Recv(Of(buf), 1-c.Rank(), 0); err != nil {
				return err
			}
			if c.Rank() == 1 {
				if err := c.Send(Of(buf), 0, 0); err != nil {
					return err
				}
			}
		}
		return checkPattern(buf)
	})
	if err != nil {
		b.Fatal(err)
	}
}

func fillPattern(buf []byte) {
	for i := range buf {
		buf[i] = byte(i*7 + 1)
	}
}

func checkPattern(buf []byte) error {
	for i := range buf {
		if buf[i] != byte(i*7+1) {
			return fmt.Errorf("byte %d is %d", i, buf[i])
		}
	}
	return nil
}

// BenchmarkChannelHandoff is the twin of BenchmarkPingPong: a pointer goes there and back through
// two unbuffered channels.
func BenchmarkChannelHandoff(b *testing.B) {
	b.ReportAllocs()
	there, back := make(chan *int), make(chan *int)
	var wg sync.WaitGroup
	wg.Go(func() {
		for p := range there {
			back <- p
		}
		close(back)
	})
	x := new(int)
	for b.Loop() {
		there <- x
		if <-back != x {
			b.Fatal("another pointer came back")
		}
	}
	close(there)
	wg.Wait()
}

// BenchmarkCopy is the twin of BenchmarkPingPong for large messages: the same memory is copied
// there and back.
func BenchmarkCopy(b *testing.B) {
	for _, n := range []int{64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(2 * int64(n))
			x, y := make([]byte, n), make([]byte, n)
			fillPattern(x)
			for b.Loop() {
				copy(y, x)
				copy(x, y)
			}
			if err := checkPattern(y); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkAllreduce is a sum of eight bytes.
func BenchmarkAllreduce(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		b.Run(fmt.Sprint(ranks, "ranks"), func(b *testing.B) {
			b.ReportAllocs()
			err := Run(context.Background(), Config{Ranks: ranks}, func(c *Comm) error {
				x, y := []float64{1}, []float64{0}
				for range b.N {
					if err := c.Allreduce(Of(x), Of(y), Sum); err != nil {
						return err
					}
				}
				if b.N > 0 {
					return expect("sum", float64(ranks), y[0])
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkBarrier has no payload.
func BenchmarkBarrier(b *testing.B) {
	for _, ranks := range []int{2, 4} {
		b.Run(fmt.Sprint(ranks, "ranks"), func(b *testing.B) {
			b.ReportAllocs()
			err := Run(context.Background(), Config{Ranks: ranks}, func(c *Comm) error {
				for range b.N {
					if err := c.Barrier(); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkMatch is a message and its receive, with many other receives posted and messages
// unexpected: the cost must not depend on how many.
func BenchmarkMatch(b *testing.B) {
	for _, depth := range []int{0, 100, 10000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			b.ReportAllocs()
			err := Run(context.Background(), Config{Ranks: 1}, func(c *Comm) error {
				for i := range depth {
					c.Irecv(Buffer{}, 0, 1000+i)
					c.Isend(Buffer{}, 0, 100000+i)
				}
				x, y := []int{1}, []int{0}
				for b.Loop() {
					if err := c.Send(Of(x), 0, 1); err != nil {
						return err
					}
					if _, err := c.Recv(Of(y), AnySource, 1); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkHandoffRatio does round trips of eight bytes and of a pointer through unbuffered
// channels in turns, on the same goroutines, so that other load of the machine falls on both. It
// reports the medians and their ratio.
func BenchmarkHandoffRatio(b *testing.B) {
	const trips = 500
	there, back := make(chan *int), make(chan *int)
	var messages, channels []float64
	err := Run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
		buf := make([]byte, 8)
		x := new(int)
		for range max(b.N/trips, 20) {
			start := time.Now()
			for range trips {
				if c.Rank() == 0 {
					if err := c.Send(Of(buf), 1, 0); err != nil {
						return err
					}
				}
				if _, err := c.Recv(Of(buf), 1-c.Rank(), 0); err != nil {
					return err
				}
				if c.Rank() == 1 {
					if err := c.Send(Of(buf), 0, 0); err != nil {
						return err
					}
				}
			}
			middle := time.Now()
			for range trips {
				if c.Rank() == 0 {
					there <- x
					<-back
				} else {
					back <- <-there
				}
			}
			if c.Rank() == 0 {
				messages = append(messages, float64(middle.Sub(start))/trips)
				channels = append(channels, float64(time.Since(middle))/trips)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(messages)
	slices.Sort(channels)
	m, ch := messages[len(messages)/2], channels[len(channels)/2]
	b.ReportMetric(m, "ns/message-trip")
	b.ReportMetric(ch, "ns/channel-trip")
	b.ReportMetric(m/ch, "ratio")
	b.ReportMetric(messages[len(messages)/10]/channels[len(channels)/10], "p10-ratio")
}

// BenchmarkSharedMemory is a ping-pong of ranks that share memory but no process.
func BenchmarkSharedMemory(b *testing.B) {
	for _, n := range []int{8, 4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { pingPong(b, n, runShm) })
	}
}
