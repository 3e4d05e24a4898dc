// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Traps has the mistakes of docs/guide/traps.md, and the right form of each: "traps NAME" runs one.
// The lines that weft vet finds are marked.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"weft/deps"
	"weft/task"
)

type block struct {
	sum   float64
	cells []float64
}

const steps = 3

func sweep(row []float64) {
	for i := range row {
		row[i]++
	}
}

var last float64

func use(row []float64) { last = row[0] }

var (
	rows   = [][]float64{make([]float64, 8), make([]float64, 8)}
	blocks = []block{{1, make([]float64, 8)}, {2, make([]float64, 8)}}
)

func loop(t *task.Task) error {
	for range steps {
		for _, row := range rows {
			t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.InOut(&row)) // vet: loopvar
		}
	}
	return nil
}

func loopRight(t *task.Task) error {
	for range steps {
		for i, row := range rows {
			t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.InOut(&rows[i]))
		}
	}
	return nil
}

func values(t *task.Task) error {
	sums := make([]float64, 4)
	for _, sum := range sums {
		t.Spawn(func(*task.Task) error { sum++; return nil }, deps.InOut(&sum)) // vet: loopvar
	}
	if err := t.Wait(); err != nil {
		return err
	}
	fmt.Println(sums)
	return nil
}

func valuesRight(t *task.Task) error {
	sums := make([]float64, 4)
	for i := range sums {
		t.Spawn(func(*task.Task) error { sums[i]++; return nil }, deps.InOut(&sums[i]))
	}
	if err := t.Wait(); err != nil {
		return err
	}
	fmt.Println(sums)
	return nil
}

func header(t *task.Task) error {
	row := make([]float64, 8)
	t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.Out(&row)) // vet: header
	t.Spawn(func(*task.Task) error { use(row); return nil }, deps.In(&row[0]))
	return nil
}

func headerRight(t *task.Task) error {
	row := make([]float64, 8)
	t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.Slice(row).Out())
	t.Spawn(func(*task.Task) error { use(row); return nil }, deps.Slice(row).In())
	return nil
}

func local(t *task.Task) error {
	for range steps {
		for i := range blocks {
			b := blocks[i]
			t.Spawn(func(*task.Task) error { sweep(b.cells); b.sum = 0; return nil }, deps.InOut(&b)) // vet: copied
		}
	}
	return nil
}

func localRight(t *task.Task) error {
	for range steps {
		for i := range blocks {
			b := &blocks[i]
			t.Spawn(func(*task.Task) error { sweep(b.cells); b.sum = 0; return nil }, deps.InOut(b))
		}
	}
	return nil
}

func spawnSweep(t *task.Task, row []float64) {
	t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.InOut(&row)) // vet: copied
}

func spawnSweepRight(t *task.Task, row []float64) {
	t.Spawn(func(*task.Task) error { sweep(row); return nil }, deps.Slice(row).InOut())
}

func parameter(t *task.Task) error {
	for range steps {
		spawnSweep(t, rows[0])
	}
	return nil
}

func parameterRight(t *task.Task) error {
	for range steps {
		spawnSweepRight(t, rows[0])
	}
	return nil
}

func undeclared(t *task.Task) error {
	var sum float64
	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	t.Spawn(func(*task.Task) error { last = sum; return nil }) // vet: undeclared
	return nil
}

func undeclaredRight(t *task.Task) error {
	var sum float64
	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	t.Spawn(func(*task.Task) error { last = sum; return nil }, deps.In(&sum))
	return nil
}

func writes(t *task.Task) error {
	sum := 1.0
	t.Spawn(func(*task.Task) error { sum++; return nil }, deps.In(&sum)) // vet: undeclared
	t.Spawn(func(*task.Task) error { last = sum; return nil }, deps.In(&sum))
	return nil
}

func writesRight(t *task.Task) error {
	sum := 1.0
	t.Spawn(func(*task.Task) error { sum++; return nil }, deps.InOut(&sum))
	t.Spawn(func(*task.Task) error { last = sum; return nil }, deps.In(&sum))
	return nil
}

func wait(t *task.Task) error {
	var sum float64
	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	last = sum
	return nil
}

func waitRight(t *task.Task) error {
	var sum float64
	t.Spawn(func(*task.Task) error { sum = 1; return nil }, deps.Out(&sum))
	if err := t.Wait(); err != nil {
		return err
	}
	last = sum
	return nil
}

var traps = map[string]func(*task.Task) error{
	"loop": loop, "values": values, "header": header, "local": local, "parameter": parameter,
	"undeclared": undeclared, "writes": writes, "wait": wait,
	"loop right": loopRight, "values right": valuesRight, "header right": headerRight, "local right": localRight,
	"parameter right": parameterRight, "undeclared right": undeclaredRight, "writes right": writesRight, "wait right": waitRight,
}

func main() {
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rt.Run(ctx, traps[os.Args[1]]); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
