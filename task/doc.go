// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package task runs task-dataflow programs: bodies that declare which objects
// they read and write, and that run in parallel as far as these accesses allow.
//
//	rt := task.New(task.Config{})
//	defer rt.Close()
//	err := rt.Run(ctx, func(t *task.Task) error { // the main task
//		for i := 1; i < len(block); i++ {
//			t.Spawn(func(*task.Task) error { return solve(i) },
//				deps.InOut(&block[i]), deps.In(&block[i-1]))
//		}
//		return nil
//	})
//
// If each call of Spawn is replaced by its body, this is a sequential program; with Spawn it
// computes the same. Order comes from the accesses of the children of one task, in the order in
// which they are spawned, and from nothing else.
//
// # Slots
//
// A [Runtime] has a fixed number of slots. A task that runs holds a slot; a task that waits in
// one of the methods below gives its slot up. So at most that many bodies run at a time, however
// many are blocked. A body that blocks in some other way, in a channel or a system
// call, keeps its slot, unless it does so in [Task.Blocking].
//
// # The life of a task
//
//	spawned   it waits until its accesses may start
//	ready     it waits for a slot; a larger priority is first
//	held      OnReady, if there is one, has bound events: the task waits for them
//	running   its body runs; it may wait, without a slot, and go on
//	over      the body has returned, and then, one after the other:
//	          its events have ended         its accesses are released
//	          its descendants are over      Wait of the parent may return
//
// An access that children still use is released by the children, one access at a time, also after
// the body. With [Attrs.Wait] all accesses are released together when the children are over.
//
// # Errors
//
// The first body that returns an error, panics or calls [runtime.Goexit], or the first
// event that ends with an error, ends the run, and so does the end of the context.
// Tasks that have not started are skipped, their accesses are released in order, and blocked tasks
// are resumed. [Runtime.Run] returns that error, as an [*Error] that names the task, once
// all tasks are over. Other runs of the same runtime are not affected.
//
// # Callers, and what blocks
//
//	                          called by                        gives up the slot
//	Spawn, Release            the body                         in Spawn, if it is throttled
//	Wait, WaitOn              the body                         if there is something to wait for
//	SpawnWith, Undeferred     the body                         if the task is not ready
//	Spawn in a final task     the body                         if the task is not ready
//	Loop, LoopWith            the body                         as Spawn
//	Iterate, IterateWith      the body                         as Spawn
//	Iteration.Spawn,          the loop's recording function    no
//	SpawnWith
//	Local                     the body                         no
//	Block, Await, AwaitFor,   the body                         yes
//	Blocking
//	Sleep, BlockFor           the body                         yes, for a time
//	Mutex.Lock, Critical      the body                         if another task holds it
//	Mutex.Unlock, TryLock     the body                         no
//	Detached.Join             the body                         if the detached task is not over
//	Hold, HoldFor             the body, or OnReady; any        no
//	                          goroutine, while an event is
//	                          pending
//	Hold's function           any goroutine, once              no
//	Unblock                   any goroutine, while the task    no
//	                          lives; afterwards too, if it
//	                          has called Block or BlockFor
//	Uses                      the body                         no
//	Context, Label, Runtime,  any goroutine, while the task    no
//	InFinal, Cost             lives
//	Runtime.Spawn, SpawnWith, any goroutine                    no
//	Dump, Tasks
//	Detached.Done, Err,       any goroutine                    no
//	OnDone
//	Runtime.Run,              any goroutine but a task's       they block the goroutine
//	Detached.Wait
//	Runtime.Close             any goroutine that no task       it blocks the goroutine
//	                          waits for
//
// "The body" means: the goroutine that runs the body, on the innermost task that it
// runs. Calls from elsewhere panic and name both tasks.
//
// # Debug mode
//
// With [Config.Debug] the runtime audits what tasks declare. Two tasks that may use one object at
// the same time, one of them writing, end the run with [ErrConflict]: an ancestor of one has not
// declared the object. Possible mistakes are logged. Without debug mode the audit costs nothing.
//
// # The watchdog
//
// With [Config.Watchdog] the runtime keeps a list of its tasks, and reports those that are stuck,
// and what they wait for.
//
// Even without it, the runtime reports once, to [Config.Logger] or else [Config.Reports], that
// tasks have been ready for seconds while the bodies on all slots block in a channel, a lock or a
// system call. Such calls belong into [Task.Blocking].
//
// # The throttle
//
// A task that spawns without end would fill the memory. So it waits when too many of its children
// are alive ([Config.Window]). Children that are blocked or wait for events do not count. When no
// slot has anything to do, the creator goes on, since its children may wait for a task that it has
// not spawned yet. It goes on after a few milliseconds, since in most cases what the children wait
// for comes by then. The throttle can hold up only a program in which a child keeps its slot until
// its creator goes on; such a child has to use Blocking.
//
// README.md describes the protocols and why they are right.
package task
