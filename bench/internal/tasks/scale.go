// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"runtime/metrics"

	"weft/bench/internal/harness"
	"weft/deps"
	"weft/task"
)

// The number that each scale workload keeps constant while the other number grows.
const (
	scaleObjects = 100       // of task/scale
	scaleTasks   = 1_000_000 // of task/objects, at least; and at least four for each object
)

// Bounds, in bytes, of the growth of the heap in a run of weft, for any number of tasks: the
// throttle limits the live tasks.
const (
	scaleHeap       = 16 << 20
	scaleHeapObject = 256 // more for each object
)

// watched is chains with a check of the size of the heap while weft creates the tasks.
type watched struct {
	*chains
	before, peak uint64
}

func newWatched(tasks int64, objects int) *watched {
	return &watched{chains: newChains(tasks, objects)}
}

func (p *watched) reset() {
	p.chains.reset()
	p.before = heapBytes()
	p.peak = p.before
}

func (p *watched) check() error {
	if err := p.chains.check(); err != nil {
		return err
	}
	if may := uint64(scaleHeap + scaleHeapObject*len(p.cells)); p.peak-p.before > may {
		return harness.Wrong("the heap grew by %d bytes while %d tasks on %d objects were created; the limit is %d",
			p.peak-p.before, p.tasks(), len(p.cells), may)
	}
	return nil
}

// sampleHeap updates the greatest size of the heap.
func (p *watched) sampleHeap() { p.peak = max(p.peak, heapBytes()) }

// heapBytes returns the size of all objects of the heap, with dead objects that are not swept yet.
// It does not stop the program.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func (p *watched) weft() body {
	bodies := wrap(p.bodies)
	const every = 1 << 16 // tasks between two samples
	return func(t *task.Task) error {
		since := 0
		for range p.length {
			if since += len(bodies); since >= every {
				since = 0
				p.sampleHeap()
			}
			for i, b := range bodies {
				t.Spawn(b, deps.InOut(&p.cells[i]))
			}
		}
		p.sampleHeap()
		return nil
	}
}

// lookups finds each task's object in a map by its address, and runs the body. No runtime that gets
// objects by address can cost less.
func (p *watched) lookups() {
	type state struct{ tasks int }
	known := map[*cell]*state{}
	for range p.length {
		for i, body := range p.bodies {
			c := &p.cells[i]
			s := known[c]
			if s == nil {
				s = new(state)
				known[c] = s
			}
			s.tasks++
			body()
		}
	}
}

// scale returns the workloads that show how the cost of a task depends on the number of tasks and
// on the number of objects.
func scale() []harness.Workload {
	const byMap = "map"
	load := func(name, about, sizeOf string, sizes, quick []int64, growthOf string, ratio float64, newProgram func(size int64, quick bool) *watched) harness.Workload {
		peer := func(of func(sized func(int64) *watched) harness.Peer) harness.Peer {
			p := of(nil)
			p.Open = func(ctx context.Context, params harness.Params) (harness.Probe, error) {
				return of(func(size int64) *watched { return newProgram(size, params.Quick) }).Open(ctx, params)
			}
			return p
		}
		return harness.Workload{
			Name: name, About: about, Unit: "ns/task", SizeOf: sizeOf, Sizes: sizes, Quick: quick,
			Goals: []harness.Goal{{Workers: 1, Growth: true, GrowthOf: growthOf, Ratio: ratio}, {Workers: 2, Growth: true, GrowthOf: growthOf, Ratio: ratio}},
			Peers: []harness.Peer{
				peer(func(f func(int64) *watched) harness.Peer { return weft(f, (*watched).weft) }),
				peer(func(f func(int64) *watched) harness.Peer { return plain(byMap, f, (*watched).lookups) }),
				peer(func(f func(int64) *watched) harness.Peer { return plain("sequential", f, (*watched).sequential) }),
			},
		}
	}
	return []harness.Workload{
		load("task/scale", "chains on 100 objects: the cost per task of few tasks and of many", "tasks",
			[]int64{1e3, 1e4, 1e5, 1e6, 1e7}, []int64{1e3, 4e3}, "", 1.25,
			func(size int64, _ bool) *watched { return newWatched(size, scaleObjects) }),
		load("task/objects", "a million tasks or more, in chains on few objects and on many", "objects",
			[]int64{1e1, 1e2, 1e3, 1e4, 1e5, 1e6}, []int64{1e1, 1e3}, byMap, 1,
			func(size int64, quick bool) *watched {
				tasks := int64(scaleTasks)
				if quick {
					tasks = 0
				}
				return newWatched(max(tasks, 4*size), int(size))
			}),
	}
}
