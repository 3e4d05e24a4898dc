// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package loopvar

import (
	"weft/deps"
	"weft/task"
)

type block struct {
	cells [4]float64
	more  []float64
	next  *block
}

func body(*task.Task) error { return nil }

func wrong(t *task.Task, blocks []block, rows [][]float64, table map[string]block) {
	for _, b := range blocks {
		t.Spawn(body, deps.InOut(&b)) // want `deps.InOut\(&b\) names b, a new variable in each iteration, so no other task can name it; name the element: &blocks\[i\]`
	}
	for _, b := range blocks {
		t.Spawn(body, deps.In(&b.cells)) // want `names b`
	}
	for _, b := range blocks {
		t.Spawn(body, deps.In(&b.cells[1])) // want `names b`
	}
	for _, b := range blocks {
		t.Spawn(body, deps.Slice(b.cells[:]).Out()) // want `names b`
	}
	for _, row := range rows {
		t.Spawn(body, deps.InOut(&row).Weak()) // want `deps.InOut\(&row\).* names row, .* name the element: &rows\[i\]`
	}
	for range 3 {
		for _, row := range rows {
			t.Spawn(body, deps.Out(&row)) // want `names row`
			t.Spawn(body, deps.In(&row))  // want `names row`
		}
	}
	for _, x := range []int{1, 2} {
		if x == 1 {
			continue
		}
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x)) // want `names x`
	}
	for _, b := range []block{{}, {}} { // whose elements have no name
		t.Spawn(body, deps.InOut(&b)) // want `name what the iterations share`
	}
	for _, b := range table {
		t.Spawn(body, deps.InOut(&b)) // want `name what the iterations share`
	}
	for i := 0; i < 3; i++ {
		t.Spawn(body, deps.Out(&i)) // want `names i`
	}
	for i := range 3 {
		all := []deps.Access{deps.Out(&i)} // want `names i`
		t.Spawn(body, all...)
	}
	for k, v := range blocks {
		for range v.more {
			func() {
				t.Spawn(body, deps.Commutative(&k)) // want `names k`
			}()
		}
	}
}

func right(t *task.Task, blocks []block, list []*block, rows [][]float64, x int) {
	for i := range blocks {
		t.Spawn(body, deps.InOut(&blocks[i]))
	}
	for _, b := range list {
		t.Spawn(body, deps.InOut(b))
		t.Spawn(body, deps.InOut(&b.cells))
		t.Spawn(body, deps.InOut(&b.next.cells))
	}
	for _, row := range rows {
		t.Spawn(body, deps.InOut(&row[0]))
		t.Spawn(body, deps.Slice(row).InOut())
		t.Spawn(body, deps.Slice(row[1:2]).InOut())
	}
	for _, b := range blocks {
		t.Spawn(body, deps.InOut(&b.more[0])) // where the block says, not in the block
	}
	var i int
	for i = range blocks {
		t.Spawn(body, deps.InOut(&i))
	}
	for range 3 { // a fresh object that is named once
		x := new(int)
		var y int
		t.Spawn(func(*task.Task) error { *x, y = 1, 1; return nil }, deps.Out(x), deps.Out(&y))
	}
	for _, x := range []int{1, 2} { // what is used in the iteration
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
		_ = t.Wait()
		println(x)
	}
	for _, x := range []int{1, 2} {
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
		t.Spawn(func(*task.Task) error { println(x); return nil }, deps.In(&x))
	}
	for _, x := range []int{1, 2} {
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
		_ = t.WaitOn(deps.In(&x))
	}
	for _, row := range rows {
		t.Spawn(body, deps.Out(&row))
		t.Spawn(body, deps.In(&row))
	}
	for range 3 {
		for _, row := range rows {
			t.Spawn(body, deps.Out(&row))
			t.Spawn(body, deps.In(&row))
		}
		_ = t.Wait()
	}
	for _, x := range []int{1, 2} { // only read, and nowhere else
		t.Spawn(func(*task.Task) error { println(x); return nil }, deps.In(&x))
	}
	var known []*int
	for _, x := range []int{1, 2} { // another task may name it by its address
		known = append(known, &x)
		t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
	}
	for _, p := range known {
		t.Spawn(func(*task.Task) error { *p++; return nil }, deps.InOut(p))
	}
	for _, p := range []*int{&x} {
		t.Spawn(body, deps.In(p))
	}
}

type held struct{ cells []int }

func fieldsThatRefer(t *task.Task, all []held, arrays [4][]int, squares [2][4]int) {
	for _, h := range all {
		// the elements are shared
		t.Spawn(func(*task.Task) error { h.cells[0]++; return nil }, deps.Slice(h.cells).InOut())
		t.Spawn(func(*task.Task) error { h.cells[1]++; return nil }, deps.Slice(h.cells[1:2]).InOut())
	}
	for _, row := range squares {
		t.Spawn(func(*task.Task) error { row[0]++; return nil }, deps.Slice(row[:]).InOut()) // want `deps.Slice\(row\[:\]\).InOut\(\) names row`
	}
	for _, two := range [][2][]int{} {
		t.Spawn(func(*task.Task) error { two[0][0]++; return nil }, deps.Slice(two[0]).InOut())
	}
}
