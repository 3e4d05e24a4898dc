//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/progress"
	"weft/internal/shmem"
)

// inHeap returns n connected ranks whose inboxes are in Go's heap, each at one address for all
// ranks: there the race detector sees accesses to shared words.
func inHeap(t *testing.T, n int, change func(*Config)) []*Endpoint {
	eps := openAll(t, n, change)
	boxes := make([]*inbox, n)
	_, _, end := layout(n)
	for i, e := range eps {
		boxes[i] = newInbox(shmem.Heap(end), n)
		real := e.box
		e.box = boxes[i]
		t.Cleanup(real.unmap)
	}
	for i, e := range eps {
		for k, p := range e.peers.All() {
			if k == i {
				continue
			}
			in := boxes[k].incoming(i)
			p.box = &inbox{mem: boxes[k].mem, ring: in.data, head: boxes[k].head}
			p.doorbellWord, p.out, p.state = &p.box.head.doorbellWord, p.box.outgoing(i), open
			doorbell, err := openPeerDoorbell(fmt.Sprintf("/proc/self/fd/%d", eps[k].doorbell.descriptor()))
			require.NoError(t, err)
			p.doorbell = doorbell
			p.out.ctl.joined.Store(1)
			boxes[k].head.joins.Add(1)
		}
	}
	return eps
}

// Ranks send more than their rings hold, from several goroutines, to ranks that sleep and that poll
// in all ways: all frames arrive, in order.
func TestHeapHammer(t *testing.T) {
	const ranks, frames = 2, 600
	for range 2 {
		eps := inHeap(t, ranks, nil)
		engines := make([]*progress.Engine, ranks)
		var wrong atomic.Int32
		var here sync.WaitGroup
		here.Add(ranks * frames)
		left := make([]atomic.Int32, ranks)
		for i, e := range eps {
			left[i].Store(frames)
			next := uint64(0)
			engines[i] = bind(e, &collector{lost: make(chan error, ranks), each: func(_ int, f fabric.Frame) {
				if f.Head[0] != next || len(f.Data) != int(next*37%5000) {
					wrong.Add(1)
				}
				next++
				left[i].Add(-1)
				here.Done()
			}})
		}
		var wg sync.WaitGroup
		for i, e := range eps {
			wg.Go(func() {
				data := make([]byte, 5000)
				for k := range uint64(frames) {
					if e.Send(1-i, fabric.Frame{Head: word(k).Head, Data: data[:k*37%5000]}) != nil {
						wrong.Add(1)
					}
				}
			})
			wg.Go(func() {
				woken := make(chan struct{}, 1)
				for k := 0; left[i].Load() > 0; k++ {
					g, asked := engines[i], 0
					switch k % 4 {
					case 0:
						g.PollChannel(woken, g.Enter())
					case 1:
						g.Try()
					case 2:
						if g.Enter() {
							g.PollUntil(func() bool { asked++; return asked == 20 })
							g.Leave()
						}
					default:
						g.Watch(func() bool { return left[i].Load()%3 == 0 })
					}
				}
			})
		}
		wg.Wait()
		here.Wait()
		require.Zero(t, wrong.Load())
		closeAll(eps)
	}
}

func closeAll(eps []*Endpoint) {
	var wg sync.WaitGroup
	for _, e := range eps {
		wg.Go(func() { _ = e.Close() })
	}
	wg.Wait()
}
