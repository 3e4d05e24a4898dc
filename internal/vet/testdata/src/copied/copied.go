// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package copied

import (
	"weft/deps"
	"weft/task"
)

type block struct {
	sum   float64
	cells []float64
}

func wrong(t *task.Task, blocks []block, rows [][]float64) {
	for i := range blocks {
		b := blocks[i]
		t.Spawn(func(*task.Task) error { b.sum++; return nil }, deps.InOut(&b)) // want `deps.InOut\(&b\) names b, a copy of blocks\[i\], which no other task can name: the access orders nothing; what the body writes to it is lost; name the original`
	}
	for _, row := range rows {
		row := row
		t.Spawn(func(*task.Task) error { row[0]++; return nil }, deps.InOut(&row)) // want `names row, a copy of row, which no other task can name: the access orders nothing; name what the slice refers to`
	}
}

func parameter(t *task.Task, b block, p *block) {
	t.Spawn(func(*task.Task) error { b.sum = 1; return nil }, deps.Out(&b)) // want `names b, a parameter`
	t.Spawn(func(*task.Task) error { p.sum++; return nil }, deps.InOut(&p)) // want `names p, a parameter, .*; name what the pointer refers to`
}

func right(t *task.Task, blocks []block, x, z int) block {
	for i := range blocks {
		b := &blocks[i]
		t.Spawn(func(*task.Task) error { b.sum++; return nil }, deps.InOut(b))
		first := blocks[i].sum // only read
		t.Spawn(func(*task.Task) error { _ = first; return nil }, deps.In(&first))
		var sum float64 // begins anew
		t.Spawn(func(*task.Task) error { sum++; return nil }, deps.InOut(&sum))
		n := len(blocks)
		t.Spawn(func(*task.Task) error { n++; return nil }, deps.InOut(&n))
	}
	two := blocks[0] // known to two
	t.Spawn(func(*task.Task) error { two.sum++; return nil }, deps.InOut(&two))
	t.Spawn(func(*task.Task) error { two.sum++; return nil }, deps.InOut(&two))
	after := blocks[0] // used afterwards
	t.Spawn(func(*task.Task) error { after.sum++; return nil }, deps.InOut(&after))
	t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
	z++
	t.Spawn(func(*task.Task) error { z++; return nil }, deps.InOut(&z))
	_ = t.Wait()
	println(x)
	return after
}

func nested(t *task.Task, n int, b block) {
	t.Spawn(func(t *task.Task) error { // known to its children
		t.Spawn(func(*task.Task) error { n++; return nil }, deps.InOut(&n))
		t.Spawn(func(*task.Task) error { println(n); return nil }, deps.In(&n))
		return nil
	}, deps.InOut(&n))
	t.Spawn(func(t *task.Task) error {
		t.Spawn(func(*task.Task) error { return nil })
		b.sum = 1
		return nil
	}, deps.Out(&b)) // want `names b, a parameter`
}

func slices(t *task.Task, b block) {
	t.Spawn(func(*task.Task) error { b.cells = append(b.cells, 1); b.cells[0]++; return nil }, deps.Slice(b.cells).InOut())
}

func anything[T any](t *task.Task, x T, next func(T) T) {
	t.Spawn(func(*task.Task) error { x = next(x); return nil }, deps.InOut(&x)) // want `names x, a parameter, .*; what the body writes to it is lost`
}
