//go:build !explore && (!weftlint || !race)

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "sync"

// Driven reports whether an explorer chooses whose step is next.
func Driven() bool { return false }

// Mutex is sync.Mutex.
type Mutex = sync.Mutex

// Chan is a channel with room for at least one element, which is not closed.
type Chan[T any] chan T

// Send sends v.
func (c Chan[T]) Send(v T) { c <- v }

// Recv receives.
func (c Chan[T]) Recv() T { return <-c }

// Go runs f on a goroutine of its own.
func Go(f func()) { go f() }
