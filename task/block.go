// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

// Values of Task.block.
const (
	blockNone  = iota
	blockToken // Unblock came before Block
	blocked
)

// Block gives up the slot until Unblock is called for t, by anybody. One Unblock
// that comes early is remembered: the next Block returns at once. Block returns the
// error of the run, without waiting any longer, when that fails or is cancelled.
func (t *Task) Block() error {
	s := t.enter("Block")
	t.used = true
	if t.block.CompareAndSwap(blockToken, blockNone) {
		return t.run.cause()
	}
	t.prepare()
	if !t.run.addBlocked(t) {
		t.unprepare()
		return t.run.cause()
	}
	t.park(s)
	return t.run.cause()
}

// Unblock ends t's Block, or the next one if it is not blocked. Any goroutine may
// call it. A second Unblock before the next Block is the same as one.
// A task that may still be unblocked keeps its memory to itself, so a
// call that comes too late does no harm.
func (t *Task) Unblock() {
	for {
		switch t.block.Load() {
		case blockNone:
			if t.block.CompareAndSwap(blockNone, blockToken) {
				return
			}
		case blockToken:
			return
		case blocked:
			if t.block.CompareAndSwap(blocked, blockNone) {
				t.run.dropBlocked(t)
				t.run.rt.resume(t)
				return
			}
		}
	}
}

// Blocking runs f without a slot, so that other tasks run while f blocks its
// goroutine in a channel, a lock or a system call. In f the task's methods may not be used,
// except those that any goroutine may call. A panic of f passes on.
func (t *Task) Blocking(f func()) {
	s := t.enter("Blocking")
	t.prepare()
	t.addIdle(1)
	t.giveSlot(s)
	defer func() {
		rt := t.run.rt
		t.resuming = true
		rt.readyOff(t)
		t.awaitSlot()
		t.addIdle(-1)
	}()
	f()
}
