// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package header

import (
	"weft/deps"
	"weft/task"
)

func body(*task.Task) error { return nil }

func wrong(t *task.Task, row []float64, p *[8]int) {
	t.Spawn(body, deps.Out(&row)) // want `deps.Out\(&row\) names the slice row itself, and deps.In\(&row\[0\]\) in line 15 names what it refers to: these are different objects; name the elements in both, by deps.Slice\(row\)`
	t.Spawn(body, deps.In(&row[0]))
	t.Spawn(body, deps.Out(&p)) // want `names the pointer p itself`
	t.Spawn(body, deps.In(p))
	local := make([]int, 8)
	t.Spawn(body, deps.Slice(local[2:]).Out())
	t.Spawn(body, deps.In(&local)) // want `names the slice local itself, and deps.Slice\(local\[2:\]\).Out\(\) in line 19`
}

// Children name the elements. The next task does not wait for them where their parent does not.
func children(t *task.Task, row []float64) {
	t.Spawn(func(t *task.Task) error {
		t.Spawn(body, deps.InOut(&row[0]))
		return nil
	}, deps.InOut(&row)) // want `names the slice row itself`
	t.Spawn(body, deps.In(&row)) // want `names the slice row itself`
}

func weakParent(t *task.Task, row []float64) {
	t.Spawn(func(t *task.Task) error {
		t.Spawn(body, deps.InOut(&row[0]))
		return t.Wait()
	}, deps.InOut(&row).Weak()) // want `names the slice row itself`
}

func childrenWaitedFor(t *task.Task, row []float64) {
	t.Spawn(func(t *task.Task) error {
		t.Spawn(body, deps.InOut(&row[0]))
		t.Spawn(body, deps.InOut(&row[0]))
		return t.Wait()
	}, deps.InOut(&row))
	t.Spawn(body, deps.In(&row))
}

type grid struct{ rows [][]float64 }

func right(t *task.Task, rows [][]float64, row []float64, g *grid) {
	// The variable is an object like others where a body sets it.
	var result []float64
	t.Spawn(func(*task.Task) error { result = []float64{1}; return nil }, deps.Out(&result))
	t.Spawn(func(t *task.Task) error {
		t.Spawn(body, deps.In(&result[0]))
		return nil
	}, deps.In(&result))
	// It may stand for its elements if all tasks see it so.
	for i := range rows {
		t.Spawn(body, deps.InOut(&rows[i]))
		t.Spawn(body, deps.In(&g.rows[i]))
	}
	stand := rows[0]
	t.Spawn(body, deps.Out(&stand))
	t.Spawn(body, deps.In(&stand))
	waited := rows[0] // something else orders them
	t.Spawn(body, deps.Out(&waited))
	_ = t.Wait()
	t.Spawn(body, deps.In(&waited[0]))
	both, x := rows[0], 0
	t.Spawn(body, deps.Out(&both), deps.Out(&x))
	t.Spawn(body, deps.In(&both[0]), deps.In(&x))
	t.Spawn(body, deps.In(&row), deps.In(&row[0]))
	t.Spawn(body, deps.In(&row[0])) // all read
	other := rows[0]
	fill(&other)
	t.Spawn(body, deps.Out(&other))
	t.Spawn(body, deps.Out(&other[0]))
}

func fill(s *[]float64) { *s = nil }
