// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"unsafe"

	"weft/comm/internal/match"
)

// The operation of an entry is found by pointer arithmetic. A pointer in the entry would be one
// more cache line to wait for before the addresses of the others are known.

// opOf returns the receive or probe that contains the entry.
func opOf(e *match.Posted) *recvOp {
	return (*recvOp)(unsafe.Add(unsafe.Pointer(e), -int(unsafe.Offsetof(recvOp{}.entry))))
}

// messageOf returns the message that contains the entry.
func messageOf(a *match.Arrival) *message {
	return (*message)(unsafe.Add(unsafe.Pointer(a), -int(unsafe.Offsetof(message{}.entry))))
}

// reused returns the reusedRecv that begins with op. Precondition: op.waiter is not aRequest.
func (op *recvOp) reused() *reusedRecv { return (*reusedRecv)(unsafe.Pointer(op)) }

// fails to compile if a reusedRecv does not begin with its recvOp
const _ = -unsafe.Offsetof(reusedRecv{}.recvOp)
