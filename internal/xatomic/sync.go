//go:build !explore && (!weftlint || !race)

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "sync"

// Mutex is sync.Mutex.
type Mutex = sync.Mutex

// Send sends v.
func (c Chan[T]) Send(v T) { c <- v }

// Recv receives.
func (c Chan[T]) Recv() T { return <-c }
