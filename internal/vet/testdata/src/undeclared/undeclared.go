// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package undeclared

import (
	"sync"

	"weft/deps"
	"weft/task"
)

func wrong(t *task.Task) {
	var sum, other int
	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	t.Spawn(func(*task.Task) error {
		println(sum) // want `the body uses sum, which its task does not declare, but the task in line 15 declares deps.Out\(&sum\): nothing orders the two tasks`
		return nil
	}, deps.Out(&other))
}

func elements(t *task.Task) {
	row := make([]int, 8)
	t.Spawn(func(*task.Task) error { row[0] = 1; return nil }, deps.Slice(row).Out())
	t.SpawnWith(task.Attrs{Label: "use"}, func(*task.Task) error {
		println(row[0]) // want `the body uses row, .* deps.Slice\(row\).Out\(\)`
		return nil
	})
}

func overwrites(t *task.Task) {
	var x int
	for range 3 {
		t.Spawn(func(*task.Task) error { println(x); return nil }, deps.In(&x))
	}
	t.Spawn(func(*task.Task) error {
		x = 2 // want `the body uses x`
		return nil
	})
}

func writesIn(t *task.Task) {
	var x int
	t.Spawn(func(*task.Task) error {
		x++ // want `the body assigns x, but its task declares deps.In\(&x\)`
		return nil
	}, deps.In(&x))
}

func right(t *task.Task, accs []deps.Access) error {
	var x, y, z, w int
	t.Spawn(func(*task.Task) error { x = 1; return nil }, deps.Out(&x), deps.Out(&y))
	t.Spawn(func(*task.Task) error { z = y; return nil }, deps.In(&y), deps.Out(&z))
	t.Spawn(func(*task.Task) error { println(x, z); return nil }, deps.In(&z)) // by way of z and y
	t.Spawn(func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { w++; return nil }, deps.InOut(&w)) // a child
		return nil
	}, deps.InOut(&w).Weak())
	return nil
}

func waits(t *task.Task) error {
	var x int
	t.Spawn(func(*task.Task) error { x = 1; return nil }, deps.Out(&x))
	if err := t.Wait(); err != nil {
		return err
	}
	t.Spawn(func(*task.Task) error { println(x); return nil })
	return nil
}

func inALoop(t *task.Task) {
	var x int
	for range 3 {
		t.Spawn(func(*task.Task) error { println(x); return nil })
		_ = t.Wait()
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
	}
}

func unknown(t *task.Task, accs []deps.Access) {
	var x int
	t.Spawn(func(*task.Task) error { x = 1; return nil }, deps.Out(&x))
	t.Spawn(func(*task.Task) error { println(x); return nil }, accs...)
	var y int
	t.SpawnWith(task.Attrs{Wait: true}, func(*task.Task) error { y = 1; return nil }, deps.Out(&y))
	t.Spawn(func(*task.Task) error { println(y); return nil })
}

func readers(t *task.Task) {
	x := 1
	t.Spawn(func(*task.Task) error { println(x); return nil }, deps.In(&x))
	t.Spawn(func(*task.Task) error { println(x); return nil })
}

func channels(t *task.Task) {
	var x int
	done := make(chan int)
	t.Spawn(func(*task.Task) error { x = 1; close(done); return nil }, deps.Out(&x))
	t.Spawn(func(*task.Task) error { <-done; println(x); return nil })
	var y int
	var all sync.WaitGroup
	all.Add(1)
	t.Spawn(func(*task.Task) error { y = 1; all.Done(); return nil }, deps.Out(&y))
	t.Spawn(func(*task.Task) error { all.Wait(); println(y); return nil })
}

func alternatives(t *task.Task, a bool) {
	var x int
	if a {
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
	} else {
		t.Spawn(func(*task.Task) error { println(x); return nil })
	}
}

func other(t, u *task.Task) {
	var x int
	t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
	u.Spawn(func(*task.Task) error { println(x); return nil })
}

type guarded struct {
	sync.Mutex
	inner struct{ mu sync.RWMutex }
	n     int
}

type signals struct{ done []chan int }

func (s *signals) locks(t *task.Task, g *guarded) {
	var x, y, z, w, v int
	t.Spawn(func(*task.Task) error { g.Lock(); defer g.Unlock(); x++; return nil }, deps.Concurrent(&x))
	t.Spawn(func(*task.Task) error { g.Lock(); defer g.Unlock(); x++; return nil })
	t.Spawn(func(*task.Task) error { g.inner.mu.Lock(); y++; g.inner.mu.Unlock(); return nil }, deps.Concurrent(&y))
	t.Spawn(func(*task.Task) error { g.inner.mu.Lock(); y++; g.inner.mu.Unlock(); return nil })
	t.Spawn(func(*task.Task) error { z = 1; close(s.done[0]); return nil }, deps.Out(&z))
	t.Spawn(func(*task.Task) error { <-s.done[0]; println(z); return nil })
	var m task.Mutex
	t.Spawn(func(t *task.Task) error { return t.Critical(&m, func() error { w++; return nil }) }, deps.Concurrent(&w))
	t.Spawn(func(t *task.Task) error { return t.Critical(&m, func() error { w++; return nil }) })
	t.Spawn(func(t *task.Task) error { g.n++; v++; return nil }, deps.InOut(&v), deps.InOut(g))
	t.Spawn(func(t *task.Task) error {
		println(g.n, v) // want `the body uses v, `
		return nil
	})
}

func ofAnArray(t *task.Task) {
	var x [8]int
	t.Spawn(func(*task.Task) error { x[0] = 1; return nil }, deps.Slice(x[:]).Out())
	t.Spawn(func(*task.Task) error {
		println(x[0]) // want `the body uses x, `
		return nil
	})
}
