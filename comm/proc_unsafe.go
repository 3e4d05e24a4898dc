// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"unsafe"

	"weft/comm/internal/match"
)

// Whose entry an entry is, is computed: a pointer there would be one more cache line that a rank
// waits for before it knows where the others are.

// opOf returns the receive or probe whose entry this is.
func opOf(e *match.Posted) *recvOp {
	return (*recvOp)(unsafe.Add(unsafe.Pointer(e), -int(unsafe.Offsetof(recvOp{}.entry))))
}

// messageOf returns the message whose entry this is.
func messageOf(a *match.Arrival) *message {
	return (*message)(unsafe.Add(unsafe.Pointer(a), -int(unsafe.Offsetof(message{}.entry))))
}

// reused returns what a receive of ours has besides.
func (op *recvOp) reused() *reusedRecv { return (*reusedRecv)(unsafe.Pointer(op)) }

// fails to compile if a reusedRecv does not begin with its recvOp
const _ = -unsafe.Offsetof(reusedRecv{}.recvOp)
