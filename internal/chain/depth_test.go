// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// smallStack runs f on a stack that a recursion through a chain would overflow. An overflow ends
// the test binary, since it cannot be recovered.
func smallStack(t *testing.T, f func()) {
	old := debug.SetMaxStack(128 << 10)
	defer debug.SetMaxStack(old)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
}

var chainLength = 1_000_000 // less under the race detector

const nestDepth = 10_000

// forms are the accesses that chains and nests are made of.
var forms = []struct {
	name string
	decl
}{
	{"in", decl{0, chain.ModeIn, false}},
	{"inout", decl{0, chain.ModeInOut, false}},
	{"concurrent", decl{0, chain.ModeConcurrent, false}},
	{"weakin", decl{0, chain.ModeIn, true}},
	{"weakinout", decl{0, chain.ModeInOut, true}},
	{"weakconcurrent", decl{0, chain.ModeConcurrent, true}},
}

// nodes allocates the nodes of a test, reusing those that became free.
type nodes struct {
	free []*chain.Node
	made int
	flow chain.Flow
	run  []*chain.Node // ready
}

func (m *nodes) take() *chain.Node {
	if k := len(m.free); k > 0 {
		n := m.free[k-1]
		m.free = m.free[:k-1]
		return n
	}
	m.made++
	return new(chain.Node)
}

func (m *nodes) collect() {
	for n := m.flow.NextReady(); n != nil; n = m.flow.NextReady() {
		m.run = append(m.run, n)
	}
	for n := m.flow.NextFree(); n != nil; n = m.flow.NextFree() {
		m.free = append(m.free, n)
	}
}

func (m *nodes) spawn(p *chain.Node, accs ...chain.Access) *chain.Node {
	n := m.take()
	if p.Register(n, accs, &m.flow) {
		m.run = append(m.run, n)
	}
	m.collect()
	return n
}

func (m *nodes) end(n *chain.Node) {
	n.Finish(&m.flow)
	chain.Retire(n, &m.flow)
	m.collect()
}

// TestLongChain builds a chain of a million accesses after a writer, and then ends the writer.
func TestLongChain(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			smallStack(t, func() {
				var x int64
				var root chain.Node
				var m nodes
				first := m.spawn(&root, chain.InOut(&x))
				m.run = nil
				var weak []*chain.Node
				for range chainLength {
					n := m.spawn(&root, accessTo(&x, form.decl))
					if form.weak {
						weak = append(weak, n)
					}
				}
				for _, n := range weak { // their bodies are over before the tokens come
					m.end(n)
				}
				if form.weak {
					require.Len(t, m.run, chainLength)
					m.run = nil
				}
				require.Empty(t, m.run)
				last := m.spawn(&root, chain.InOut(&x))
				require.Empty(t, m.run)
				m.end(first)
				over := 0
				for len(m.run) > 0 {
					n := m.run[len(m.run)-1]
					m.run = m.run[:len(m.run)-1]
					if n == last && len(m.run) == 0 {
						break
					}
					require.NotSame(t, last, n)
					m.end(n)
					over++
				}
				if !form.weak {
					require.Equal(t, chainLength, over)
				}
				m.end(last)
				root.Finish(&m.flow)
				chain.Retire(&root, &m.flow)
				m.collect()
				if !form.weak {
					require.Len(t, m.free, m.made+1, "everything is free, the root too")
				}
			})
		})
	}
}

// TestRollingChain is a chain of a million accesses of which two are alive at a time.
func TestRollingChain(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			var x int64
			var root chain.Node
			var m nodes
			before := heap()
			smallStack(t, func() {
				prev := m.spawn(&root, accessTo(&x, form.decl))
				for range chainLength {
					n := m.spawn(&root, accessTo(&x, form.decl))
					m.end(prev)
					prev = n
					m.run = m.run[:0]
				}
			})
			if form.weak { // may leave nodes to the garbage collector
				require.Less(t, heap(), before+1<<20)
			} else {
				require.LessOrEqual(t, m.made, 3)
			}
			runtime.KeepAlive(&root)
		})
	}
}

