// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package vec

// Ordered is what can be compared.
type Ordered interface {
	~uint8 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Number is what can be added and multiplied.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

type operation uint8

const (
	sum operation = iota
	prod
	least
	greatest
	numOperations
)
