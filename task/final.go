// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

// InFinal reports whether t was spawned with [Attrs.Final], or descends from such a
// task: what it spawns runs at once. Any goroutine may call it while the task is not over.
func (t *Task) InFinal() bool { return t.final }

// Cost returns [Attrs.Cost]. Any goroutine may call it while the task is not over.
func (t *Task) Cost() int { return t.cost }
