// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/xatomic"

// waitWord joins one who waits with one who finishes, whichever comes first.
type waitWord struct{ v xatomic.Uint32 }

const (
	wordWaiting = 1 << iota
	wordDone
)

// wait announces the waiter. If it returns true, done will return true as
// well and the waiter is to be woken; else it is done already.
func (w *waitWord) wait() bool { return w.v.Add(wordWaiting)&wordDone == 0 } //bug:look

// done reports whether there is a waiter to wake.
func (w *waitWord) done() bool { return w.v.Add(wordDone)&wordWaiting != 0 }