// heap returns the size of the live heap.
func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// The table of a domain that names a million objects one after the other stays small.
func TestManyObjects(t *testing.T) {
	objs := make([]int64, chainLength)
	var root chain.Node
	var m nodes
	smallStack(t, func() {
		for i := range objs {
			m.end(m.spawn(&root, chain.InOut(&objs[i])))
			m.run = m.run[:0]
		}
	})
	require.LessOrEqual(t, m.made, 64)
	require.LessOrEqual(t, chain.TableSize(&root), 64)
	// With live ones among them, which the sweeps must keep.
	step := len(objs) / 10
	var live []*chain.Node
	for i := range objs {
		n := m.spawn(&root, chain.InOut(&objs[i]))
		if i%step == 0 {
			live = append(live, n)
		} else {
			m.end(n)
		}
	}
	m.run = m.run[:0]
	require.LessOrEqual(t, chain.TableSize(&root), 256)
	for i := range live {
		n := m.spawn(&root, chain.In(&objs[i*step]))
		require.Empty(t, m.run)
		m.end(live[i])
		require.Equal(t, []*chain.Node{n}, m.run)
		m.run = m.run[:0]
	}
}

// TestDeepNest nests ten thousand tasks, each with an access to one object, with a successor
// outside. The weak ones come after a task that holds the object: all bodies but the innermost end,
// then the tokens go down through all levels. At the end of the innermost they go up again.
func TestDeepNest(t *testing.T) {
	for _, form := range forms {
		for _, readerFirst := range []bool{false, true} {
			name := form.name
			if readerFirst {
				name += "/chained"
			}
			t.Run(name, func(t *testing.T) {
				smallStack(t, func() { deepNest(t, form.decl, readerFirst) })
			})
		}
	}
}

// deepNest runs one nest. With chained, a writer and a reader precede the nest, so that the tokens
// come one after the other, and each level has a weak sibling after the nested task.
func deepNest(t *testing.T, d decl, chained bool) {
	var x int64
	var root chain.Node
	var m nodes
	var front []*chain.Node
	hold := func(a chain.Access) {
		n := m.spawn(&root, a)
		if d.weak {
			front = append(front, n)
		} else {
			m.end(n) // a strong nest cannot be built while it waits
		}
	}
	hold(chain.InOut(&x))
	if chained {
		hold(chain.In(&x))
	}
	m.run = m.run[:0]
	level := []*chain.Node{&root}
	var beside []*chain.Node
	for range nestDepth {
		p := level[len(level)-1]
		level = append(level, m.spawn(p, accessTo(&x, d)))
		require.NotEmpty(t, m.run)
		m.run = m.run[:0]
		if chained && p != &root {
			b := m.spawn(p, accessTo(&x, decl{0, chain.ModeIn, true}))
			beside = append(beside, b)
			b.Finish(&m.flow)
			m.collect()
			m.run = m.run[:0]
		}
	}
	after := m.spawn(&root, chain.InOut(&x))
	require.Empty(t, m.run)
	inner := m.spawn(level[nestDepth], chain.InOut(&x))
	if d.weak {
		require.Empty(t, m.run)
	}
	for _, n := range level[1:] {
		n.Finish(&m.flow)
		m.collect()
	}
	for _, n := range front {
		require.NotContains(t, m.run, inner)
		m.end(n)
	}
	require.Equal(t, []*chain.Node{inner}, dropFront(m.run, front))
	m.run = m.run[:0]
	m.end(inner)
	require.Equal(t, []*chain.Node{after}, m.run)
	for _, n := range beside {
		chain.Retire(n, &m.flow)
	}
	for i := nestDepth; i > 0; i-- {
		chain.Retire(level[i], &m.flow)
	}
	m.end(after)
	root.Finish(&m.flow)
	chain.Retire(&root, &m.flow)
	m.collect()
	if !d.weak && !chained {
		require.Len(t, m.free, m.made+1)
	}
}

// dropFront returns list without the tasks that are over.
func dropFront(list, over []*chain.Node) []*chain.Node {
	var out []*chain.Node
next:
	for _, n := range list {
		for _, o := range over {
			if n == o {
				continue next
			}
		}
		out = append(out, n)
	}
	return out
}
