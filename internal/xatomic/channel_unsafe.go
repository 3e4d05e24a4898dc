//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "unsafe"

// both returns the channel of which c is one direction: channels are pointers, whatever their type says.
func both[T any](c <-chan T) Chan[T] { return *(*Chan[T])(unsafe.Pointer(&c)) }
