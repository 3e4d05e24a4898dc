// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package match is the matching engine of one rank, without locks, memory or protocol: the caller
// guards a [Matcher] and acts on what it returns. Posted receives and unexpected messages are kept
// in queues found by hashing, so that the cost of a message does not depend on how many of either
// there are.
//
// A receive has one of four classes, by its wildcards: exact, any source, any tag, both. A posted
// receive is in one queue, that of its class and its given values. An arriving message looks at the
// head of the (at most four) queues that could want it and takes the oldest. An unexpected message
// is in the queue of each class for which it could be wanted, so that a receive (or probe) of any
// class finds the oldest in its own queue's head. Wildcard classes that no receive ever used are
// not kept; the first use of a class files what is there already, once.
//
// An exact receive that is posted when nothing is queued, as most are, waits outside the queues
// (solo). So does a message that comes when nothing is queued (lone). What comes next and does not
// match files it first.
//
// Invariant: in no queue are there both posted receives and unexpected messages.
package match
