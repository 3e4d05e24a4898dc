// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"weft/deps"
	"weft/task"
)

// spawnSum spawns a task that reads s and declares accs, which may be less than s.
func spawnSum(t *task.Task, s []int, accs ...deps.Access) {
	t.Spawn(func(*task.Task) error {
		n := 0
		for _, v := range s { // @sum
			n += v
		}
		seen[20] += n
		return nil
	}, append(accs, deps.InOut(&seen[20]))...)
}

func fill(s []int, v int) {
	for i := range s {
		s[i] = v // @filled
	}
}

// The rules of objects also hold for ranges, and a range must cover all that is used.
var rangeMistakes = []mistake{
	{"E1", "a range that is too short", []string{"DATA RACE", "@filled", "@sum"}, func(t *task.Task, right bool) error {
		a := make([]int, 100)
		for i := 0; i < 100; i += 10 {
			t.Spawn(func(*task.Task) error { fill(a[i:i+10], i); return nil }, deps.Slice(a[i:i+10]).Out())
		}
		used := a[35:55]
		n := 10 // up to 45
		if right {
			n = 20
		}
		spawnSum(t, used, deps.Slice(used[:n]).In())
		return nil
	}},
	{"E1", "a neighbour's range", []string{"DATA RACE", "@filled"}, func(t *task.Task, right bool) error {
		a := make([]int, 100)
		for i := 0; i < 100; i += 10 {
			n := 12
			if right || i == 90 {
				n = 10
			}
			t.Spawn(func(*task.Task) error { fill(a[i:i+n], i); return nil }, deps.Slice(a[i:i+10]).InOut())
		}
		return nil
	}},
	{"E1", "a reader among readers of more", []string{"DATA RACE", "@early", "@over"}, func(t *task.Task, right bool) error {
		a := make([]int, 10)
		t.Spawn(func(*task.Task) error { seen[21] = a[0]; return nil }, deps.Slice(a).In(), deps.InOut(&seen[21]))
		part := a[5:]
		if right {
			part = a
		}
		t.Spawn(func(*task.Task) error { // a[5] to a[9], and a[0]
			seen[22] = a[0] // @early
			return nil
		}, deps.Slice(part).In(), deps.InOut(&seen[22]))
		t.Spawn(func(*task.Task) error {
			a[0] = 1 // @over
			return nil
		}, deps.Slice(a[:5]).Out())
		return nil
	}},
	{"E1", "a field of an object", []string{"DATA RACE", "@field", "@whole"}, func(t *task.Task, right bool) error {
		var x struct{ a, b [4]int }
		own := deps.Slice(x.a[:])
		if right {
			own = deps.Slice(x.b[:])
		}
		t.Spawn(func(*task.Task) error {
			x.b[1] = 1 // @field
			return nil
		}, own.Out())
		t.Spawn(func(*task.Task) error {
			seen[23] = x.b[1] // @whole
			return nil
		}, deps.In(&x.b))
		return nil
	}},
	{"E3", "a child whose range its parent does not cover", []string{"DATA RACE|conflicting accesses that nothing orders", "@filled|has not declared", "@sum|In()"}, func(t *task.Task, right bool) error {
		a := make([]int, 100)
		covered := a[:50]
		if right {
			covered = a
		}
		t.Spawn(func(t *task.Task) error {
			for i := 0; i < 100; i += 25 {
				t.Spawn(func(*task.Task) error { fill(a[i:i+25], i); return nil }, deps.Slice(a[i:i+25]).Out())
			}
			return nil
		}, deps.Slice(covered).Out().Weak())
		spawnSum(t, a[60:70], deps.Slice(a[60:70]).In())
		return nil
	}},
	{"E5", "a WaitOn for another range", []string{"DATA RACE", "@filled", "@read"}, func(t *task.Task, right bool) error {
		a := make([]int, 20)
		for i := 0; i < 20; i += 10 {
			t.Spawn(func(*task.Task) error { fill(a[i:i+10], i); return nil }, deps.Slice(a[i:i+10]).Out())
		}
		on := a[:10]
		if right {
			on = a[5:15]
		}
		if err := t.WaitOn(deps.Slice(on).In()); err != nil {
			return err
		}
		seen[24] = a[12] // @read
		return nil
	}},
	{"E6", "a use of a released part", []string{"DATA RACE", "@late", "@next"}, func(t *task.Task, right bool) error {
		a := make([]int, 20)
		t.Spawn(func(t *task.Task) error {
			fill(a, 1)
			if err := t.Release(deps.Slice(a[:10]).Out()); err != nil {
				return err
			}
			if err := t.Release(deps.Slice(a[12:15]).Out()); err != nil {
				return err
			}
			a[11] = 2
			if !right {
				a[13] = 2 // @late
			}
			return nil
		}, deps.Slice(a).Out())
		t.Spawn(func(*task.Task) error {
			seen[25] = a[13] // @next
			return nil
		}, deps.Slice(a[13:14]).In(), deps.InOut(&seen[25]))
		t.Spawn(func(*task.Task) error {
			seen[26] = a[11] + a[3]
			return nil
		}, deps.Slice(a[2:12]).In(), deps.InOut(&seen[26]))
		return nil
	}},
}
