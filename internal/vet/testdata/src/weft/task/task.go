// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package task stands for that of weft.
package task

import "weft/deps"

type Task struct{}

type Attrs struct {
	Label string
	Wait  bool
}

func (t *Task) Spawn(fn func(*Task) error, accs ...deps.Access)              {}
func (t *Task) SpawnWith(a Attrs, fn func(*Task) error, accs ...deps.Access) {}
func (t *Task) Wait() error                                                  { return nil }
func (t *Task) WaitOn(accs ...deps.Access) error                             { return nil }
func (t *Task) Release(accs ...deps.Access) error                            { return nil }
func (t *Task) Critical(m *Mutex, fn func() error) error                     { return fn() }

type Mutex struct{ free bool }
