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
// Without the calls of Spawn, with the bodies in their places, this is a
// sequential program; with them it computes the same. Order comes from the accesses of
// the children of one task, in the order in which they are spawned, and from nothing
// else.
//
// # Slots
//
// A [Runtime] has a number of slots. A task that runs holds one; a task that waits in
// one of the methods below gives it up. So just so many bodies run at a time, however
// many are blocked. A body that blocks in some other way, in a channel or a system
// call, keeps its slot, unless it does so in [Task.Blocking].
//
// # The life of a task
//
//	spawned   it waits until its accesses may start
//	ready     it waits for a slot; priorities decide who is first
//	held      OnReady, if there is one, has bound events: they are waited for
//	running   its body runs; it may wait, without a slot, and go on
//	over      the body has returned, and then, one after the other:
//	          its events have ended         its accesses are released
//	          its descendants are over      Wait of the parent may return
//
// What its children still use is released by them, one access at a time, also after the
// body; with [Attrs.Wait], all at once when they are over.
//
// # Errors
//
// The first body that returns an error, panics or calls [runtime.Goexit], or the first
// event that ends with an error, ends the run, and so does the end of the context.
// Tasks that have not started are skipped, their accesses flow on, and blocked ones
// are resumed. [Runtime.Run] returns that error, as an [*Error] that names the task, once
// all is over. Other runs of the same runtime do not notice.
//
// # Who may call what, and what blocks
//
//	                          called by                        gives up the slot
//	Spawn, Release            the body                         in Spawn, if the window is full
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
//	Mutex.Lock, Critical      the body                         if another task has it
//	Mutex.Unlock, TryLock     the body                         no
//	Detached.Join             the body                         if the detached task is not over
//	Hold, HoldFor             the body, or OnReady; anybody,   no
//	                          while an event is pending
//	Hold's function           anybody, once                    no
//	Unblock                   anybody, while the task lives;   no
//	                          afterwards too, if it has
//	                          called Block or BlockFor
//	Uses                      the body                         no
//	Context, Label, Runtime,  anybody, while the task lives    no
//	InFinal, Cost
//	Runtime.Spawn, SpawnWith, anybody                          no
//	Dump, Tasks
//	Detached.Done, Err,       anybody                          no
//	OnDone
//	Runtime.Run,              any goroutine but a task's       they wait, as they say
//	Detached.Wait
//	Runtime.Close             any goroutine that no task       it waits, as it says
//	                          waits for
//
// "The body" means: the goroutine that runs the body, on the innermost task that it
// runs. Calls by others panic and name both.
//
// # Debug mode
//
// With [Config.Debug] the runtime keeps books on what tasks declare. Two tasks that may use one
// object at the same time, one of them writing, end the run with [ErrConflict], since an ancestor
// of one has not declared the object; what may be a mistake goes to the log. Without it nothing is
// kept or looked at.
//
// # The watchdog
//
// With [Config.Watchdog] the runtime keeps a list of its tasks, and reports those that are stuck,
// with what they wait for.
//
// Without it, too, it says once, to [Config.Logger] or else [Config.Reports], when tasks have been
// ready for seconds and the bodies on all slots block in a channel, a lock or a system call. Such
// calls belong into [Task.Blocking].
//
// # The window
//
// A task that spawns without end would fill the memory. So it waits when too many of its children
// are alive ([Config.Window]). Children that are blocked or wait for events do not count, and when
// no slot has anything to do, the creator goes on: what the children wait for may not be spawned
// yet. It does so a few milliseconds later, since mostly something comes first. The one program
// that a window can hold up is a child that keeps its slot until its creator goes on; it is to use
// Blocking.
//
// README.md describes the protocols and why they are right.
package task
