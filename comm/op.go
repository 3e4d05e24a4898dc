// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"runtime/debug"

	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Op combines values in reductions. Sum, Min, Max and Prod know the number kinds; OpFunc makes
// others. The zero Op is refused with ErrType.
type Op struct{ impl *coll.Operator }

// ErrOperator: an operator of the program panicked, at this rank or another one; the error also
// wraps a *PanicError with the value and the stack. The operation is lost, and mostly the run.
var ErrOperator = coll.ErrOperator

// The operators of this package. They are commutative. Min and Max of floats are NaN if either
// value is. Complex numbers have Sum and Prod only; bools and opaque types have none.
var (
	Sum  = Op{coll.Sum}
	Min  = Op{coll.Min}
	Max  = Op{coll.Max}
	Prod = Op{coll.Prod}
)

// OpFunc makes an operator of a function over elements of type T, which must be associative. The
// function sets inout[i] to in[i] combined with inout[i], where in is the operand of the lower
// ranks. If commute is false, values are combined in the order of the ranks. The function may be
// called on any goroutine, also on several at once, and must return: it must not block, nor leave
// its goroutine (runtime.Goexit), which may be one that brings messages.
func OpFunc[T any](commute bool, f func(in, inout []T)) Op {
	t := mem.ElementOf[T]()
	if f == nil {
		return Op{coll.NewOperator(t, commute, nil)}
	}
	return Op{coll.NewOperator(t, commute, func(in, inout mem.Buffer) (err error) {
		defer panicked(&err)
		f(mem.Elements[T](in), mem.Elements[T](inout))
		return nil
	})}
}

// panicked turns an operator's panic into an error: the operator may run on any goroutine, also on
// one of a fabric.
func panicked(err *error) {
	if v := recover(); v != nil {
		*err = &operatorError{panic: &PanicError{Value: v, Stack: debug.Stack()}}
	}
}

// String returns the operator's name.
func (o Op) String() string { return o.impl.String() }

// Commutes reports whether the operator may be applied in any order of the ranks.
func (o Op) Commutes() bool { return o.impl.Commutes() }

// Apply sets inout to in combined with inout, element by element. The buffers must be contiguous,
// of one element type and length; otherwise, or if the operator does not know the type, it returns
// ErrBuffer or ErrType and changes nothing.
func (o Op) Apply(in, inout Buffer) error {
	for _, b := range []Buffer{in, inout} {
		if err := b.Err(); err != nil {
			return err
		}
	}
	if in.b.Strided() || inout.b.Strided() || in.Len() != inout.Len() {
		return fmt.Errorf("%w: %v of %d and %d elements; both must be contiguous and equally long", ErrBuffer, o, in.Len(), inout.Len())
	}
	if in.Kind() != inout.Kind() || in.ElemSize() != inout.ElemSize() {
		return mem.Mismatch(inout.b.Kind(), in.b.Kind(), inout.ElemSize(), in.ElemSize())
	}
	if err := o.impl.Check(in.b); err != nil {
		return err
	}
	return o.impl.Apply(in.b, inout.b)
}

// operatorError is ErrOperator with the operator's panic.
type operatorError struct {
	at    string // names the rank, if it is another one
	panic *PanicError
}

func (e *operatorError) cause() *PanicError {
	if e == nil {
		return nil
	}
	return e.panic
}

func (e *operatorError) Error() string {
	return fmt.Sprintf("%v%s: %v\n\n%s", ErrOperator, e.at, e.panic.Value, e.panic.Stack)
}

func (e *operatorError) Unwrap() []error { return []error{ErrOperator, e.panic} }
