// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package audit is debug mode. It checks what the tasks of a run declare: at each spawn, at each
// start of a body, and whenever accesses are given up. The engine orders the accesses of the
// children of one task. The audit is for the rest: tasks with different parents that name one
// object.
//
// Two such tasks are linked if every ancestor of either, below their common ancestor, has declared
// the object too, and no less. If an ancestor has not, their accesses to the object do not order
// the tasks, and debug mode warns. The tasks may still be ordered, by another object or by a Wait.
// So it is an error only if both are found able to run at the same time. Two facts make each such
// error true:
//
//   - An access is opened when its task may run: after Register has said so, or by the body itself.
//     It is dropped before the engine learns that it is given up. So while an access is open and
//     not dropped, its task holds it.
//   - All of this happens under one lock of the run. So two accesses that are found open are open
//     at the same moment, and nothing that the program declares or waits for can have ordered the
//     tasks.
//
// The address of an access means one object: the access keeps the object alive until it is given
// up. An object that only one branch of the tree names, such as a variable of the parent, is never
// reported.
//
// Debug mode also warns of declarations that serve no purpose, since they add order and mislead the
// reader. Such are a weak access of which no child, up to the end of the body, names a part; and,
// in a body that states its uses by Uses, a strong access that neither these uses nor a child name.
package audit
