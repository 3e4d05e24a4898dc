// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

type copyBlock struct {
	id    int
	cells []float64
}

// unvetted hides a mistake from weft vet.
func unvetted[T any](access func(*T) deps.Access, p *T) deps.Access { return access(p) }

// An access to a copy instead of the variable that was meant causes one warning for each line that
// spawns, in every schedule.
func TestDebugCopies(t *testing.T) {
	const copies, header = "two tasks name copies of one variable", "a task names a slice, and another one its elements"
	// The bodies only read: what the mistakes leave unordered would be a race.
	spawn := func(t *Task, row []float64, a deps.Access) {
		t.Spawn(func(*Task) error { _ = row[0]; return nil }, a)
	}
	for _, c := range []struct {
		name  string
		wants []string
		body  func(t *Task) error
	}{
		{"slices of a loop", []string{copies}, func(t *Task) error {
			rows := [][]float64{make([]float64, 8), make([]float64, 8)}
			for range 3 {
				for _, row := range rows {
					spawn(t, row, unvetted(deps.InOut, &row))
				}
			}
			return nil
		}},
		{"structs of a loop", []string{copies}, func(t *Task) error {
			blocks := []copyBlock{{1, make([]float64, 8)}, {2, make([]float64, 8)}}
			for _, b := range blocks {
				spawn(t, b.cells, unvetted(deps.Out, &b))
			}
			for _, b := range blocks {
				t.Spawn(func(*Task) error { _ = b.cells[0]; return nil }, unvetted(deps.In, &b))
			}
			return nil
		}},
		{"pointers of a loop, with a Wait", []string{copies}, func(t *Task) error {
			blocks := []*copyBlock{{1, make([]float64, 8)}, {2, make([]float64, 8)}}
			for range 2 {
				for _, b := range blocks {
					spawn(t, b.cells, unvetted(deps.InOut, &b))
				}
				if err := t.Wait(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"of different parents", []string{copies}, func(t *Task) error {
			rows := [][]float64{make([]float64, 8)}
			for range 2 {
				t.Spawn(func(t *Task) error {
					for _, row := range rows {
						spawn(t, row, unvetted(deps.InOut, &row))
					}
					return nil
				})
				if err := t.Wait(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"a slice and an element", []string{header}, func(t *Task) error {
			row := make([]float64, 8)
			spawn(t, row, deps.Out(&row))
			t.Spawn(nothing, deps.In(&row[0]))
			return nil
		}},
		{"a slice and a later element", []string{header}, func(t *Task) error {
			row := make([]float64, 8)
			spawn(t, row, deps.InOut(&row[3]))
			t.Spawn(nothing, deps.In(&row))
			return nil
		}},
		{"a slice and its range", []string{header}, func(t *Task) error {
			row := make([]float64, 8)
			spawn(t, row, deps.Slice(row).InOut())
			t.Spawn(nothing, deps.In(&row))
			return nil
		}},

		{"a slice of one element, and that", []string{header}, func(t *Task) error {
			row := make([]float64, 1)
			spawn(t, row, deps.Out(&row))
			t.Spawn(nothing, deps.In(&row[0]))
			return nil
		}},

		{"a variable that two tasks name, and another one like it", nil, func(t *Task) error {
			row := make([]float64, 8)
			other := row
			spawn(t, row, unvetted(deps.InOut, &row))
			spawn(t, row, unvetted(deps.InOut, &row))
			spawn(t, row, unvetted(deps.InOut, &other))
			return nil
		}},
		{"a slice beside each of its elements", nil, func(t *Task) error {
			row := make([]float64, 8)
			for i := range 16 {
				t.Spawn(func(*Task) error { row[i%8]++; return nil }, deps.In(&row), deps.InOut(&row[i%8]))
			}
			return nil
		}},
		{"a slice beside an element, which another task names alone", []string{header}, func(t *Task) error {
			row := make([]float64, 8)
			t.Spawn(nothing, unvetted(deps.Out, &row), deps.In(&row[0]))
			t.Spawn(nothing, deps.In(&row[0]))
			return nil
		}},
		{"variables as large as what is compared", []string{copies}, func(t *Task) error {
			rows := [][64]*int{{new(int)}, {new(int)}}
			for range 2 {
				for _, row := range rows {
					t.Spawn(func(*Task) error { _ = row[0]; return nil }, unvetted(deps.InOut, &row))
				}
			}
			return nil
		}},
		{"variables of a word more", nil, func(t *Task) error {
			rows := [][64 + 1]*int{{new(int)}, {new(int)}}
			for range 2 {
				for _, row := range rows {
					t.Spawn(func(*Task) error { _ = row[0]; return nil }, unvetted(deps.InOut, &row))
				}
			}
			return nil
		}},
		{"bytes between words that look like a pointer", nil, func(t *Task) error {
			type packed struct {
				_     byte
				bytes [8]byte
				_     [23]byte
			}
			rows := make([]packed, 2)
			for i := range rows {
				binary.NativeEndian.PutUint64(rows[i].bytes[:], uint64(reflect.ValueOf(new(int)).Pointer()))
			}
			for range 2 {
				for _, row := range rows {
					t.Spawn(func(*Task) error { _ = row.bytes[0]; return nil }, unvetted(deps.InOut, &row.bytes))
				}
			}
			return nil
		}},
		{"the elements themselves", nil, func(t *Task) error {
			rows := [][]float64{make([]float64, 8), make([]float64, 8)}
			for range 3 {
				for i := range rows {
					spawn(t, rows[i], deps.InOut(&rows[i]))
				}
			}
			return nil
		}},
		{"fresh objects that are named once", nil, func(t *Task) error {
			type job struct {
				of  *copyBlock
				out float64
			}
			of := &copyBlock{1, make([]float64, 8)}
			for range 3 {
				j := &job{of: of}
				t.Spawn(func(*Task) error { j.out = j.of.cells[0] + 1; return nil }, deps.Out(j))
				k := &job{of: of}
				t.Spawn(func(*Task) error { _ = k.of.cells[0]; return nil }, deps.In(k))
				x := new(int)
				t.Spawn(nothing, deps.InOut(x))
			}
			return nil
		}},
		{"a slice that a task makes", nil, func(t *Task) error {
			var result []float64
			t.Spawn(func(*Task) error { result = make([]float64, 8); return nil }, deps.Out(&result))
			t.Spawn(func(t *Task) error {
				t.Spawn(nothing, deps.In(&result[0]))
				return nil
			}, deps.In(&result))
			return nil
		}},
		{"readers of a slice and of its elements", nil, func(t *Task) error {
			row := make([]float64, 8)
			t.Spawn(nothing, deps.In(&row), deps.In(&row[0]))
			t.Spawn(nothing, deps.In(&row))
			t.Spawn(nothing, deps.In(&row[0]))
			return nil
		}},
		{"a slice that stands for its elements", nil, func(t *Task) error {
			row := make([]float64, 8)
			for range 3 {
				spawn(t, row, deps.InOut(&row))
			}
			t.Spawn(nothing, deps.In(&row))
			return nil
		}},
		{"of one task", nil, func(t *Task) error {
			row := make([]float64, 8)
			spawn(t, row, deps.Out(&row[0]))
			t.Spawn(nothing, deps.InOut(&row[1]))
			return nil
		}},
	} {
		for _, workers := range []int{1, 3} {
			var w warnings
			rt := newTestRuntime(t, Config{Workers: workers, Debug: true, Logger: w.logger()})
			for range 2 {
				require.NoError(t, rt.Run(bg, c.body), c.name)
				lines := w.take()
				require.Len(t, lines, len(c.wants), "%s: %v", c.name, lines)
				for i, want := range c.wants {
					require.Contains(t, lines[i], want, c.name)
					require.Equal(t, 2, strings.Count(lines[i], "copies_test.go:"), lines[i])
				}
			}
			d := rt.Spawn(bg, c.body)
			require.NoError(t, d.Wait(bg))
			require.Len(t, w.take(), len(c.wants), c.name)
		}
	}
}
