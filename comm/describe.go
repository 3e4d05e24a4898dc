// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"strconv"
)

// String says what the request is: "Irecv from rank 1, tag 7, at rank 0 of communicator 4 (2
// ranks)". It is for messages of the program and of watchdogs. Any goroutine may call it at any
// time.
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

// NewRequestFor is [NewRequest] for an operation that says what it is: its String is the request's.
// It must be safe to call by any goroutine at any time.
func NewRequestFor(what fmt.Stringer) (r *Request, complete func(error)) {
	r, complete = NewRequest()
	r.owner = named{what}
	return r, complete
}

// DescribeBy has f say what a receive on c that waits is for, where a report says who waits for
// what; "" leaves it out. It is for packages that build on communicators, before they receive by c.
// f must be safe to call by any goroutine at any time, and must not call this package.
func (c *Comm) DescribeBy(f func(src, tag int) string) { c.told = f }

// named is the owner of a request that cannot be cancelled, but says what it is.
type named struct{ fmt.Stringer }

func (named) cancel() bool { return false }

// A send and a collective are owners for their names only.

func (op *sendOp) cancel() bool     { return false }
func (x *messageCall) cancel() bool { return false }

func (op *recvOp) String() string {
	return fmt.Sprintf("%s from %s, tag %s, at %s", spoken(op.call.String()), rankName(int(op.entry.Key.Src)), tagName(int(op.entry.Key.Tag)), op.c.place())
}

func (op *sendOp) String() string {
	return fmt.Sprintf("%s of %d bytes to rank %d, tag %d, from %s", spoken(op.op), op.buf.Bytes(), op.dst, op.tag, op.c.place())
}

func (x *messageCall) String() string { return fmt.Sprintf("I%v at %s", x.what, x.c.place()) }

// spoken returns the name of a method, which is kept as "irecv".
func spoken(op string) string {
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
