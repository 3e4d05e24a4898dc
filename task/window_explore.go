//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

// later is a timer, which to the explorer ends at once.
type later struct{}

func (w *window) init(rt *Runtime) { w.rt = rt }
func (w *window) close()           {}
func (w *window) postpone()        { w.resumeAll() }
