// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package wake holds the workloads that measure how long it takes to wake a sleeping thread: from
// the call that wakes it to its first instruction afterwards.
//
// All peers are a waker and a sleeper, and their [ping]s are alike:
//
//	the sleeper goes to sleep
//	→ the waker spins for a while, so that the sleeper's thread is in the kernel
//	→ the waker notes the time and wakes the sleeper
//	→ the sleeper's first instruction notes the time, and the sleeper answers
//	→ the waker, which has spun and never slept, goes on
//
// A sample is the median of as many pings as its time allows. A ping without an answer, or with an
// answer out of turn, is a wrong answer. The waker holds one of two workers all the time, so the
// wake-up must reach another thread. With one worker there is no thread to wake, and the peers are
// skipped.
//
//	weft        task/wake: a task is spawned while the other slot is parked.
//	            task/unblock: Unblock of a task that blocks
//	goroutine   a goroutine that receives from a channel: what Go's scheduler takes
//	syscall     a goroutine in the futex system call (Linux)
//	futex       a thread in the same call that Go's scheduler does not know of: the bound (Linux)
package wake
