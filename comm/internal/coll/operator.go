// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"errors"
	"fmt"

	"weft/comm/internal/mem"
	"weft/internal/vec"
)

// Operator combines values in reductions; nil: none.
type Operator struct {
	name    string
	id      uint8 // in Collective; all user operators share one
	commute bool
	// By kind; nil: not for this kind. dst may be a or b.
	kernels kernelTable
	// A user operator. Its operands are contiguous and not empty.
	user    func(in, inout mem.Buffer) (err error)
	operand *mem.Element // the elements of a user operator
	err     error        // why a user operator cannot be used
}

const userOp = 255

// ErrOperator is ErrOperator of package comm.
var ErrOperator = errors.New("the operator of a reduction panicked")

// The operators of package comm.
var (
	Sum  = &Operator{name: "sum", id: 1, commute: true, kernels: sumKernels}
	Min  = &Operator{name: "min", id: 2, commute: true, kernels: minKernels}
	Max  = &Operator{name: "max", id: 3, commute: true, kernels: maxKernels}
	Prod = &Operator{name: "prod", id: 4, commute: true, kernels: prodKernels}

	operators = [...]*Operator{1: Sum, Min, Max, Prod} // by id
)

// NewOperator makes a user operator on elements of type t. If user is nil, Check returns an error.
func NewOperator(t *mem.Element, commute bool, user func(in, inout mem.Buffer) error) *Operator {
	o := &Operator{name: "user operator on " + t.Name, id: userOp, commute: commute, operand: t, err: t.Err, user: user}
	if user == nil && t.Err == nil {
		o.err = fmt.Errorf("%w: %s without a function", mem.ErrType, o.name)
	}
	return o
}

// String returns the operator's name.
func (o *Operator) String() string {
	if o == nil {
		return "no operator"
	}
	return o.name
}

// Commutes reports whether the operator may be applied in any order of the ranks.
func (o *Operator) Commutes() bool { return o != nil && o.commute }

// Check returns an error if the operator is not defined for the elements of b.
func (o *Operator) Check(b mem.Buffer) error {
	if o == nil {
		return fmt.Errorf("%w: the operator is the zero Op", mem.ErrType)
	}
	if o.err != nil {
		return o.err
	}
	if b.Element() == nil {
		return nil
	}
	if t := o.operand; t != nil {
		if b.Kind() != t.Kind || b.ElemSize() != t.Size {
			return fmt.Errorf("%w: %s applied to %s elements", mem.ErrType, o.name, b.Element().Name)
		}
		return nil
	}
	if o.kernels[b.Kind()] == nil {
		return fmt.Errorf("%w: %s is not defined for %s elements", mem.ErrType, o.name, b.Element().Name)
	}
	return nil
}

// IsUser reports whether the operator is a program's, which may panic or leave its goroutine.
func (o *Operator) IsUser() bool { return o != nil && o.user != nil }

// Apply sets inout to in combined with inout. Both are contiguous, equally long, and of the same
// type, for which the operator is defined.
func (o *Operator) Apply(in, inout mem.Buffer) error {
	if in.Element() == nil {
		return nil
	}
	if o.user != nil {
		if in.Len() == 0 {
			return nil
		}
		return o.user(in, inout)
	}
	o.kernels[in.Kind()](inout, in, inout)
	return nil
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

// combine sets dst to a combined with b. All are contiguous and of the same type and length. The
// memory of dst does not overlap a or b.
func (o *Operator) combine(dst, a, b mem.Buffer) error {
	if dst.Element() != nil && o.user == nil {
		o.kernels[dst.Kind()](dst, a, b)
		return nil
	}
	mem.Copy(dst, b)
	return o.Apply(a, dst)
}

type kernelTable = [mem.NumKinds]func(dst, a, b mem.Buffer)

var (
	sumKernels = kernelTable{mem.Byte: sumOf[uint8], mem.Int8: sumOf[int8], mem.Int16: sumOf[int16], mem.Int32: sumOf[int32], mem.Int64: sumOf[int64],
		mem.Uint16: sumOf[uint16], mem.Uint32: sumOf[uint32], mem.Uint64: sumOf[uint64], mem.Float32: sumOf[float32], mem.Float64: sumOf[float64],
		mem.Complex64: sumOf[complex64], mem.Complex128: sumOf[complex128]}
	prodKernels = kernelTable{mem.Byte: prodOf[uint8], mem.Int8: prodOf[int8], mem.Int16: prodOf[int16], mem.Int32: prodOf[int32], mem.Int64: prodOf[int64],
		mem.Uint16: prodOf[uint16], mem.Uint32: prodOf[uint32], mem.Uint64: prodOf[uint64], mem.Float32: prodOf[float32], mem.Float64: prodOf[float64],
		mem.Complex64: prodOf[complex64], mem.Complex128: prodOf[complex128]}
	minKernels = kernelTable{mem.Byte: minOf[uint8], mem.Int8: minOf[int8], mem.Int16: minOf[int16], mem.Int32: minOf[int32], mem.Int64: minOf[int64],
		mem.Uint16: minOf[uint16], mem.Uint32: minOf[uint32], mem.Uint64: minOf[uint64], mem.Float32: minOf[float32], mem.Float64: minOf[float64]}
	maxKernels = kernelTable{mem.Byte: maxOf[uint8], mem.Int8: maxOf[int8], mem.Int16: maxOf[int16], mem.Int32: maxOf[int32], mem.Int64: maxOf[int64],
		mem.Uint16: maxOf[uint16], mem.Uint32: maxOf[uint32], mem.Uint64: maxOf[uint64], mem.Float32: maxOf[float32], mem.Float64: maxOf[float64]}
)
