// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"runtime/debug"

	"weft/comm/internal/mem"
	"weft/internal/vec"
)

// Op combines values in reductions. Sum, Min, Max and Prod know the number kinds; OpFunc makes others. The zero Op
// is refused with ErrType.
type Op struct{ impl *opImpl }

type opImpl struct {
	name    string
	id      uint8 // in the aux of collectives; all user operators share one
	commute bool
	kernels kernelTable                // by kind; nil: not for this kind. dst may be a or b
	user    func(in, inout mem.Buffer) // user operator, of contiguous operands that are not empty
	operand *mem.Element               // what a user operator is for
	err     error                      // why a user operator cannot be used
}

const userOp = 255

// ErrOperator: an operator of the program panicked, at this rank or another one; the error also wraps a *PanicError with the value and the stack. The operation is lost, and mostly
// the run.
var ErrOperator = errors.New("the operator of a reduction panicked")

// The operators of this package. They are commutative. Min and Max of floats are NaN if either value is. Complex
// numbers have Sum and Prod only; bools and opaque types have none.
var (
	Sum  = Op{&opImpl{name: "sum", id: 1, commute: true, kernels: sumKernels}}
	Min  = Op{&opImpl{name: "min", id: 2, commute: true, kernels: minKernels}}
	Max  = Op{&opImpl{name: "max", id: 3, commute: true, kernels: maxKernels}}
	Prod = Op{&opImpl{name: "prod", id: 4, commute: true, kernels: prodKernels}}
)

// OpFunc makes an operator of a function over elements of type T, which must be associative. The function sets
// inout[i] to in[i] combined with inout[i], where in is the operand of the lower ranks. If commute is
// false, values are combined in the order of the ranks. The function may be called on any goroutine, also on
// several at once, and must return: it must not block, nor leave its goroutine (runtime.Goexit), which may be one that
// brings messages.
func OpFunc[T any](commute bool, f func(in, inout []T)) Op {
	t := mem.ElementOf[T]()
	o := &opImpl{name: "user operator on " + t.Name, id: userOp, commute: commute, operand: t, err: t.Err}
	if f == nil && t.Err == nil {
		o.err = fmt.Errorf("%w: %s without a function", ErrType, o.name)
	}
	o.user = func(in, inout mem.Buffer) { f(mem.Elements[T](in), mem.Elements[T](inout)) }
	return Op{o}
}

// String returns the operator's name.
func (o Op) String() string {
	if o.impl == nil {
		return "no operator"
	}
	return o.impl.name
}

// Commutes reports whether the operator may be applied in any order of the ranks.
func (o Op) Commutes() bool { return o.impl != nil && o.impl.commute }

// check says whether the operator knows the elements of b.
func (o Op) check(b mem.Buffer) error {
	if o.impl == nil {
		return fmt.Errorf("%w: the operator is the zero Op", ErrType)
	}
	if o.impl.err != nil {
		return o.impl.err
	}
	if b.Element() == nil {
		return nil
	}
	if t := o.impl.operand; t != nil {
		if b.Kind() != t.Kind || b.ElemSize() != t.Size {
			return fmt.Errorf("%w: %s applied to %s elements", ErrType, o.impl.name, b.Element().Name)
		}
		return nil
	}
	if o.impl.kernels[b.Kind()] == nil {
		return fmt.Errorf("%w: %s is not defined for %s elements", ErrType, o.impl.name, b.Element().Name)
	}
	return nil
}

// Apply sets inout to in combined with inout, element by element. The buffers must be contiguous, of one element type and
// length; otherwise, or if the operator does not know the type, it returns ErrBuffer or ErrType and changes nothing.
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
	if err := o.check(in.b); err != nil {
		return err
	}
	return o.apply(in.b, inout.b)
}

// apply is Apply after the checks.
func (o Op) apply(in, inout mem.Buffer) error {
	if in.Element() == nil {
		return nil
	}
	if o.impl.user != nil {
		if in.Len() == 0 {
			return nil
		}
		return o.guarded(in, inout)
	}
	o.impl.kernels[in.Kind()](inout, in, inout)
	return nil
}

// guarded calls a user operator, which may do so on any goroutine, also one of a fabric: what it panics with is an error.
func (o Op) guarded(in, inout mem.Buffer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &operatorError{panic: &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	o.impl.user(in, inout)
	return nil
}

// operatorError is ErrOperator with what the operator panicked with.
type operatorError struct {
	at    string // which rank's, if it is another's
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

// operatorFailed ends the run if err is an operator's panic at this rank, as if the rank's body had panicked: others wait for messages that will not come, and the body may not look at
// the error of the collective. The caller holds nothing.
func (c *Comm) operatorFailed(err error) {
	if op, ok := errors.AsType[*operatorError](err); ok {
		c.world.failed(c.proc.rank, &RankError{Rank: c.proc.rank, Err: op.panic})
	}
}

func sumOf[T vec.Number](dst, a, b mem.Buffer) {
	vec.Sum(mem.Elements[T](dst), mem.Elements[T](a), mem.Elements[T](b))
}
func prodOf[T vec.Number](dst, a, b mem.Buffer) {
	vec.Prod(mem.Elements[T](dst), mem.Elements[T](a), mem.Elements[T](b))
}
func minOf[T vec.Ordered](dst, a, b mem.Buffer) {
	vec.Min(mem.Elements[T](dst), mem.Elements[T](a), mem.Elements[T](b))
}
func maxOf[T vec.Ordered](dst, a, b mem.Buffer) {
	vec.Max(mem.Elements[T](dst), mem.Elements[T](a), mem.Elements[T](b))
}

// combine sets dst to a combined with b. All are contiguous, of one type and length; dst is not a or b, or the same memory.
func (o Op) combine(dst, a, b mem.Buffer) error {
	if dst.Element() != nil && o.impl.user == nil {
		o.impl.kernels[dst.Kind()](dst, a, b)
		return nil
	}
	mem.Copy(dst, b)
	return o.apply(a, dst)
}

type kernelTable = [mem.NumKinds]func(dst, a, b mem.Buffer)

var (
	sumKernels = kernelTable{Byte: sumOf[uint8], Int8: sumOf[int8], Int16: sumOf[int16], Int32: sumOf[int32], Int64: sumOf[int64],
		Uint16: sumOf[uint16], Uint32: sumOf[uint32], Uint64: sumOf[uint64], Float32: sumOf[float32], Float64: sumOf[float64],
		Complex64: sumOf[complex64], Complex128: sumOf[complex128]}
	prodKernels = kernelTable{Byte: prodOf[uint8], Int8: prodOf[int8], Int16: prodOf[int16], Int32: prodOf[int32], Int64: prodOf[int64],
		Uint16: prodOf[uint16], Uint32: prodOf[uint32], Uint64: prodOf[uint64], Float32: prodOf[float32], Float64: prodOf[float64],
		Complex64: prodOf[complex64], Complex128: prodOf[complex128]}
	minKernels = kernelTable{Byte: minOf[uint8], Int8: minOf[int8], Int16: minOf[int16], Int32: minOf[int32], Int64: minOf[int64],
		Uint16: minOf[uint16], Uint32: minOf[uint32], Uint64: minOf[uint64], Float32: minOf[float32], Float64: minOf[float64]}
	maxKernels = kernelTable{Byte: maxOf[uint8], Int8: maxOf[int8], Int16: maxOf[int16], Int32: maxOf[int32], Int64: maxOf[int64],
		Uint16: maxOf[uint16], Uint32: maxOf[uint32], Uint64: maxOf[uint64], Float32: maxOf[float32], Float64: maxOf[float64]}
)
