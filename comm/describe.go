// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"strconv"
)

// String describes the request: "Irecv from rank 1, tag 7, at rank 0 of communicator 4 (2 ranks)".
// It is for messages of the program and of watchdogs. Any goroutine may call it at any time.
func (r *Request) String() string {
	what := "a request"
	if d, ok := r.owner.(fmt.Stringer); ok {
		what = d.String()
	}
	if r.done() {
		return what + ", complete"
	}
	return what
}

// NewRequestFor is [NewRequest] for an operation that describes itself: its String becomes the
// request's. Any goroutine must be able to call that String at any time.
func NewRequestFor(what fmt.Stringer) (r *Request, complete func(error)) {
	r, complete = NewRequest()
	r.owner = describedOwner{what}
	return r, complete
}

// DescribeBy sets how reports describe a waiting receive on c: f returns what the receive is for;
// "" leaves the receive out. It is for packages that build on communicators, which call it before
// they receive on c. Any goroutine must be able to call f at any time, and f must not call this
// package.
func (c *Comm) DescribeBy(f func(src, tag int) string) { c.describeRecv = f }

// describedOwner is the owner of a request that cannot be cancelled but has a description.
type describedOwner struct{ fmt.Stringer }

func (describedOwner) cancel() bool { return false }

// A send and a collective are owners of their requests only to name them.

func (op *sendOp) cancel() bool     { return false }
func (x *messageCall) cancel() bool { return false }

func (op *recvOp) String() string {
	return fmt.Sprintf("%s from %s, tag %s, at %s", methodName(op.call.String()), rankName(int(op.entry.Key.Src)), tagName(int(op.entry.Key.Tag)), op.c.label())
}

func (op *sendOp) String() string {
	return fmt.Sprintf("%s of %d bytes to rank %d, tag %d, from %s", methodName(op.op), op.buf.Bytes(), op.dst, op.tag, op.c.label())
}

func (x *messageCall) String() string { return fmt.Sprintf("I%v at %s", x.what, x.c.label()) }

// methodName returns the exported name of an operation that is kept as "irecv".
func methodName(op string) string {
	if op == "" {
		return "an operation"
	}
	return string(op[0]-'a'+'A') + op[1:]
}

func rankName(r int) string {
	if r == AnySource {
		return "any rank"
	}
	return "rank " + strconv.Itoa(r)
}

func tagName(t int) string {
	if t == AnyTag {
		return "any"
	}
	return strconv.Itoa(t)
}
