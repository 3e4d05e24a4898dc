// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package match is the matching engine of one rank, without locks, payloads or protocol: the caller
// guards a [Matcher] and acts on what it returns. Posted receives and unexpected messages are kept
// in queues found by hashing, so the cost of a message does not depend on how many of either there
// are.
//
// A receive has one of four classes, by its wildcards: exact, any source, any tag, both. A posted
// receive is in one queue, that of its class and of its values other than wildcards. For an
// arriving message, the engine reads the heads of the (at most four) queues whose receives match
// it, and takes the oldest. An unexpected message is in the matching queue of each class. So a
// receive or probe of any class finds the oldest message at the head of its own queue. Wildcard
// classes that no receive has ever used are not kept. The first use of a class files the messages
// that are there already, once.
//
// An exact receive that is posted when nothing is queued, as most are, waits outside the queues
// (solo). So does a message that arrives when nothing is queued (lone). The next receive or message
// that does not match it first moves it to its queues.
//
// Invariant: in no queue are there both posted receives and unexpected messages.
package match
